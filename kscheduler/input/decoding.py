"""Decodes bytes and documents from outside to typed values. It is the only module that calls msgspec's decoders.

They fail in more ways than msgspec documents: a byte that is not UTF-8 raises UnicodeDecodeError, very deep nesting
RecursionError, and a very long number may raise OverflowError. All of them become a DecodeError here, so that no input
ends the process. Its text has what was expected and what was found, or at which byte decoding stopped, but quotes none
of the bytes, because an answer may contain a token. A MemoryError is not caught.

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

# What msgspec's decoders raise. MsgspecError and UnicodeError are ValueErrors by accident of their present versions;
# each is named for itself.
FAULTS: Final = (msgspec.MsgspecError, UnicodeError, ValueError, OverflowError, RecursionError)

# A pair of surrogates; one without its other half; any other escape, so that `\\ud800` is not taken for one.
_ESCAPE: Final = re.compile(
    rb"(?s)\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


@overload
def json_decoder(kind: type[T], *, as_go: bool = False) -> Callable[[Raw], T]: ...


@overload
def json_decoder(kind: object, *, as_go: bool = False) -> Callable[[Raw], Any]: ...


def json_decoder(kind: Any, *, as_go: bool = False) -> Callable[[Raw], Any]:
    """Return a function that decodes JSON to `kind`, and raises only DecodeError.

    Create it once, because it is expensive. With `as_go`, a text that cannot be decoded is tried again after
    `with_unicode` has replaced invalid characters.
    """
    decode: Callable[[Raw], Any] = msgspec.json.Decoder(kind).decode

    def decode_json(raw: Raw) -> Any:
        try:
            return decode(raw)
        except FAULTS as error:
            if as_go and (mended := with_unicode(raw)) != bytes(raw):
                return strictly(mended)
            raise DecodeError(_fault(error)) from error

    strictly = json_decoder(kind) if as_go else decode_json
    return decode_json


def bare_json_decoder(kind: type[T]) -> Callable[[Raw], T]:
    """Return msgspec's own function that decodes JSON as `kind` and raises FAULTS: for one who need not know which."""
    return msgspec.json.Decoder(kind).decode


@overload
def msgpack_decoder(kind: type[T]) -> Callable[[bytes], T]: ...


@overload
def msgpack_decoder(kind: object) -> Callable[[bytes], Any]: ...


def msgpack_decoder(kind: Any) -> Callable[[bytes], Any]:
    """Return a function that decodes msgpack to `kind`, and raises only DecodeError."""
    decode: Callable[[bytes], Any] = msgspec.msgpack.Decoder(kind).decode

    def decode_msgpack(raw: bytes) -> Any:
        try:
            return decode(raw)
        except FAULTS as error:
            raise DecodeError(_fault(error)) from error

    return decode_msgpack


def check_utf8(raw: bytes) -> None:
    """Raise DecodeError for a byte that is not UTF-8, wherever it occurs.

    A decoder only checks texts that it keeps: a damaged key or value that it skips would not be noticed.
    """
    if raw.isascii():
        return
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(_fault(error)) from error


def with_unicode(raw: Raw) -> bytes:
    """Replace bytes that are not UTF-8, and escapes of half a surrogate pair, by U+FFFD, as Go does."""
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

    Raises DecodeError; an exception of `dec_hook` other than ValueError passes through.
    """
    try:
        return msgspec.convert(document, kind, dec_hook=dec_hook, from_attributes=from_attributes)
    except FAULTS as error:
        raise DecodeError(_fault(error)) from error


def decode_loosely(text: str | bytes) -> Any:
    """Decode JSON as Python's own library does, including NaN. For output of this program that is shown to people."""
    try:
        return json.loads(text)
    except FAULTS as error:
        raise DecodeError(_fault(error)) from error


def _fault(error: Exception) -> str:
    """Describe a decoder's exception without quoting the input; messages of msgspec ("Expected `int` ...") are kept."""
    if isinstance(error, UnicodeDecodeError):
        return f"expected UTF-8, got a byte {error.object[error.start]:#04x}"
    if isinstance(error, RecursionError):
        return "expected values within values to some depth, got deeper ones"
    return str(error)
