"""Listens on a socket for an aiohttp application; follows TLS certificates, and closes idle connections."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Middleware
from aiohttp.web_protocol import RequestPayloadError

from kscheduler.errors import ConfigError, InternalError
from kscheduler.serving.certificate_expiry import ExpiryWarnings
from kscheduler.serving.certificates import ServerContext
from kscheduler.serving.idle import Connection, IdleConnections

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

KEEPALIVE_S = 30.0  # a connection without a complete request is closed after this time
MAX_HEADER = 32 * 1024  # OpenID tokens that list a user's groups may exceed aiohttp's limit of 8 KiB
SHUTDOWN_S = 2.0  # how long requests in progress may still take when the server stops


@dataclass(frozen=True, slots=True)
class Listen:
    """An address to listen on.

    Port 0 takes a free port; that --secure-port=0 means no server is for the caller to handle.
    """

    address: str = "0.0.0.0"
    port: int = 10259
    tls: ssl.SSLContext | None = None  # None: plain HTTP


class RequestLog(logging.LoggerAdapter[logging.Logger]):
    """Replaces aiohttp's log of failed requests.

    Of a malformed request only the type of the error is logged, at debug level: any client can cause it, and the
    parser's message quotes the request, perhaps with a bearer token.
    """

    def log(self, level: int, msg: object, *args: object, exc_info: Any = None, **keywords: Any) -> None:
        if isinstance(exc_info, (HttpProcessingError, RequestPayloadError)):
            super().log(logging.DEBUG, "a malformed request was refused", extra={"fault": type(exc_info).__name__})
        else:
            super().log(level, msg, *args, exc_info=exc_info, **keywords)

    def exception(self, msg: object, *args: object, exc_info: Any = True, **keywords: Any) -> None:
        self.log(logging.ERROR, msg, *args, exc_info=exc_info, **keywords)

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        return msg, kwargs


class Listener:
    """Serves the routes of `app` between `start` and `stop`."""

    def __init__(
        self,
        listen: Listen,
        named: str,
        *,
        reload_s: float,
        max_body: int,
        middlewares: Sequence[Middleware] = (),
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Create a listener; `start` opens the socket.

        `named`: the address as configured, for messages. `reload_s`: seconds between checks of certificate files for
        changes, and of their expiry. `max_body`: the maximum size of a request's body, in bytes. `wall`: Unix seconds.
        """
        self._wall = wall
        self.listen = listen
        self._named = named
        self._reload_s = reload_s
        self._runner: web.AppRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []  # while listening: closing idle connections, renewing certificates
        self.idle = IdleConnections(self._connections, KEEPALIVE_S)
        self.app = web.Application(middlewares=[self._note_use, *middlewares], client_max_size=max_body)

    @property
    def port(self) -> int:
        """The port listened on. Raises InternalError unless listening."""
        if self._runner is None or not self._runner.addresses:
            raise InternalError("the server's port was asked for, but it is not listening")
        return int(self._runner.addresses[0][1])

    @web.middleware
    async def _note_use(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Mark the connection as busy while its request is answered."""
        connection = request.protocol
        self.idle.begin(connection)
        try:
            return await handler(request)
        finally:
            self.idle.end(connection, asyncio.get_running_loop().time())

    async def start(self) -> None:
        """Start listening. Raises ConfigError if the address cannot be bound."""
        runner = web.AppRunner(
            self.app,
            access_log=None,
            handle_signals=False,
            keepalive_timeout=KEEPALIVE_S,
            shutdown_timeout=SHUTDOWN_S,
            max_field_size=MAX_HEADER,
            logger=RequestLog(log),
        )
        await runner.setup()
        listen = self.listen
        try:
            await web.TCPSite(runner, listen.address, listen.port, ssl_context=listen.tls).start()
        except OSError as error:
            await runner.cleanup()
            raise ConfigError(f"{self._named}: cannot listen: {error.strerror or error}") from error
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        self._tasks = [asyncio.ensure_future(self.idle.sweep_forever())]
        if isinstance(listen.tls, ServerContext):
            self._tasks.append(asyncio.ensure_future(self._reload_forever(listen.tls)))

    async def stop(self) -> None:
        """Close all sockets; requests in progress have `SHUTDOWN_S` to end. May be called twice, or before `start`."""
        runner, self._runner = self._runner, None
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if runner is not None:
            await runner.cleanup()

    def _connections(self) -> Sequence[Connection]:
        server = self._runner.server if self._runner is not None else None
        return [] if server is None else server.connections

    async def _reload_forever(self, context: ServerContext) -> None:
        """Reload certificate files when they change, and warn before one expires.

        If files cannot be used, that is logged, and the old certificate kept.
        """
        failed, warnings = "", ExpiryWarnings()
        while True:
            await asyncio.sleep(self._reload_s)
            try:
                if context.reload_if_changed():
                    log.info("serving a renewed certificate")
                failed = ""
            except ConfigError as error:
                level = logging.DEBUG if str(error) == failed else logging.WARNING
                log.log(level, "the renewed certificate cannot be used", extra={"err": error})
                failed = str(error)
            warnings.look(context.expiries(), self._wall())
