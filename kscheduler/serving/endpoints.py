"""Several servers that start and stop as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Serves(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Endpoints:
    def __init__(self, servers: Sequence[Serves]) -> None:
        self._servers = tuple(servers)

    async def start(self) -> None:
        """All of them, or none if one cannot listen."""
        try:
            for server in self._servers:
                await server.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Also those that were never started."""
        for server in self._servers:
            await server.stop()
