"""`format`: puts values into a text in place of its verbs, %s, %d, %f, %e, %b, %x, %X and %o."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kscheduler.cel import types
from kscheduler.cel.faults import EvaluationError
from kscheduler.cel.gofmt import quote
from kscheduler.cel.library.conversions import to_string
from kscheduler.cel.library.times import Duration, Timestamp
from kscheduler.cel.types import Kind, Type
from kscheduler.cel.values import Map, Uint, Value, type_of

DEFAULT_PRECISION = 6
_MAX_PRECISION = 100_000
_SPECIAL = ("NaN", "Infinity", "-Infinity")

REFUSALS = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and"
    " timestamps, was given {}",
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "X": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}
ALLOWED: dict[str, frozenset[Kind]] = {
    "s": frozenset(
        {
            Kind.LIST,
            Kind.MAP,
            Kind.INT,
            Kind.UINT,
            Kind.DOUBLE,
            Kind.BOOL,
            Kind.STRING,
            Kind.TIMESTAMP,
            Kind.BYTES,
            Kind.DURATION,
            Kind.TYPE,
            Kind.NULL,
        }
    ),
    "d": frozenset({Kind.INT, Kind.UINT}),
    "f": frozenset({Kind.DOUBLE, Kind.STRING}),
    "e": frozenset({Kind.DOUBLE, Kind.STRING}),
    "b": frozenset({Kind.INT, Kind.UINT, Kind.BOOL}),
    "x": frozenset({Kind.INT, Kind.UINT, Kind.STRING, Kind.BYTES}),
    "X": frozenset({Kind.INT, Kind.UINT, Kind.STRING, Kind.BYTES}),
    "o": frozenset({Kind.INT, Kind.UINT}),
}


class FormatFault(Exception):
    """A text that is no format. The words are cel-go's."""


class Verb(NamedTuple):
    letter: str
    precision: int = DEFAULT_PRECISION


def parts_of(text: str, count: int) -> Iterator[str | Verb]:
    """Return the texts and verbs of a format for so many arguments. Raises FormatFault where it is none."""
    position, used = 0, 0
    while position < len(text):
        percent = text.find("%", position)
        if percent < 0:
            yield text[position:]
            return
        if percent > position:
            yield text[position:percent]
        if text[percent + 1 : percent + 2] == "%":
            yield "%"
            position = percent + 2
            continue
        if used >= count:
            raise FormatFault(f"index {used} out of range")
        verb, position = _verb(text, percent + 1)
        yield verb
        used += 1


def _verb(text: str, position: int) -> tuple[Verb, int]:
    if position >= len(text):
        raise FormatFault("unexpected end of string")
    precision = DEFAULT_PRECISION
    if text[position] == ".":
        end = position + 1
        while end < len(text) and text[end] in "0123456789":
            end += 1
        if end >= len(text):
            raise FormatFault(_clause("error while parsing precision: could not find end of precision specifier"))
        digits = text[position + 1 : end]
        if not digits or len(digits) > 18:
            reason = "value out of range" if digits else "invalid syntax"
            raise FormatFault(
                _clause(
                    "error while parsing precision: error while converting precision to integer:"
                    f" strconv.Atoi: parsing {quote(digits)}: {reason}"
                )
            )
        precision, position = int(digits), end
    letter = text[position]
    if letter not in REFUSALS:
        first = letter.encode()[:1].decode("latin-1")
        raise FormatFault(_clause(f'unrecognized formatting clause "{first}"'))
    return Verb(letter, precision), position + 1


def _clause(reason: str) -> str:
    return f"could not parse formatting clause: {reason}"


def format_text(text: str, arguments: list[Value]) -> str:
    """Return the text with the arguments put in. Raises EvaluationError."""
    parts, used = [], 0
    try:
        for part in parts_of(text, len(arguments)):
            if isinstance(part, str):
                parts.append(part)
            else:
                parts.append(_format(part, arguments[used]))
                used += 1
    except FormatFault as fault:
        raise EvaluationError(str(fault)) from None
    return "".join(parts)


