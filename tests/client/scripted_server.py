"""An apiserver that answers as a script says, one connection after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.connections import ConnectionPool
from kscheduler.client.credentials import Endpoint

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Runs `script` for each connection."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.connections = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self.script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def pool(self, **options: Any) -> AsyncIterator[ConnectionPool]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings: dict[str, Any] = {"connect_timeout_s": 5.0, "keep_alive_s": 60.0, **options}
        pool = ConnectionPool(Endpoint(f"http://127.0.0.1:{port}", None), **settings)
        try:
            yield pool
        finally:
            await pool.close()
            server.close()
            await cancel_and_wait(*self._tasks)
            await asyncio.sleep(0)
