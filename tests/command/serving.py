"""The HTTPS endpoint of a scheduler on a thread of its own, for commands that ask it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kscheduler.client.reviews import User
from kscheduler.observability.metrics import Metrics
from kscheduler.serving.authentication import Shown
from kscheduler.serving.authorization import ALLOWED, Decision
from kscheduler.serving.certificates import server_context
from kscheduler.serving.client_tls import ClientAskingContext
from kscheduler.serving.health import Health
from kscheduler.serving.listener import Handler
from kscheduler.serving.server import Listen, Server
from kscheduler.serving.tls_policy import TlsPolicy
from tests.serving.named_by_token import NamedByToken


class TheGood:
    async def authorize(self, user: User, verb: str, path: str) -> Decision:
        return ALLOWED if user.name == "good" else Decision(403, "forbidden: that is not yours")


class NamedByCertificate(NamedByToken):
    """Where a client shows a certificate, its common name is the user."""

    async def authenticate(self, shown: Shown) -> User | None:
        for certificate in shown.certificates():
            return User(certificate.subject.rfc4514_string().removeprefix("CN="))
        return await super().authenticate(shown)


class Serving:
    """A server over TLS with a certificate it made itself; it answers the user "good", by token or certificate."""

    def __init__(self, handlers: Mapping[str, Handler], directory: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        context = ClientAskingContext.under(TlsPolicy())
        server_context("", "", str(directory), context=context)
        self._server = Server(
            Listen("127.0.0.1", 0, context),
            metrics=Metrics(process=False),
            health=Health(),
            authenticator=NamedByCertificate(),
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