def _format(verb: Verb, value: Value) -> str:
    try:
        match verb.letter:
            case "s":
                return _format_string(value)
            case "f" | "e":
                return _format_double(verb, value)
        return _FORMATTERS[verb.letter](value)
    except FormatFault as fault:
        raise FormatFault(f"error during formatting: {fault}") from None


def _refused(letter: str, value: Value) -> FormatFault:
    return FormatFault(REFUSALS[letter].format(type_of(value).name))


def _format_string(value: Value) -> str:
    if isinstance(value, list):
        return _format_list(value)
    if isinstance(value, Map):
        return _format_map(value)
    if type_of(value).kind in ALLOWED["s"]:
        try:
            return to_string(value)
        except EvaluationError as error:
            raise FormatFault(f"could not convert argument {quote(str(error))} to string") from None
    raise _refused("s", value)


def _decimal(value: Value) -> str:
    if type(value) in (int, Uint):
        return str(int(value))
    raise _refused("d", value)


def _binary(value: Value) -> str:
    if isinstance(value, int):
        return f"{int(value):b}"
    raise _refused("b", value)


def _octal(value: Value) -> str:
    if type(value) in (int, Uint):
        return f"{int(value):o}"
    raise _refused("o", value)


def _hex(letter: str) -> Callable[[Value], str]:
    def convert(value: Value) -> str:
        if isinstance(value, str):
            text = value.encode().hex()
        elif isinstance(value, bytes):
            text = value.hex()
        elif type(value) in (int, Uint):
            text = f"{int(value):x}"
        else:
            raise _refused(letter, value)
        return text.upper() if letter == "X" else text

    return convert


_FORMATTERS: dict[str, Callable[[Value], str]] = {
    "d": _decimal,
    "b": _binary,
    "o": _octal,
    "x": _hex("x"),
    "X": _hex("X"),
}


def _format_double(verb: Verb, value: Value) -> str:
    number = float(value.replace("Infinity", "inf")) if isinstance(value, str) and value in _SPECIAL else value
    if not isinstance(number, float):
        raise _refused(verb.letter, value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    precision = min(verb.precision, _MAX_PRECISION)
    if verb.letter == "f":
        return f"{number:,.{precision}f}"
    # Go prints with the symbols of English: 1.5 × 10⁰³.
    mantissa, _, exponent = f"{number:.{precision}e}".partition("e")
    digits = exponent.lstrip("+-").translate(_SUPERSCRIPT)
    sign = "⁻" if exponent.startswith("-") else ""
    return f"{mantissa}\u202f×\u202f10{sign}{digits}"


_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


# --- lists and maps -------------------------------------------------------------------------------------------------


def _format_list(values: list[Value]) -> str:
    return f"[{', '.join(map(_element, values))}]"


def _format_map(values: Map) -> str:
    pairs = []
    for key in values:
        if type(key) not in (str, bool, int, Uint):
            raise FormatFault(f"no formatting function for map key of type {type_of(key).name}")
        pairs.append((_quoted(key, to_string(key)), _element(values.find(key)[0])))
    return "{" + ", ".join(f"{key}:{value}" for key, value in sorted(pairs, key=lambda pair: pair[0])) + "}"


def _element(value: Value) -> str:
    if isinstance(value, Timestamp):
        return f"timestamp({quote(str(value))})"
    if isinstance(value, Duration):
        return f"duration({quote(str(value))})"
    if type(value) is float:
        text = "NaN" if math.isnan(value) else "+Inf" if value == math.inf else "-Inf" if math.isinf(value) else ""
        return quote(text) if text else f"{value:.{DEFAULT_PRECISION}f}"
    if isinstance(value, list | Map) or type_of(value).kind in ALLOWED["s"]:
        return _quoted(value, _format_string(value))
    raise FormatFault(f"no formatting function for {type_of(value).name}")


def _quoted(value: Value, text: str) -> str:
    if isinstance(value, str):
        return quote(text)
    return f"b{quote(text)}" if isinstance(value, bytes) else text


def is_allowed(letter: str, type_: Type) -> bool:
    """Return whether a verb takes values of a static type."""
    return type_ == types.DYN or type_.kind in ALLOWED[letter]
