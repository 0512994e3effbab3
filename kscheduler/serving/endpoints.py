"""Starts and stops several servers together."""

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
        """Start all servers. If one fails, stop all and raise its error."""
        try:
            for server in self._servers:
                await server.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all servers, including those that were not started."""
        for server in self._servers:
            await server.stop()
