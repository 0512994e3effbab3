"""Reads the answers that nearly every write gets, without an object for any of their parts."""

from __future__ import annotations

import re

_LENGTH = b"\r\nContent-Length: "
_MOST_DIGITS = 9
_is_special = re.compile(rb"\r\n(?:Connection|Transfer-Encoding|Retry-After):").search


def read_plain_answer(data: bytearray, size: int) -> tuple[int, int] | None:
    """Return the status of the HTTP answer in the first `size` bytes of `data`, and the length of its body.

    Nearly every write is answered in this form: a 2xx in one piece, with headers as Go spells them, whose body is
    empty or begins as an apiserver's does. Returns None for all others. Raises ValueError if `data` is shorter.
    """
    if not isinstance(data, bytearray):
        raise TypeError(f"expected a bytearray, got {type(data).__name__}")
    if not 0 <= size <= len(data):
        raise ValueError(f"expected a size of 0 to {len(data)} bytes, got {size}")
    text = bytes(data[:size])
    end = text.find(b"\r\n\r\n") + 2
    at = text.find(_LENGTH, 0, end)
    if at < 0 or not text.startswith(b"HTTP/1.1 20") or _is_special(text, 0, end) is not None:
        return None
    at += len(_LENGTH)
    status, digits, body = text[9:12], text[at : text.find(b"\r\n", at)], text[end + 2 :]
    if not status.isdigit() or status == b"204" or not digits.isdigit() or len(digits) > _MOST_DIGITS:
        return None
    if len(body) != int(digits) or not (not body or body.startswith((b"{", b"k8s\x00"))):
        return None
    return int(status), len(body)
