"""Builds the HTTPS endpoint with the page."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Protocol

from kscheduler.client.reviews import AccessReview, User
from kscheduler.clock import Clock
from kscheduler.explain.explainer import Explainer, Leadership
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Scheduler
from kscheduler.serving.authentication import DelegatedAuthenticator, Trust
from kscheduler.serving.authorization import DelegatedAuthorizer
from kscheduler.serving.health import Health
from kscheduler.serving.live.access import INVALID_TOKEN_TTL_S, TOKEN_TTL_S, PageAccess
from kscheduler.serving.live.feed import Feed
from kscheduler.serving.live.hub import Hub
from kscheduler.serving.live.limits import RequestLimit
from kscheduler.serving.live.loop_thread import LoopThread, across
from kscheduler.serving.live.page import Explained, LivePage
from kscheduler.serving.live.readings import Reading
from kscheduler.serving.live.scheduler_reader import SchedulerReader
from kscheduler.serving.live.server import (
    AuthenticatorAcross,
    AuthorizerAcross,
    PageThread,
    ServerWithPage,
    TrustAcross,
)
from kscheduler.serving.live.streams import Streams
from kscheduler.serving.server import Listen, Server, shown_by


class Reviews(Protocol):
    """What the apiserver is asked about users, on the scheduler's loop."""

    async def token_review(self, token: str) -> User | None: ...

    async def subject_access_review(self, user: User, verb: str, path: str) -> AccessReview: ...

    async def resource_access_review(self, user: User, verb: str, resource: str, namespace: str) -> AccessReview: ...


class Guards(NamedTuple):
    """Who may read the endpoint, and with what that is found out."""

    trust: Trust
    authenticator: DelegatedAuthenticator
    authorizer: DelegatedAuthorizer
    authentication: Reviews  # for TokenReviews
    authorization: Reviews  # for SubjectAccessReviews


class Watched(NamedTuple):
    """What the page shows."""

    scheduler: Scheduler
    explainer: Explainer | None
    leadership: Callable[[], Leadership]
    max_waiting_s: float  # after so many seconds unschedulable pods are tried again without a change


class _Readings:
    """The reader with what it needs of leader election."""

    def __init__(self, reader: SchedulerReader, leadership: Callable[[], Leadership]) -> None:
        self._reader = reader
        self._leadership = leadership
        self.forget = reader.forget

    def take(self, views: Collection[str]) -> Reading:
        return self._reader.take(views, self._leadership())


def server_with_page(
    thread: LoopThread,
    listen: Listen,
    watched: Watched,
    guards: Guards,
    *,
    metrics: Metrics,
    health: Health,
    config: Callable[[], dict[str, Any]],
    clock: Clock,
) -> tuple[Server, PageThread]:
    """Build the server, and what starts and stops it. To be called on the scheduler's loop."""
    main = asyncio.get_running_loop()
    server = ServerWithPage(
        listen,
        metrics=metrics,
        health=health,
        config=config,
        authenticator=AuthenticatorAcross(guards.authenticator, main),
        authorizer=AuthorizerAcross(guards.authorizer, main),
    )
    reader = SchedulerReader(watched.scheduler, watched.explainer, clock, watched.max_waiting_s)

    def deliver(reading: Reading) -> None:
        with contextlib.suppress(RuntimeError):  # the page's loop has ended
            thread.loop.call_soon_threadsafe(hub.deliver, reading)

    feed = Feed(_Readings(reader, watched.leadership), time.perf_counter, deliver)
    hub = Hub(lambda views: main.call_soon_threadsafe(feed.watch, views), lambda: main.call_soon_threadsafe(feed.taken))
    access = _access(guards, main, clock)

    async def explain(key: str) -> Explained:
        return reader.explain(key)

    async def node(name: str) -> dict[str, Any] | None:
        return reader.node(name)

    server.page = LivePage(
        access,
        Streams(hub, access, clock),
        RequestLimit(clock.now),
        explain=across(main, explain),
        node=across(main, node),
        shown_by=shown_by,
    )
    return server, PageThread(thread, server, hub)


def _access(guards: Guards, main: asyncio.AbstractEventLoop, clock: Clock) -> PageAccess:
    """Build the page's own caches of answers, in its thread: only what is not cached is asked on the other loop."""
    reviews = guards.authorization
    authenticator = DelegatedAuthenticator(
        TrustAcross(guards.trust, main),
        across(main, guards.authentication.token_review),
        clock,
        ttl_s=TOKEN_TTL_S,
        invalid_ttl_s=INVALID_TOKEN_TTL_S,
    )
    authorizer = DelegatedAuthorizer(across(main, reviews.subject_access_review), clock, always_allow=())
    return PageAccess(authenticator, authorizer, across(main, reviews.resource_access_review), clock)
