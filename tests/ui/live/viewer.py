"""A viewer's end of the page's connections."""

from __future__ import annotations

import json
from typing import Any

import aiohttp


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


class Stream:
    """A browser's end of a stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def event(self) -> tuple[str, Any]:
        """The next event and its document; comments are left out."""
        while True:
            lines = []
            while (line := (await self.response.content.readline()).decode().removesuffix("\n")) != "":
                lines.append(line)
            if lines and lines[0].startswith("event: "):
                return lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))
            if self.response.content.at_eof():
                raise EOFError
