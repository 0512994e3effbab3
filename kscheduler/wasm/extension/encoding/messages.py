"""Encodes JSON documents as protobuf, exactly as Kubernetes' Go encoder writes them.

Fields come in the order of their numbers, maps in the order of their keys; a field that Go cannot leave out is written
even if it is empty, and guests rely on that. Each message of the schema becomes a list of field writers, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from kscheduler.errors import DecodeError
from kscheduler.wasm.extension.encoding.quantities import canonical_quantity
from kscheduler.wasm.extension.encoding.schema import TABLE

Document = Mapping[str, Any]  # a decoded JSON object
Write = Callable[[Any], bytes]  # encodes a value without its tag; with its length if it is length-delimited

_VARINT, _DELIMITED = 0, 2
_MASK64 = (1 << 64) - 1


def encode(message: str, document: Document) -> bytes:
    """Encode a document as the named message.

    Raises DecodeError with the field's path for a value of the wrong type.
    """
    try:
        return _MESSAGES[message].body(document)
    except _WrongValue as error:
        raise DecodeError(f"{message}{error.path}: {error.message}") from error


def varint(value: int) -> bytes:
    """Encode an integer as a protobuf varint; negative numbers take ten bytes."""
    value &= _MASK64
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE = [bytes([value]) for value in range(0x80)]


def delimited(data: bytes) -> bytes:
    return varint(len(data)) + data


def tag(number: int, wire_type: int = _DELIMITED) -> bytes:
    return varint(number << 3 | wire_type)


class _WrongValue(Exception):
    """A value has the wrong type. Each enclosing field through which the exception passes adds its name to `path`."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.path = ""

    def under(self, name: str) -> _WrongValue:
        self.path = name + self.path
        return self


def _wrong(expected: str, value: Any) -> _WrongValue:
    shown = repr(value)
    return _WrongValue(f"expected {expected}, got {shown if len(shown) <= 60 else shown[:60] + '...'}")


# --- values ---------------------------------------------------------------------------------------------------------


def _string(value: Any) -> bytes:
    if value is None:
        return b"\0"
    if not isinstance(value, str):
        raise _wrong("a string", value)
    return delimited(value.encode("utf-8", "replace"))


def _bool(value: Any) -> bytes:
    if value is None:
        return b"\0"
    if not isinstance(value, bool):
        raise _wrong("true or false", value)
    return b"\1" if value else b"\0"


def _int(value: Any) -> bytes:
    if value is None:
        return b"\0"
    if not isinstance(value, int) or isinstance(value, bool) or not -1 << 63 <= value < 1 << 63:
        raise _wrong("an integer", value)
    return varint(value)


def _time(value: Any) -> bytes:
    """Encode a time in whole seconds, as Kubernetes does. None and Go's zero time (year 1) give an empty message."""
    if value is None:
        return b"\0"
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00").replace("z", "+00:00"))
        if moment.tzinfo is None:
            raise ValueError("no time zone")
    except (AttributeError, ValueError) as error:
        raise _wrong("a time such as 2006-01-02T15:04:05Z", value) from error
    seconds = (moment - _EPOCH).total_seconds() // 1
    if seconds == _YEAR_ONE and not moment.microsecond:
        return b"\0"
    return delimited(tag(1, _VARINT) + varint(int(seconds)) + tag(2, _VARINT) + b"\0")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_ONE = -62_135_596_800  # Go's zero time


def _quantity(value: Any) -> bytes:
    if value is None:
        value = "0"
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise _wrong("a quantity", value)
    try:
        text = canonical_quantity(value)
    except DecodeError as error:
        raise _WrongValue(str(error)) from error
    return delimited(tag(1) + delimited(text.encode()))


def _int_or_string(value: Any) -> bytes:
    number, text = (0, value) if isinstance(value, str) else (value, "")
    kind = 1 if isinstance(value, str) else 0
    return delimited(
        tag(1, _VARINT) + _int(kind) + tag(2, _VARINT) + _int(number) + tag(3) + delimited(text.encode("utf-8"))
    )


_KINDS: Mapping[str, tuple[int, Write]] = {  # kind in the schema -> wire type, and encoder of values
    "string": (_DELIMITED, _string),
    "bool": (_VARINT, _bool),
    "int": (_VARINT, _int),
    "Time": (_DELIMITED, _time),
    "Quantity": (_DELIMITED, _quantity),
    "IntOrString": (_DELIMITED, _int_or_string),
}


