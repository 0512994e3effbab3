"""Serves the page and its reports to browsers on this machine, and to nobody else.

It listens on 127.0.0.1 and answers only requests that name this machine as their host: a foreign site whose name
resolves to 127.0.0.1 (DNS rebinding) cannot read the reports. It only reads. The policy allows the page its own files,
and neither inline code nor other servers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from aiohttp import web

from kscheduler.errors import ConfigError, InternalError
from kscheduler.ui.assets import FILES, INDEX, asset
from kscheduler.ui.documents import Document

ADDRESS = "127.0.0.1"
HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_MAX_BODY = 1024  # requests that read have none

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageServer:
    """Serves the page with one report, or with two to compare, between `start` and `stop`."""

    def __init__(self, documents: Sequence[Document]) -> None:
        app = web.Application(middlewares=[_guard], client_max_size=_MAX_BODY)
        for name in FILES:
            app.router.add_get(f"/{name}", _file(asset(name).encode(), TYPES[name.rpartition(".")[2]]))
        app.router.add_get("/", _file(asset(INDEX).encode(), "text/html"))
        names = msgspec.json.encode([document.name for document in documents])
        app.router.add_get("/reports.json", _file(names, "application/json"))
        for index, document in enumerate(documents):
            app.router.add_get(f"/reports/{index}.json", _file(document.content, "application/json"))
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)

    async def start(self, port: int) -> None:
        """Listen on the port, or a free one if it is 0. Raises ConfigError if that is not possible."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, ADDRESS, port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise ConfigError(f"--port {port}: cannot listen on {ADDRESS}: {error.strerror or error}") from error

    async def stop(self) -> None:
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """The address of the page. Raises InternalError unless listening."""
        if not self._runner.addresses:
            raise InternalError("the page's address was asked for, but it is not served")
        return f"http://{ADDRESS}:{self._runner.addresses[0][1]}/"


def _file(content: bytes, content_type: str) -> Handler:
    charset = None if content_type == "application/json" else "utf-8"

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=content, content_type=content_type, charset=charset)

    return answer


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse foreign hosts and all that does not read, and add the headers to every answer."""
    try:
        response = await _checked(request, handler)
    except web.HTTPException as error:
        response = web.Response(status=error.status, text=f"{error.status} {error.reason}\n")
        if isinstance(error, web.HTTPMethodNotAllowed):
            response.headers["Allow"] = "GET, HEAD"
    response.headers.update(HEADERS)
    return response


async def _checked(request: web.Request, handler: Handler) -> web.StreamResponse:
    if _without_port(request.headers.get("Host", "")) not in HOSTS:
        text = "This page is for browsers on this machine: open it as 127.0.0.1 or localhost.\n"
        return web.Response(status=403, text=text)
    return await handler(request)


def _without_port(host: str) -> str:
    """Return a Host header without its port, in lower case."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdigit() else host.lower()
