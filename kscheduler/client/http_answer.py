"""Parses the answers on one HTTP/1.1 connection. It does no I/O: it takes bytes and returns complete answers.

It is meant for small answers that are held in memory: of fixed length, chunked, or up to the end of the connection.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

MAX_HEAD_BYTES = 1 << 16
MAX_BODY_BYTES = 1 << 26


class BadAnswer(Exception):
    """The bytes are not an HTTP/1.1 answer, or are more than an answer may have."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    status: int
    body: bytes
    retry_after: str  # the header's value, "" without one
    reusable: bool  # whether the connection may be used for another request


class Head(NamedTuple):
    status: int
    length: int  # of the body; CHUNKED, or TO_THE_END
    retry_after: str
    reusable: bool
    start: int  # of the body in the buffer


CHUNKED = -1
TO_THE_END = -2


class AnswerReader:
    """Assembles answers from the bytes of a connection, one at a time."""

    def __init__(self) -> None:
        self._buffer = b""
        self._head: Head | None = None
        self.rest = b""  # what came behind the last answer

    @property
    def is_fresh(self) -> bool:
        """True if no byte of the current answer has arrived yet."""
        return not self._buffer and self._head is None

    def feed(self, data: bytes, *, is_last: bool = True) -> Answer | None:
        """Add bytes, and return the answer that they complete, or None. Raises BadAnswer.

        `is_last`: no other answer may come behind it; otherwise `rest` holds the first bytes of that.
        """
        self._buffer = buffer = self._buffer + data if self._buffer else data
        head = self._head
        if head is None:
            head = self._head = read_head(buffer)
            if head is None:
                return None
        if head.length >= 0:
            end = head.start + head.length
            return self._complete(head, buffer[head.start : end], end, is_last) if len(buffer) >= end else None
        if len(buffer) - head.start > MAX_BODY_BYTES:
            raise BadAnswer(f"a body of more than {MAX_BODY_BYTES} bytes")
        if head.length == CHUNKED and (chunked := _join_chunks(buffer, head.start)) is not None:
            return self._complete(head, *chunked, is_last)
        return None

    def end(self) -> Answer | None:
        """Note that the connection has ended, and return the answer that this completes, or None."""
        head = self._head
        if head is None or head.length != TO_THE_END:
            return None
        return self._complete(head, self._buffer[head.start :], len(self._buffer), True)

    def _complete(self, head: Head, body: bytes, end: int, is_last: bool) -> Answer:
        self.rest = rest = self._buffer[end:]
        self._buffer, self._head = b"", None
        # Bytes beyond the end answer nothing we asked: such a connection is not to be trusted further.
        return Answer(head.status, body, head.retry_after, head.reusable and not (rest and is_last))


def read_head(data: bytes) -> Head | None:
    """Return the status and headers at the start of `data`, or None while a part is missing. Raises BadAnswer."""
    start = 0
    while (end := data.find(b"\r\n\r\n", start)) >= 0:
        head = _parse_head(data[start : end + 2].lower(), end + 4)
        if head.status >= 200:
            return head
        start = end + 4  # 100 Continue and its like come before the answer
    if len(data) > MAX_HEAD_BYTES:
        raise BadAnswer(f"no end of the headers in {MAX_HEAD_BYTES} bytes")
    return None


def _parse_head(text: bytes, start: int) -> Head:
    status = text[9:12]
    if not text.startswith(b"http/1.") or not status.isdigit():
        raise BadAnswer(f"not an HTTP/1 answer: {text[:60]!r}")
    code = int(status)
    reusable = text.startswith(b"http/1.1") and b"close" not in _header(text, b"connection")
    retry_after = _header(text, b"retry-after").decode("ascii", "replace")
    if code in (204, 304):
        return Head(code, 0, retry_after, reusable, start)
    if b"chunked" in _header(text, b"transfer-encoding"):
        return Head(code, CHUNKED, retry_after, reusable, start)
    length = _header(text, b"content-length")
    if not length:
        return Head(code, TO_THE_END, retry_after, False, start)
    if not length.isdigit() or int(length) > MAX_BODY_BYTES:
        raise BadAnswer(f"Content-Length: {length!r}")
    return Head(code, int(length), retry_after, reusable, start)


def _header(text: bytes, name: bytes) -> bytes:
    """Return the value of a header from a head in lower case whose lines all end in CRLF."""
    at = text.find(b"\r\n" + name + b":")
    if at < 0:
        return b""
    at += len(name) + 3
    return text[at : text.find(b"\r\n", at)].strip()


def _join_chunks(buffer: bytes, at: int) -> tuple[bytes, int] | None:
    """Return the whole chunked body and the position of its end, or None while a part is missing."""
    parts: list[bytes] = []
    while True:
        line_end = buffer.find(b"\r\n", at)
        if line_end < 0:
            return None
        try:
            size = size_of_chunk(buffer[at:line_end])
        except ValueError as error:
            raise BadAnswer(f"a chunk of size {buffer[at:line_end][:20]!r}") from error
        at = line_end + 2
        if size == 0:
            return _skip_trailers(buffer, at, parts)
        if len(buffer) < at + size + 2:
            return None
        parts.append(buffer[at : at + size])
        at += size + 2


def size_of_chunk(line: bytes) -> int:
    """Return the size in the line before a chunk, which may have extensions. Raises ValueError."""
    size = int(line.partition(b";")[0], 16)
    if size < 0:  # a reader would go back, perhaps for ever
        raise ValueError("a chunk is not shorter than nothing")
    return size


def _skip_trailers(buffer: bytes, at: int, parts: list[bytes]) -> tuple[bytes, int] | None:
    """Return the joined parts and the position after the trailers behind the last chunk; None if some are missing."""
    while True:
        line_end = buffer.find(b"\r\n", at)
        if line_end < 0:
            return None
        if line_end == at:
            return b"".join(parts), at + 2
        at = line_end + 2
