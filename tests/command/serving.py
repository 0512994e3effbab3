"""The HTTPS endpoint of a scheduler on a thread of its own, for commands that ask it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kscheduler.client.reviews import User
from kscheduler.observability.metrics import Metrics
from kscheduler.serving.authorization import ALLOWED, Decision
from kscheduler.serving.certificates import server_context
from kscheduler.serving.health import Health
from kscheduler.serving.listener import Handler
from kscheduler.serving.server import Listen, Server
from tests.serving.named_by_token import NamedByToken


class TheGood:
    async def authorize(self, user: User, verb: str, path: str) -> Decision:
        return ALLOWED if user.name == "good" else Decision(403, "forbidden: that is not yours")


class Serving:
    """A server over TLS with a certificate it made itself; it answers clients that have the token "good"."""

    def __init__(self, handlers: Mapping[str, Handler], directory: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server = Server(
            Listen("127.0.0.1", 0, server_context("", "", str(directory))),
            metrics=Metrics(process=False),
            health=Health(),
            authenticator=NamedByToken(),
            authorizer=TheGood(),
        )
        for path, handler in handlers.items():
            self._server.add_handler(path, handler)
        self._run(self._server.start())
        self.url = f"https://127.0.0.1:{self._server.port}"

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        self._run(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
