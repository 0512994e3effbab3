"""CEL's operators and `size`, apart from those that the planner evaluates itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from kscheduler.cel.faults import EvaluationError, no_such_overload
from kscheduler.cel.functions import Function, Overload, method, overload
from kscheduler.cel.library.times import Duration, Timestamp
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
    list_of,
    map_of,
    optional_of,
    parameter,
)
from kscheduler.cel.values import (
    MAX_INT64,
    MAX_UINT64,
    MIN_INT64,
    Accumulator,
    Map,
    Uint,
    Value,
    compare,
    is_ordered,
    surely_equal,
)

_A, _B = parameter("A"), parameter("B")
_RECEIVERS = (str, Duration, Timestamp)  # types that cel-go asks for an operator that they do not have


def _refuse(operator: str, operand: Value) -> EvaluationError:
    """Return the error of an operator whose first operand has no such operator."""
    return no_such_overload() if isinstance(operand, _RECEIVERS) else EvaluationError(f"no such overload: {operator}")


# --- arithmetic -----------------------------------------------------------------------------------------------------


def _int64(number: int) -> int:
    if MIN_INT64 <= number <= MAX_INT64:
        return number
    raise EvaluationError("integer overflow")


def _uint64(number: int) -> Uint:
    if 0 <= number <= MAX_UINT64:
        return Uint(number)
    raise EvaluationError("unsigned integer overflow")


def _add(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return _int64(left + right)
        if kind in (str, float, bytes):
            return left + right
        if kind is Uint:
            return _uint64(int(left) + int(right))
    if isinstance(left, list) and isinstance(right, list):
        if kind is Accumulator:
            left.extend(right)
            return left
        return left + right
    if isinstance(left, Duration | Timestamp):
        return left.plus(right)
    if kind in (int, str, float, bytes, Uint) or isinstance(left, list):
        raise no_such_overload()
    raise _refuse("_+_", left)


def _subtract(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind in (int, float, Uint):
        if kind is not type(right):
            raise no_such_overload()
        if kind is int:
            return _int64(left - right)
        return left - right if kind is float else _uint64(int(left) - int(right))
    if isinstance(left, Duration | Timestamp):
        return left.minus(right)
    raise _refuse("_-_", left)


def _multiply(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind not in (int, float, Uint):
        raise _refuse("_*_", left)
    if kind is not type(right):
        raise no_such_overload()
    if kind is int:
        return _int64(left * right)
    return left * right if kind is float else _uint64(int(left) * int(right))


def _divide(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind not in (int, float, Uint):
        raise _refuse("_/_", left)
    if kind is not type(right):
        raise no_such_overload()
    if kind is float:
        return _divide_floats(left, right)
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    return Uint(quotient) if kind is Uint else _int64(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_floats(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _modulo(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind not in (int, Uint):
        raise _refuse("_%_", left)
    if kind is not type(right):
        raise no_such_overload()
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == MIN_INT64 and right == -1:
        raise EvaluationError("integer overflow")
    rest = abs(int(left)) % abs(int(right))
    return Uint(rest) if kind is Uint else (-rest if left < 0 else rest)


def _negate(operand: Value) -> Value:
    if type(operand) is int:
        return _int64(-operand)
    if type(operand) is float:
        return -operand
    if isinstance(operand, Duration):
        return operand.negated()
    if isinstance(operand, bool):
        raise no_such_overload()
    raise _refuse("-_", operand)


# --- logic and order ------------------------------------------------------------------------------------------------


def _not(operand: Value) -> bool:
    if not isinstance(operand, bool):
        raise no_such_overload()
    return not operand


def _ordering(operator: str, holds: Callable[[int], bool]) -> Callable[[Value, Value], bool]:
    def relation(left: Value, right: Value) -> bool:
        if not is_ordered(left):
            raise _refuse(operator, left)
        return holds(compare(left, right))

    return relation


def _in(element: Value, container: Value) -> bool:
    if isinstance(container, list):
        return any(surely_equal(element, each) for each in container)
    if isinstance(container, Map):
        return element in container
    raise no_such_overload()


def _size(value: Value) -> int:
    if isinstance(value, str | bytes | list | Map):
        return len(value)
    raise _refuse("size", value)


# --- declarations ---------------------------------------------------------------------------------------------------

_NAMES: Final = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "duration": DURATION,
    "int64": INT,
    "string": STRING,
    "timestamp": TIMESTAMP,
    "uint64": UINT,
}
_ORDERED = (
    "bool int64 int64_double int64_uint64 uint64 uint64_double uint64_int64 double double_int64 double_uint64 string"
    " bytes timestamp duration"
).split()


def _relations(name: str) -> tuple[Overload, ...]:
    found = []
    for suffix in _ORDERED:
        left, _, right = suffix.partition("_")
        found.append(overload(f"{name}_{suffix}", (_NAMES[left], _NAMES[right or left]), BOOL))
    return tuple(found)


def _same_types(name: str, *suffixes: str) -> tuple[Overload, ...]:
    return tuple(overload(f"{name}_{each}", (_NAMES[each], _NAMES[each]), _NAMES[each]) for each in suffixes)


def _pair(name: str, left: Type, right: Type, result: Type) -> Overload:
    return overload(name, (left, right), result)


_LIST, _MAP = list_of(_A), map_of(_A, _B)
_V = parameter("V")
_OPTIONAL_INDEXING = (
    _pair("optional_list_index_int", optional_of(list_of(_V)), INT, optional_of(_V)),
    _pair("optional_map_index_value", optional_of(map_of(parameter("K"), _V)), parameter("K"), optional_of(_V)),
)

FUNCTIONS = (
    Function("_?_:_", (overload("conditional", (BOOL, _A, _A), _A),)),
    Function("_&&_", (overload("logical_and", (BOOL, BOOL), BOOL),)),
    Function("_||_", (overload("logical_or", (BOOL, BOOL), BOOL),)),
    Function("!_", (overload("logical_not", (BOOL,), BOOL),), _not),
    Function("@not_strictly_false", (overload("not_strictly_false", (BOOL,), BOOL),), lambda value: value),
    Function("_==_", (_pair("equals", _A, _A, BOOL),)),
    Function("_!=_", (_pair("not_equals", _A, _A, BOOL),)),
    Function(
        "_+_",
        (
            *_same_types("add", "bytes", "double"),
            _pair("add_duration_duration", DURATION, DURATION, DURATION),
            _pair("add_duration_timestamp", DURATION, TIMESTAMP, TIMESTAMP),
            _pair("add_timestamp_duration", TIMESTAMP, DURATION, TIMESTAMP),
            *_same_types("add", "int64"),
            _pair("add_list", _LIST, _LIST, _LIST),
            *_same_types("add", "string", "uint64"),
        ),
        _add,
    ),
    Function("_/_", _same_types("divide", "double", "int64", "uint64"), _divide),
    Function("_%_", _same_types("modulo", "int64", "uint64"), _modulo),
    Function("_*_", _same_types("multiply", "double", "int64", "uint64"), _multiply),
    Function("-_", (overload("negate_double", (DOUBLE,), DOUBLE), overload("negate_int64", (INT,), INT)), _negate),
    Function(
        "_-_",
        (
            *_same_types("subtract", "double"),
            _pair("subtract_duration_duration", DURATION, DURATION, DURATION),
            *_same_types("subtract", "int64"),
            _pair("subtract_timestamp_duration", TIMESTAMP, DURATION, TIMESTAMP),
            _pair("subtract_timestamp_timestamp", TIMESTAMP, TIMESTAMP, DURATION),
            *_same_types("subtract", "uint64"),
        ),
        _subtract,
    ),
    Function("_<_", _relations("less"), _ordering("_<_", lambda order: order < 0)),
    Function("_<=_", _relations("less_equals"), _ordering("_<=_", lambda order: order <= 0)),
    Function("_>_", _relations("greater"), _ordering("_>_", lambda order: order > 0)),
    Function("_>=_", _relations("greater_equals"), _ordering("_>=_", lambda order: order >= 0)),
    Function(
        "_[_]",
        (_pair("index_list", _LIST, INT, _A), _pair("index_map", _MAP, _A, _B), *_OPTIONAL_INDEXING),
    ),
    Function(
        "_[?_]",
        (
            _pair("list_optindex_optional_int", list_of(_V), INT, optional_of(_V)),
            _pair("optional_list_optindex_optional_int", optional_of(list_of(_V)), INT, optional_of(_V)),
            _pair("map_optindex_optional_value", map_of(_A, _V), _A, optional_of(_V)),
            _pair("optional_map_optindex_optional_value", optional_of(map_of(_A, _V)), _A, optional_of(_V)),
        ),
    ),
    Function("_?._", (_pair("select_optional_field", DYN, STRING, optional_of(_V)),)),
    Function("@in", (_pair("in_list", _A, _LIST, BOOL), _pair("in_map", _A, _MAP, BOOL)), _in),
    Function(
        "size",
        (
            overload("size_bytes", (BYTES,), INT),
            method("bytes_size", (BYTES,), INT),
            overload("size_list", (_LIST,), INT),
            method("list_size", (_LIST,), INT),
            overload("size_map", (_MAP,), INT),
            method("map_size", (_MAP,), INT),
            overload("size_string", (STRING,), INT),
            method("string_size", (STRING,), INT),
        ),
        _size,
    ),
)
