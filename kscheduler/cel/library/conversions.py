"""Conversions between CEL's own types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from kscheduler.cel.faults import EvaluationError
from kscheduler.cel.functions import Function, Overload, overload
from kscheduler.cel.gofmt import format_float
from kscheduler.cel.library.times import SECOND, Duration, Timestamp, parse_duration, parse_timestamp
from kscheduler.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    parameter,
)
from kscheduler.cel.types import type_of as type_type
from kscheduler.cel.values import MAX_INT64, MAX_UINT64, MIN_INT64, Uint, Value, type_of

_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FLOAT = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:_?[0-9])*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE
)
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+", re.ASCII)
_MAX_DIGITS = 4000


def _fault(source: Type, target: Type) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{source}' to '{target}'")


def _identity(value: Value) -> Value:
    return value


def _string_to_bool(text: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise _fault(STRING, BOOL)


def _string_to_int(text: str) -> int:
    number = _parse_integer(text, MIN_INT64, MAX_INT64)
    if number is None:
        raise _fault(STRING, INT)
    return number


def _string_to_uint(text: str) -> Uint:
    number = _parse_integer(text, 0, MAX_UINT64)
    if number is None or text[0] in "+-":
        raise _fault(STRING, UINT)
    return Uint(number)


def _parse_integer(text: str, least: int, most: int) -> int | None:
    if _INTEGER.fullmatch(text) is None:
        return None
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > 20:
        return None
    number = -int(digits) if text.startswith("-") else int(digits)
    return number if least <= number <= most else None


def _string_to_double(text: str) -> float:
    if len(text) <= _MAX_DIGITS:
        if _HEX_FLOAT.fullmatch(text):
            try:
                return float.fromhex(text)
            except OverflowError:
                raise _fault(STRING, DOUBLE) from None
        if _FLOAT.fullmatch(text) and "_" not in text:
            number = float(text)
            if not math.isinf(number) or "n" in text.lower():
                return number
    raise _fault(STRING, DOUBLE)


def _string_to_duration(text: str) -> Duration:
    duration = parse_duration(text)
    if duration is None:
        raise _fault(STRING, DURATION)
    return duration


def _string_to_timestamp(text: str) -> Timestamp:
    timestamp = parse_timestamp(text)
    if timestamp is None:
        raise _fault(STRING, TIMESTAMP)
    return timestamp


def _double_to_int(number: float) -> int:
    if not -(2.0**63) < number < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(number)


def _double_to_uint(number: float) -> Uint:
    if not 0 <= number < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(number))


def _int_to_uint(number: int) -> Uint:
    if number < 0:
        raise EvaluationError("unsigned integer overflow")
    return Uint(number)


def _uint_to_int(number: Uint) -> int:
    if number > MAX_INT64:
        raise EvaluationError("integer overflow")
    return int(number)


def _int_to_timestamp(seconds: int) -> Timestamp:
    return Timestamp(seconds * SECOND)


def _int_to_duration(_number: int) -> Duration:
    raise _fault(INT, DURATION)


def _bytes_to_string(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _integer_to_string(number: int) -> str:
    return str(int(number))


def to_string(value: Value) -> str:
    """Return a value as text, as `string` does. Raises EvaluationError if it has none."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _integer_to_string(value)
    if isinstance(value, float):
        return format_float(value)
    if isinstance(value, bytes):
        return _bytes_to_string(value)
    if isinstance(value, Duration | Timestamp | Type):
        return str(value) if not isinstance(value, Type) else value.name
    if value is None:
        return "null"
    raise _fault(type_of(value), STRING)


def _conversion(name: str, result: Type, *sources: tuple[str, Type, Callable[[Value], Value]]) -> Function:
    return Function(name, tuple(_overload(id_, source, result, call) for id_, source, call in sources))


def _overload(id_: str, source: Type, result: Type, call: Callable[[Value], Value]) -> Overload:
    return overload(id_, (source,), result, call)


_A = parameter("A")

FUNCTIONS = (
    Function("type", (overload("type", (_A,), type_type(_A)),), type_of),
    Function("dyn", (overload("to_dyn", (_A,), DYN),), _identity),
    _conversion("bool", BOOL, ("bool_to_bool", BOOL, _identity), ("string_to_bool", STRING, _string_to_bool)),
    _conversion(
        "bytes", BYTES, ("bytes_to_bytes", BYTES, _identity), ("string_to_bytes", STRING, lambda text: text.encode())
    ),
    _conversion(
        "double",
        DOUBLE,
        ("double_to_double", DOUBLE, _identity),
        ("int64_to_double", INT, float),
        ("string_to_double", STRING, _string_to_double),
        ("uint64_to_double", UINT, float),
    ),
    _conversion(
        "duration",
        DURATION,
        ("duration_to_duration", DURATION, _identity),
        ("int64_to_duration", INT, _int_to_duration),
        ("string_to_duration", STRING, _string_to_duration),
    ),
    _conversion(
        "int",
        INT,
        ("int64_to_int64", INT, _identity),
        ("double_to_int64", DOUBLE, _double_to_int),
        ("duration_to_int64", DURATION, lambda duration: duration.nanoseconds),
        ("string_to_int64", STRING, _string_to_int),
        ("timestamp_to_int64", TIMESTAMP, lambda time: time.nanoseconds // SECOND),
        ("uint64_to_int64", UINT, _uint_to_int),
    ),
    _conversion(
        "string",
        STRING,
        ("string_to_string", STRING, _identity),
        ("bool_to_string", BOOL, to_string),
        ("bytes_to_string", BYTES, to_string),
        ("double_to_string", DOUBLE, to_string),
        ("duration_to_string", DURATION, to_string),
        ("int64_to_string", INT, to_string),
        ("timestamp_to_string", TIMESTAMP, to_string),
        ("uint64_to_string", UINT, to_string),
    ),
    _conversion(
        "timestamp",
        TIMESTAMP,
        ("timestamp_to_timestamp", TIMESTAMP, _identity),
        ("int64_to_timestamp", INT, _int_to_timestamp),
        ("string_to_timestamp", STRING, _string_to_timestamp),
    ),
    _conversion(
        "uint",
        UINT,
        ("uint64_to_uint64", UINT, _identity),
        ("double_to_uint64", DOUBLE, _double_to_uint),
        ("int64_to_uint64", INT, _int_to_uint),
        ("string_to_uint64", STRING, _string_to_uint),
    ),
)
