"""Serves the admission webhook at an HTTPS endpoint of its own: /mutate, for the apiserver.

Callers are not authenticated: an answer reveals only what a rule would do with the pod in the request, which any user
who may create pods can find out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from aiohttp import web

from kscheduler.config.routing import RoutingConfig
from kscheduler.errors import DecodeError
from kscheduler.serving.certificates import server_context
from kscheduler.serving.listener import Listen, Listener
from kscheduler.serving.routing.admission import answer, read_review
from kscheduler.serving.routing.rules import Router

log = logging.getLogger(__name__)

PATH = "/mutate"
RELOAD_S = 10.0  # seconds between checks of certificate files; a kubelet takes a minute to update a Secret
MAX_BODY = 8 << 20  # the apiserver accepts objects of up to 3 MiB, and a request may contain two versions of one

OnRouted = Callable[[str], object]  # called with the name of the rule


class RoutingWebhook(Listener):
    """The HTTPS server of the admission webhook."""

    def __init__(self, config: RoutingConfig, router: Router, on_routed: OnRouted) -> None:
        """Create the server.

        Raises ConfigError for a certificate that cannot be used. `on_routed` is not called for dry runs.
        """
        tls = server_context(config.cert_file, config.key_file)
        where = f"bindAddress {config.bind_address}, port {config.port} of the routing configuration"
        super().__init__(Listen(config.bind_address, config.port, tls), where, reload_s=RELOAD_S, max_body=MAX_BODY)
        self._router = router
        self._on_routed = on_routed
        self._failed = False
        self.app.router.add_post(PATH, self._mutate)

    async def start(self) -> None:
        await super().start()
        log.info("routing new pods", extra={"address": self.listen.address, "port": self.port})

    async def _mutate(self, request: web.Request) -> web.Response:
        try:
            question = read_review(await request.read())
        except DecodeError as error:
            if not self._failed:
                self._failed = True
                log.warning("an AdmissionReview of a new pod cannot be read", extra={"err": str(error)})
            return web.Response(status=400, text=str(error))
        self._failed = False
        route = None if question.pod is None else self._router.route(question.pod)
        if route is not None and not question.is_dry_run:
            self._on_routed(route.rule)
        return web.Response(body=answer(question, route), content_type="application/json")
