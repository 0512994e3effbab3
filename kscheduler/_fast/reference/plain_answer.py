"""Reads the answers that nearly every write gets, without an object for any of their parts."""

from __future__ import annotations

import re

_LENGTH = b"\r\nContent-Length: "
_MOST_DIGITS = 9
_is_special = re.compile(rb"\r\n(?:Connection|Transfer-Encoding|Retry-After):").search


def read_plain_answer(data: bytearray, start: int, stop: int) -> tuple[int, int, int] | None:
    """Return the status of the HTTP answer that begins at `start` in `data`, the length of its body, and its end.

    Nearly every write is answered in this form: a 2xx that is whole before `stop`, with headers as Go spells them,
    whose body is empty or begins as an apiserver's does. Returns None for all others. Raises ValueError if `data` is
    shorter.
    """
    if not isinstance(data, bytearray):
        raise TypeError(f"expected a bytearray, got {type(data).__name__}")
    if not 0 <= start <= stop <= len(data):
        raise ValueError(f"expected 0 <= start <= stop <= {len(data)}, got {start} and {stop}")
    text = bytes(data[start:stop])
    end = text.find(b"\r\n\r\n") + 2
    at = text.find(_LENGTH, 0, end)
    if at < 0 or not text.startswith(b"HTTP/1.1 20") or _is_special(text, 0, end) is not None:
        return None
    at += len(_LENGTH)
    status, digits = text[9:12], text[at : text.find(b"\r\n", at)]
    if not status.isdigit() or status == b"204" or not digits.isdigit() or len(digits) > _MOST_DIGITS:
        return None
    length, end = int(digits), end + 2
    body = text[end : end + length]
    if len(body) != length or not (not body or body.startswith((b"{", b"k8s\x00"))):
        return None
    return int(status), length, start + end + length
