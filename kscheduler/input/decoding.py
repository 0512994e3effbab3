"""Decodes bytes and documents from outside to typed values: the only module that calls msgspec's decoders.

They fail in more ways than msgspec names: a byte that is no UTF-8 is a UnicodeDecodeError, nesting without end a
RecursionError, a number of any length may be an OverflowError. All of them become a DecodeError here, so that
no input ends the process. Its text says what was expected and what came, or at which byte reading ended,
and quotes none of the bytes: an answer may hold a token. A MemoryError passes.

`ruff` refuses these functions of msgspec, and of `json`, elsewhere (`banned-api` in pyproject.toml).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar, overload

import msgspec

from kscheduler.errors import DecodeError

T = TypeVar("T")
Raw = bytes | bytearray | msgspec.Raw

# MsgspecError and UnicodeError are ValueErrors by accident of their present versions; each is named for itself.
_FAULTS: Final = (msgspec.MsgspecError, UnicodeError, ValueError, OverflowError, RecursionError)

# A pair of surrogates; one without its other half; any other escape, so that `\\ud800` is not taken for one.
_ESCAPE: Final = re.compile(
    rb"(?s)\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


@overload
def json_decoder(kind: type[T], *, as_go: bool = False) -> Callable[[Raw], T]: ...


@overload
def json_decoder(kind: object, *, as_go: bool = False) -> Callable[[Raw], Any]: ...


def json_decoder(kind: Any, *, as_go: bool = False) -> Callable[[Raw], Any]:
    """Return a function that decodes JSON as `kind`, and raises DecodeError only. Make it once: it is expensive.

    `as_go`: a text that cannot be read is read once more `with_unicode`.
    """
    decode: Callable[[Raw], Any] = msgspec.json.Decoder(kind).decode

    def decode_json(raw: Raw) -> Any:
        try:
            return decode(raw)
        except _FAULTS as error:
            if as_go and (mended := with_unicode(raw)) != bytes(raw):
                return strictly(mended)
            raise DecodeError(_fault(error)) from error

    strictly = json_decoder(kind) if as_go else decode_json
    return decode_json


@overload
def msgpack_decoder(kind: type[T]) -> Callable[[bytes], T]: ...


@overload
def msgpack_decoder(kind: object) -> Callable[[bytes], Any]: ...


def msgpack_decoder(kind: Any) -> Callable[[bytes], Any]:
    """Return a function that decodes msgpack as `kind`, and raises DecodeError only."""
    decode: Callable[[bytes], Any] = msgspec.msgpack.Decoder(kind).decode

    def decode_msgpack(raw: bytes) -> Any:
        try:
            return decode(raw)
        except _FAULTS as error:
            raise DecodeError(_fault(error)) from error

    return decode_msgpack


def check_utf8(raw: bytes) -> None:
    """Raise DecodeError for a byte that is no UTF-8, wherever it stands.

    A decoder looks only at texts that it keeps: a damaged key or value that it skips would pass unseen.
    """
    if raw.isascii():
        return
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(_fault(error)) from error


def with_unicode(raw: Raw) -> bytes:
    """Replace bytes that are no UTF-8, and escapes that are half a surrogate pair, by U+FFFD, as Go does."""
    return _ESCAPE.sub(_mend_escape, bytes(raw).decode("utf-8", "replace").encode())


def _mend_escape(found: re.Match[bytes]) -> bytes:
    return found.group() if found["lone"] is None else rb"\ufffd"


# JSON as dicts and lists.
decode_document: Final[Callable[[Raw], Any]] = json_decoder(object, as_go=True)


def convert(
    document: object,
    kind: type[T],
    *,
    dec_hook: Callable[[type[Any], Any], Any] | None = None,
    from_attributes: bool = False,
) -> T:
    """Convert dicts and lists, or an object of another class, to `kind`.

    Raises DecodeError; and what `dec_hook` raises, unless that is a ValueError.
    """
    try:
        return msgspec.convert(document, kind, dec_hook=dec_hook, from_attributes=from_attributes)
    except _FAULTS as error:
        raise DecodeError(_fault(error)) from error


def decode_loosely(text: str | bytes) -> Any:
    """Decode JSON as Python's own library does, NaN included: for answers of this program that people look at."""
    try:
        return json.loads(text)
    except _FAULTS as error:
        raise DecodeError(_fault(error)) from error


def _fault(error: Exception) -> str:
    """Describe a decoder's exception without quoting the text; msgspec's messages ("Expected `int` ...") stay."""
    if isinstance(error, UnicodeDecodeError):
        return f"expected UTF-8, got a byte {error.object[error.start]:#04x}"
    if isinstance(error, RecursionError):
        return "expected values within values to some depth, got deeper ones"
    return str(error)
