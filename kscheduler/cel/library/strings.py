"""Functions of strings: those of the standard library and of cel-go's extension, version 2."""

from __future__ import annotations

from kscheduler.cel.faults import EvaluationError, no_such_overload
from kscheduler.cel.functions import Function, method, overload
from kscheduler.cel.library.formatting import format_text
from kscheduler.cel.types import BOOL, DYN, INT, STRING, list_of
from kscheduler.cel.values import Value, shown

# Go's strings.TrimSpace trims Unicode's White_Space, which Python's strip exceeds by a few control characters.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


def _strings(*values: Value) -> None:
    if not all(isinstance(value, str) for value in values):
        raise no_such_overload()


def _contains(text: str, part: str) -> bool:
    _strings(text, part)
    return part in text


def _ends_with(text: str, part: str) -> bool:
    _strings(text, part)
    return text.endswith(part)


def _starts_with(text: str, part: str) -> bool:
    _strings(text, part)
    return text.startswith(part)


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise EvaluationError(f"index out of range: {offset}")
    return text.find(part, offset)


def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part) if part else len(text)


def _last_index_of_before(text: str, part: str, offset: int) -> int:
    if not part:
        return offset
    if offset < 0:
        raise EvaluationError(f"index out of range: {offset}")
    return -1 if offset >= len(text) else text.rfind(part, 0, offset + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if not separator:
        if count < 0 or count >= len(text):
            return list(text)
        return [*text[: count - 1], text[count - 1 :]]
    return text.split(separator, count - 1 if count > 0 else -1)


def _substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    return text[start:]


def _substring_to(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise EvaluationError(f"index out of range: {index}")
    return text[start:end]


def _join(texts: list[Value], separator: str = "") -> str:
    for text in texts:
        if not isinstance(text, str):
            raise EvaluationError(f"join: invalid input: {shown(text)}")
    return separator.join(texts)


_QUOTED = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


_TEXTS = list_of(STRING)

FUNCTIONS = (
    Function("contains", (method("contains_string", (STRING, STRING), BOOL, _contains),), unchecked=True),
    Function("endsWith", (method("ends_with_string", (STRING, STRING), BOOL, _ends_with),), unchecked=True),
    Function("startsWith", (method("starts_with_string", (STRING, STRING), BOOL, _starts_with),), unchecked=True),
    Function("charAt", (method("string_char_at_int", (STRING, INT), STRING, _char_at),)),
    Function(
        "indexOf",
        (
            method("string_index_of_string", (STRING, STRING), INT, _index_of),
            method("string_index_of_string_int", (STRING, STRING, INT), INT, _index_of),
        ),
    ),
    Function(
        "lastIndexOf",
        (
            method("string_last_index_of_string", (STRING, STRING), INT, _last_index_of),
            method("string_last_index_of_string_int", (STRING, STRING, INT), INT, _last_index_of_before),
        ),
    ),
    Function("lowerAscii", (method("string_lower_ascii", (STRING,), STRING, lambda text: text.translate(_LOWER)),)),
    Function("upperAscii", (method("string_upper_ascii", (STRING,), STRING, lambda text: text.translate(_UPPER)),)),
    Function(
        "replace",
        (
            method("string_replace_string_string", (STRING, STRING, STRING), STRING, _replace),
            method("string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, _replace),
        ),
    ),
    Function(
        "split",
        (
            method("string_split_string", (STRING, STRING), _TEXTS, _split),
            method("string_split_string_int", (STRING, STRING, INT), _TEXTS, _split),
        ),
    ),
    Function(
        "substring",
        (
            method("string_substring_int", (STRING, INT), STRING, _substring),
            method("string_substring_int_int", (STRING, INT, INT), STRING, _substring_to),
        ),
    ),
    Function("trim", (method("string_trim", (STRING,), STRING, lambda text: text.strip(_SPACE)),)),
    Function("format", (method("string_format", (STRING, list_of(DYN)), STRING, format_text),)),
    Function("strings.quote", (overload("strings_quote", (STRING,), STRING, _quote),)),
    Function(
        "join",
        (
            method("list_join", (_TEXTS,), STRING, _join),
            method("list_join_string", (_TEXTS, STRING), STRING, _join),
        ),
    ),
)