# --- messages -------------------------------------------------------------------------------------------------------


class _Message:
    """Encodes one kind of message. Its fields are set once all kinds exist, since some contain themselves."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._fields: list[_Field] = []

    def define(self, fields: list[_Field]) -> None:
        self._fields = fields

    def body(self, document: Document) -> bytes:
        out: list[bytes] = []
        for field in self._fields:
            field.write(document, out)
        return b"".join(out)

    def delimited(self, document: Any) -> bytes:
        """Encode the message with its length, as a field of another message."""
        if document is None:
            document = {}
        if not isinstance(document, Mapping):
            raise _wrong("an object", document)
        return delimited(self.body(document))


class _Field:
    """One field of a message; `write` appends its tag and value if it is present or must always be written."""

    def __init__(self, name: str, number: int, wire_type: int, value: Write) -> None:
        self.name = name
        self.tag = tag(number, wire_type)
        self.value = value

    def write(self, document: Document, out: list[bytes]) -> None:
        try:
            self._write(document.get(self.name), out)
        except _WrongValue as error:
            raise error.under(f".{self.name}") from error

    def _write(self, value: Any, out: list[bytes]) -> None:
        """Append the field, even if the value is absent; the encoding of an absent value is computed once."""
        out.append(self.tag)
        out.append(self._empty if value is None else self.value(value))

    @property
    def _empty(self) -> bytes:
        found = self.__dict__.get("empty")
        if found is None:
            found = self.__dict__["empty"] = self.value(None)
        return found


class _Optional(_Field):
    def _write(self, value: Any, out: list[bytes]) -> None:
        if value is not None:
            out.append(self.tag)
            out.append(self.value(value))


class _List(_Field):
    def _write(self, value: Any, out: list[bytes]) -> None:
        if value is None:
            return
        if not isinstance(value, (list, tuple)):
            raise _wrong("a list", value)
        for index, item in enumerate(value):
            try:
                out.append(self.tag)
                out.append(self.value(item))
            except _WrongValue as error:
                raise error.under(f"[{index}]") from error


class _Map(_Field):
    """A map field. Each entry is a message of a key and a value, both of which are always written."""

    def _write(self, value: Any, out: list[bytes]) -> None:
        if value is None:
            return
        if not isinstance(value, Mapping):
            raise _wrong("an object", value)
        for key in sorted(value, key=_code_units):
            try:
                out.append(self.tag)
                out.append(delimited(_KEY + _string(key) + _VALUE + self.value(value[key])))
            except _WrongValue as error:
                raise error.under(f"[{key}]") from error


_KEY, _VALUE = tag(1), tag(2)


def _code_units(key: str) -> bytes:
    """Return the sort key of a map's key, since Go sorts strings by their bytes."""
    return key.encode("utf-8", "replace")


class _Inlined(_Field):
    """A message whose fields are part of the enclosing object in JSON."""

    def write(self, document: Document, out: list[bytes]) -> None:
        out.append(self.tag)
        out.append(self.value(document))


_SHAPES: Mapping[str, type[_Field]] = {"?": _Optional, "*": _List, "%": _Map}


def _read_schema(table: str) -> Mapping[str, _Message]:
    definitions: dict[str, list[str]] = {}  # message -> its fields as written in the table
    for word in table.split():
        if word.endswith(":"):
            fields = definitions.setdefault(word[:-1], [])
        else:
            fields.append(word)
    messages = {name: _Message(name) for name in definitions}
    for name, words in definitions.items():
        messages[name].define([_read_field(word, messages) for word in words])
    return messages


def _read_field(word: str, messages: Mapping[str, _Message]) -> _Field:
    name, _, rest = word.partition("=")
    number, _, kind = rest.partition(":")
    shape = _SHAPES.get(kind[-1], _Field) if name else _Inlined
    kind = kind.rstrip("?*%")
    wire_type, value = _KINDS[kind] if kind in _KINDS else (_DELIMITED, messages[kind].delimited)
    return shape(name, int(number), wire_type, value)


_MESSAGES = _read_schema(TABLE)
