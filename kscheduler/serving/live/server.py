"""The scheduler's HTTPS endpoint with the page, in the page's thread; other handlers run on the scheduler's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import web
from cryptography import x509

from kscheduler.client.reviews import User
from kscheduler.serving.authentication import Authenticator, FrontProxies, Shown, Trust
from kscheduler.serving.authorities import Authorities
from kscheduler.serving.authorization import Authorizer, Decision
from kscheduler.serving.listener import Handler
from kscheduler.serving.live.hub import Hub
from kscheduler.serving.live.loop_thread import LoopThread, across
from kscheduler.serving.live.page import PREFIX, LivePage
from kscheduler.serving.server import Server


class ServerWithPage(Server):
    """Serves the page below /ui/, and everything else as `Server` does."""

    page: LivePage  # set before `start`
    main: asyncio.AbstractEventLoop  # the scheduler's, set before the first handler is added

    def add_handler(self, path: str, handler: Handler, *, method: str = "GET", reads_scheduler: bool = True) -> None:
        if not reads_scheduler:
            super().add_handler(path, handler, method=method)
            return
        main = asyncio.get_running_loop()

        async def answered(request: web.Request) -> web.StreamResponse:
            return await handler(request)

        super().add_handler(path, across(main, answered), method=method)

    @property
    def paths(self) -> list[str]:
        return [*super().paths, PREFIX]

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith(PREFIX) or request.path == PREFIX[:-1]:
            return await self.page.answer(request)
        return await super()._guard(request, handler)


class PageThread:
    """Runs the server in its thread, between `start` and `stop` on the scheduler's loop."""

    def __init__(self, thread: LoopThread, server: Server, hub: Hub) -> None:
        self._thread = thread
        self._server = server
        self._hub = hub

    async def start(self) -> None:
        """Start listening. Raises ConfigError if the address cannot be bound."""
        self._thread.start()
        await self._thread.run(self._server.start())

    async def stop(self) -> None:
        """End all streams, then close all sockets. May be called twice, or before `start`."""
        if self._thread.is_running:
            await self._thread.run(self._end())
            await self._thread.stop()

    async def _end(self) -> None:
        self._hub.close()
        await self._server.stop()


# --- what reads the scheduler's side --------------------------------------------------------------------------------


def _read(shown: Shown) -> Shown:
    """Return the credentials with the certificates read already, since the connection belongs to this thread."""
    try:
        certificates = tuple(shown.certificates())
    except Exception as error:  # a certificate may be broken in more ways than the library has types for
        broken = error

        def fail() -> Sequence[x509.Certificate]:
            raise broken

        return Shown(shown.headers, fail)
    return Shown(shown.headers, lambda: certificates)


class AuthenticatorAcross:
    """An authenticator that runs on the scheduler's loop, for requests that arrive on another one."""

    def __init__(self, authenticator: Authenticator, main: asyncio.AbstractEventLoop) -> None:
        async def authenticate(shown: Shown) -> User | None:
            return await authenticator.authenticate(shown)

        self._ask = across(main, authenticate)

    async def authenticate(self, shown: Shown) -> User | None:
        return await self._ask(_read(shown))


class AuthorizerAcross:
    """An authorizer that runs on the scheduler's loop, for requests that arrive on another one."""

    def __init__(self, authorizer: Authorizer, main: asyncio.AbstractEventLoop) -> None:
        async def authorize(user: User, verb: str, path: str) -> Decision:
            return await authorizer.authorize(user, verb, path)

        self.authorize = across(main, authorize)


class TrustAcross:
    """The authorities of client certificates, as they were when they were last waited for."""

    def __init__(self, trust: Trust, main: asyncio.AbstractEventLoop) -> None:
        self.clients: Authorities | None = None
        self.front_proxies: FrontProxies | None = None

        async def known() -> tuple[Authorities | None, FrontProxies | None]:
            await trust.wait_known()
            return trust.clients, trust.front_proxies

        self._ask = across(main, known)

    async def wait_known(self) -> None:
        self.clients, self.front_proxies = await self._ask()
