"""Serves the scheduler's HTTP(S) endpoint: health, metrics, configuration, and handlers added by other packages.

Every request is authenticated, then authorized. Errors are answered as metav1.Status, as the apiserver does.
Handlers run on the event loop that schedules, so they must be short.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from aiohttp import web

from kscheduler.observability.metrics import CONTENT_TYPE, Metrics
from kscheduler.serving.authentication import Authenticator, Shown
from kscheduler.serving.authorization import UNAUTHORIZED, Authorizer
from kscheduler.serving.health import Answer, Health
from kscheduler.serving.listener import Handler, Listen, Listener

log = logging.getLogger(__name__)

__all__ = ["Listen", "Server", "status_response"]

RELOAD_S = 60.0  # seconds between checks of certificate files
MAX_BODY = 64 * 1024
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    410: "Gone",
    416: "BadRequest",
    429: "TooManyRequests",
}


class Server(Listener):
    """The HTTP(S) server of a scheduler."""

    def __init__(
        self,
        listen: Listen,
        *,
        metrics: Metrics,
        health: Health,
        config: Callable[[], dict[str, Any]] = dict,
        authenticator: Authenticator,
        authorizer: Authorizer,
    ) -> None:
        """Create the server. `config` returns the body of /configz: `{"componentconfig": to_v1(config)}`."""
        where = f"--bind-address {listen.address}, --secure-port {listen.port}"
        super().__init__(listen, where, reload_s=RELOAD_S, max_body=MAX_BODY, middlewares=[self._guard])
        self._metrics = metrics
        self._health = health
        self._config = config
        self._authenticator = authenticator
        self._authorizer = authorizer
        for endpoint in health.endpoints:
            self.add_handler(f"/{endpoint}", self._answer_health)
            self.add_handler(f"/{endpoint}/{{check}}", self._answer_check)
        self.add_handler("/metrics", self._answer_metrics)
        self.add_handler("/metrics/slis", self._answer_slis)
        self.add_handler("/configz", self._answer_config)

    def add_handler(self, path: str, handler: Handler, *, method: str = "GET", reads_scheduler: bool = True) -> None:
        """Have authorized requests of `path` answered by `handler`. Must be called before `start`.

        With `reads_scheduler` the handler runs on the scheduler's event loop, otherwise on the server's own, if that is
        another one.
        """
        if method == "GET":
            self.app.router.add_get(path, handler)  # and HEAD
        else:
            self.app.router.add_route(method, path, handler)

    @property
    def paths(self) -> list[str]:
        """The paths that are answered, such as "/livez/{check}"."""
        return [resource.canonical for resource in self.app.router.resources()]

    async def start(self) -> None:
        await super().start()
        is_tls = self.listen.tls is not None
        log.info("serving", extra={"address": self.listen.address, "port": self.port, "tls": is_tls})

    # --- every request ---

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Authenticate and authorize a request, call its handler, and answer every error as a metav1.Status."""
        try:
            user = await self._authenticator.authenticate(shown_by(request))
            if user is None:
                return status_response(UNAUTHORIZED.status, UNAUTHORIZED.message)
            decision = await self._authorizer.authorize(user, request.method.lower(), request.path)
            if not decision.allowed:
                return status_response(decision.status, decision.message)
            response = await handler(request)
        except web.HTTPException as error:
            return status_response(error.status, error.text or error.reason)
        except Exception:
            log.exception("a request could not be answered", extra={"path": request.path})
            return status_response(500, "the request could not be answered; the scheduler's log says why")
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    # --- our own endpoints ---

    async def _answer_health(self, request: web.Request) -> web.Response:
        endpoint = request.path.strip("/")
        exclude = request.query.getall("exclude", [])
        return _health_response(self._health.ask(endpoint, verbose="verbose" in request.query, exclude=exclude))

    async def _answer_check(self, request: web.Request) -> web.Response:
        endpoint = request.path.strip("/").partition("/")[0]
        answer = self._health.ask_one(endpoint, request.match_info["check"])
        if answer is None:
            raise web.HTTPNotFound(text=f"there is no check {request.match_info['check']!r} in {endpoint}")
        return _health_response(answer)

    async def _answer_metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def _answer_slis(self, request: web.Request) -> web.Response:
        return web.Response(body=self._health.results.exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def _answer_config(self, request: web.Request) -> web.Response:
        return web.json_response(self._config())


def status_response(status: int, message: str) -> web.Response:
    """Return an error response with a metav1.Status as body."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(status, "InternalError"),
        "details": {},
        "code": status,
    }
    headers = _HEADERS | ({"WWW-Authenticate": "Bearer"} if status == 401 else {})
    return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json", headers=headers)


def _health_response(answer: Answer) -> web.Response:
    return web.Response(status=200 if answer.ok else 500, text=answer.text)


def shown_by(request: web.Request) -> Shown:
    """Return the credentials that a request presents."""
    transport = request.transport
    tls = None if transport is None else transport.get_extra_info("ssl_object")
    certificates = getattr(tls, "peer_certificates", tuple)
    return Shown(tuple(request.headers.items()), certificates)
