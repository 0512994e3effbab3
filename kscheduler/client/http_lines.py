"""Parses the long HTTP/1.1 answer of a watch into lines. It does no I/O: it takes bytes and returns complete lines.

An apiserver writes each event as one chunk with one line, so that case is the fast path; the same bytes cut in any
other way give the same lines.
"""

from __future__ import annotations

from kscheduler.client.http_answer import (
    CHUNKED,
    TO_THE_END,
    Answer,
    AnswerReader,
    BadAnswer,
    read_head,
    size_of_chunk,
)

MAX_LINE_BYTES = 1 << 26  # etcd takes no object of more than a few megabytes
_MAX_SIZE_LINE = 1 << 10  # a chunk's size and its extensions
_SMALL_CHUNK = 16 << 10  # bytes; what comes of one is copied again with each piece: a larger one is read in pieces


class LineReader:
    """Assembles lines from the bytes of a connection: `status` is known first, then lines come, then `is_over` is set.

    An answer that is not 2xx is read completely instead, into `refusal`. `is_reusable`: the connection may carry
    another request, now that the answer is over.
    """

    def __init__(self) -> None:
        self.status = 0
        self.refusal: Answer | None = None
        self.is_over = False
        self.is_reusable = False
        self._may_be_reused = False  # as the headers say
        self._whole: AnswerReader | None = None
        self._head = b""  # as much as has come of it
        self._rest = b""  # of a chunk's size, or of a small chunk, whose end has not come yet
        self._length = TO_THE_END  # of the body, less what has come
        self._chunk_left = 0  # of the chunk we are in, with the line end behind it
        self._trailers = False  # after the last chunk
        self._tail: list[bytes] = []  # the pieces of a line whose end has not come yet
        self._tail_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes, and return the lines that they complete, without line ends. Raises BadAnswer."""
        lines: list[bytes] = []
        if self._length != CHUNKED:
            data = self._read_unchunked(data, lines)
        if self._rest:
            data, self._rest = self._rest + data, b""
        at, end = 0, len(data)
        while at < end and not self.is_over:
            if self._trailers:
                at = self._read_trailer(data, at)
            elif self._chunk_left:
                at = self._read_piece(data, at, lines)
            else:
                line_end = data.find(b"\r\n", at)
                if line_end < 0:
                    self._keep(data[at:])
                    break
                digits = data[at:line_end]
                try:
                    size = int(digits, 16) if digits.isalnum() else size_of_chunk(digits)
                except ValueError as error:
                    raise BadAnswer(f"a chunk of size {digits[:20]!r}") from error
                start, stop = line_end + 2, line_end + 2 + size
                if not size:
                    self._trailers = True
                    at = start
                elif stop + 2 > end and size <= _SMALL_CHUNK:
                    self._rest = data[at:]  # the rest of the chunk is waited for, and the whole of it read at once
                    break
                elif stop + 2 <= end:
                    if not self._tail and data.find(b"\n", start, stop) == stop - 1:
                        lines.append(data[start : stop - 1])
                    else:
                        self._split(data[start:stop], lines)
                    at = stop + 2
                else:
                    self._chunk_left = size + 2
                    at = start
        return lines

    def end(self) -> bool:
        """Note that the connection has ended, and return True if the answer was complete."""
        if self._whole is not None:
            self.refusal = self._whole.end()
            return self.refusal is not None
        if self.status and self._length == TO_THE_END:
            self.is_over = True
        return self.is_over

    def _read_unchunked(self, data: bytes, lines: list[bytes]) -> bytes:
        """Read the headers, a refusal, or a body that is not chunked; return the bytes that belong to chunks."""
        if self._whole is not None:
            self.refusal = self._whole.feed(data)
            return b""
        if not self.status:
            data = self._read_head(data)
            if self._length == CHUNKED:
                return data
        if data and self.status and not self.is_over:
            self._split(data, lines)
            if self._length != TO_THE_END:
                self._length = max(0, self._length - len(data))
                self.is_over = self._length == 0
        return b""

    def _read_head(self, data: bytes) -> bytes:
        """Read status and headers, and return the bytes after them, which belong to the body."""
        data, self._head = self._head + data, b""
        head = read_head(data)
        if head is None:
            self._head = data
            return b""
        if head.status >= 300:
            self._whole = AnswerReader()
            self.refusal = self._whole.feed(data)
            return b""
        self.status, self._length, self._may_be_reused = head.status, head.length, head.reusable
        self.is_over = head.length == 0
        return data[head.start :]

    def _read_piece(self, data: bytes, at: int, lines: list[bytes]) -> int:
        """Read what has arrived of the current chunk of a chunked answer; return the position after it.

        The last two bytes counted in `_chunk_left` are the chunk's line end.
        """
        piece = data[at : at + self._chunk_left]
        body = max(0, self._chunk_left - 2)
        self._split(piece[:body], lines)
        self._chunk_left -= len(piece)
        return at + len(piece)

    def _read_trailer(self, data: bytes, at: int) -> int:
        """Skip the trailers after the last chunk, up to an empty line."""
        line_end = data.find(b"\r\n", at)
        if line_end < 0:
            self._keep(data[at:])
            return len(data)
        self.is_over = line_end == at
        # What comes behind the end answers nothing that was asked.
        self.is_reusable = self.is_over and self._may_be_reused and line_end + 2 == len(data)
        return line_end + 2

    def _keep(self, rest: bytes) -> None:
        if len(rest) > _MAX_SIZE_LINE:
            raise BadAnswer(f"a chunk of size {rest[:20]!r}")
        self._rest = rest

    def _split(self, piece: bytes, lines: list[bytes]) -> None:
        """Split a piece of the body into lines, and keep its last line until that is complete."""
        found = piece.split(b"\n")
        if len(found) > 1 and self._tail:
            found[0] = b"".join((*self._tail, found[0]))
            self._tail, self._tail_bytes = [], 0
        last = found.pop()
        lines += found
        if last:
            self._tail.append(last)
            self._tail_bytes += len(last)
            if self._tail_bytes > MAX_LINE_BYTES:
                raise BadAnswer(f"a line of more than {MAX_LINE_BYTES} bytes")
