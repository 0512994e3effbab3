"""Reads the body of an HTTP response up to a limit, because a server might send data without end."""

from __future__ import annotations

import aiohttp

_CHUNK = 1 << 16


class BodyTooLong(ValueError):
    pass


async def read_bounded(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    """Return the body. Raises BodyTooLong, and closes the connection, as soon as the body exceeds `limit_bytes`."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_chunked(_CHUNK):
        size += len(chunk)
        if size > limit_bytes:
            response.close()
            raise BodyTooLong(f"expected an answer of at most {limit_bytes} bytes, got more")
        chunks.append(chunk)
    return b"".join(chunks)
