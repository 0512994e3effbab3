"""The page over hand-made readings, with an apiserver of the test's own that knows users by their tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from kscheduler.client.reviews import AccessReview, User
from kscheduler.serving.authentication import DelegatedAuthenticator
from kscheduler.serving.authorization import DelegatedAuthorizer
from kscheduler.serving.live.access import INVALID_TOKEN_TTL_S, TOKEN_TTL_S, PageAccess
from kscheduler.serving.live.hub import Hub
from kscheduler.serving.live.limits import RequestLimit, StreamSlots
from kscheduler.serving.live.page import Explained, LivePage
from kscheduler.serving.live.streams import Streams
from kscheduler.serving.server import shown_by
from tests.serving.held_reviews import HeldReviews
from tests.support.clocks import ManualClock
from tests.ui.live.fixture import EXPLAINED, NAMES, NODE


class NoAuthorities:
    """Trusts no client certificate."""

    clients = None
    front_proxies = None

    async def wait_known(self) -> None:
        return


class Reviews(HeldReviews):
    """Tokens and rights: a user is named like its token."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = {"admin", "shopkeeper", "stranger"}
        self.may_list: Mapping[str, set[tuple[str, str]]] = {  # user -> (resource, namespace)
            "admin": {("pods", ""), ("nodes", "")},
            "shopkeeper": {("pods", "shop")},
        }
        self.asked: list[tuple[str, ...]] = []

    async def token_review(self, token: str) -> User | None:
        self.asked.append(("token", token))
        await self.wait()
        return User(token) if token in self.tokens else None

    async def subject_access_review(self, user: User, verb: str, path: str) -> AccessReview:
        self.asked.append((user.name, verb, path))
        await self.wait()
        return AccessReview(user.name in self.may_list)

    async def resource_access_review(self, user: User, verb: str, resource: str, namespace: str) -> AccessReview:
        self.asked.append((user.name, verb, resource, namespace))
        await self.wait()
        return AccessReview((resource, namespace) in self.may_list.get(user.name, set()))


class Stage:
    """All parts of the page, on the loop that this is built on."""

    def __init__(self, *, most_streams: int = 100, of_address: int = 40, timeout_s: float = 10.0) -> None:
        self.clock = ManualClock()
        self.reviews = Reviews()
        self.watched: list[frozenset[str]] = []
        self.taken = asyncio.Event()
        self.hub = Hub(self.watched.append, self.taken.set)
        authenticator = DelegatedAuthenticator(
            NoAuthorities(),
            self.reviews.token_review,
            self.clock,
            ttl_s=TOKEN_TTL_S,
            invalid_ttl_s=INVALID_TOKEN_TTL_S,
            timeout_s=timeout_s,
        )
        authorizer = DelegatedAuthorizer(
            self.reviews.subject_access_review, self.clock, always_allow=(), timeout_s=timeout_s
        )
        self.access = PageAccess(
            authenticator, authorizer, self.reviews.resource_access_review, self.clock, timeout_s=timeout_s
        )
        self.streams = Streams(self.hub, self.access, self.clock, StreamSlots(most_streams, of_address))
        self.explained: dict[str, Explained] = {"shop/web-1": EXPLAINED}
        self.page = LivePage(
            self.access,
            self.streams,
            RequestLimit(self.clock.now),
            explain=self._explain,
            node=self._node,
            shown_by=shown_by,
        )

    async def _explain(self, key: str) -> Explained:
        return self.explained.get(key, (None, f"pod {key} is not known: no unfinished pod has this name", None))

    async def _node(self, name: str) -> dict[str, Any] | None:
        return {**NODE, "name": name} if name in NAMES else None

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", self.page.answer)
        return app
