"""Serves the record of a running scheduler: its parts as JSON, and the bytes of one part.

A part that is still being written is served up to its last flush, so what was downloaded remains the beginning of the
file, and a download can go on from there with a Range header. Files are read in threads, a piece at a time. Nothing
here reads the scheduler, so any event loop may run it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import BinaryIO, Protocol

import msgspec
from aiohttp import web

from kscheduler import __version__
from kscheduler.client.concurrency import within
from kscheduler.record.background import KeptPart
from kscheduler.record.listing import STARTED, Listing, Part

PIECE_BYTES = 64 << 10  # encrypted in a tenth of a millisecond
MAX_DOWNLOADS = 4  # at once
STALLED_S = 60.0  # a client that takes nothing for so long has to begin again
_MAX_DIGITS = 9


class Writes(Protocol):
    """The writer of a record; see `BackgroundWriter`."""

    @property
    def first(self) -> int: ...
    @property
    def keep_parts(self) -> int: ...
    @property
    def failure(self) -> str: ...

    def kept(self) -> Sequence[KeptPart]: ...


class RecordEndpoint:
    """Answers requests for the files that a writer writes; `started` is the start in their headers."""

    def __init__(self, writer: Writes, started: float) -> None:
        self._writer = writer
        self._started = started
        self._downloads = 0

    async def answer_list(self, request: web.Request) -> web.StreamResponse:
        writer = self._writer
        parts = tuple(Part(each.number, each.bytes, each.is_complete) for each in writer.kept())
        listing = Listing(__version__, self._started, writer.first, parts, writer.failure)
        return web.Response(body=msgspec.json.encode(listing), content_type="application/json")

    async def answer_part(self, request: web.Request) -> web.StreamResponse:
        """Answer with the bytes of the part whose number the path ends with, or with the requested range of them."""
        part = self._part(request.match_info["number"])
        if self._downloads >= MAX_DOWNLOADS:
            raise web.HTTPTooManyRequests(text=f"expected at most {MAX_DOWNLOADS} downloads at once: try again later")
        self._downloads += 1
        try:
            with await asyncio.to_thread(part.path.open, "rb") as file:  # once open, it may be removed
                return await self._send(request, file, part)
        except FileNotFoundError:
            raise web.HTTPGone(text=self._removed(part.number)) from None
        finally:
            self._downloads -= 1

    def _part(self, text: str) -> KeptPart:
        """Return the part with this number. Raises the HTTP error for one that does not exist, or not any more."""
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else 0
        kept = self._writer.kept()
        for part in kept:
            if part.number == number:
                return part
        if kept and self._writer.first <= number < kept[0].number:
            raise web.HTTPGone(text=self._removed(number))
        numbers = ", ".join(str(part.number) for part in kept[-5:])
        raise web.HTTPNotFound(text=f"expected the number of a part of the record, such as {numbers}")

    def _removed(self, number: int) -> str:
        keeps = f" (--record-keep-parts={self._writer.keep_parts})" if self._writer.keep_parts else ""
        return f"part {number} of the record was removed{keeps}"

    async def _send(self, request: web.Request, file: BinaryIO, part: KeptPart) -> web.StreamResponse:
        start, stop = _range(request, part)
        headers = {
            "Cache-Control": "no-cache, private",
            "X-Content-Type-Options": "nosniff",
            "Accept-Ranges": "bytes",
            STARTED: repr(self._started),
        }
        is_whole = "Range" not in request.headers
        if not is_whole:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{part.bytes}"
        response = web.StreamResponse(status=200 if is_whole else 206, headers=headers)
        response.content_type = "application/zstd"
        response.content_length = stop - start
        try:
            await response.prepare(request)
            while start < stop:
                piece = await asyncio.to_thread(os.pread, file.fileno(), min(PIECE_BYTES, stop - start), start)
                if not piece:
                    raise OSError("the file is shorter than it was")
                await within(STALLED_S, response.write(piece))
                start += len(piece)
            await response.write_eof()
        except OSError:  # the client left or stalled, or the file cannot be read
            # Nothing may follow the bytes that were sent, or the client would take it for more of them.
            if request.transport is not None:
                request.transport.abort()
        return response


def _range(request: web.Request, part: KeptPart) -> tuple[int, int]:
    """Return where the requested bytes begin, and where they end. Raises the HTTP error for a wrong range."""
    try:
        start, stop, _ = request.http_range.indices(part.bytes)
    except ValueError:
        start, stop = part.bytes, part.bytes
    if start >= stop and "Range" in request.headers:
        got = request.headers["Range"][:40]
        raise web.HTTPRequestRangeNotSatisfiable(
            text=f"Range: expected bytes=FIRST- or bytes=FIRST-LAST within the {part.bytes} bytes of part "
            f"{part.number}, got {got!r}"
        )
    return start, stop
