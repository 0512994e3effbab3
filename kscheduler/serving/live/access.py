"""Who may see what on the page: a user by token or certificate, and their rights as the apiserver decides.

`get` on the path allows the page itself, `list pods` in a namespace the pods there, `list nodes` the nodes. Answers are
cached. Nobody is asked about requests without credentials, which are refused at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from kscheduler.client.concurrency import within
from kscheduler.client.reviews import AccessReview, User
from kscheduler.clock import Clock
from kscheduler.errors import KSchedulerError
from kscheduler.serving.answer_cache import AnswerCache
from kscheduler.serving.authentication import ANONYMOUS, REVIEW_TIMEOUT_S, REVIEWS_AT_ONCE, NotReviewed, Shown
from kscheduler.serving.authorization import ALWAYS_ALLOWED_GROUP, Authorizer

log = logging.getLogger(__name__)

TOKEN_TTL_S = 60.0  # how long the user of a token is cached; so long at most a token counts that has expired
INVALID_TOKEN_TTL_S = 5.0
ALLOWED_TTL_S = 60.0  # of a right to list
DENIED_TTL_S = 10.0
RIGHTS = 8_192  # cached
MOST_NAMESPACES = 100  # that are asked about for one document

ResourceReview = Callable[[User, str, str, str], Awaitable[AccessReview]]  # user, verb, resource, namespace


class Refused(KSchedulerError):
    """Raised for a request that is not answered. `status`: the HTTP status; `retry_s`: when to try again."""

    def __init__(self, status: int, message: str, *, retry_s: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.retry_s = retry_s


class Identifies(Protocol):
    async def identify(self, shown: Shown) -> User | None:
        """Return the user, who may be anonymous; None for invalid credentials. Raises NotReviewed."""
        ...


class PageAccess:
    """Answers of the apiserver about the page's users."""

    def __init__(
        self,
        authenticator: Identifies,
        authorizer: Authorizer,
        resource_review: ResourceReview,
        clock: Clock,
        *,
        timeout_s: float = REVIEW_TIMEOUT_S,
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._resource_review = resource_review
        self._timeout_s = timeout_s
        self._rights: AnswerCache[AccessReview] = AnswerCache(clock, RIGHTS)  # user, verb, resource, namespace
        self._slots = asyncio.Semaphore(REVIEWS_AT_ONCE)

    async def user(self, shown: Shown, path: str) -> User:
        """Return the user if they may get `path`. Raises Refused: 401, 403, or 503 if the apiserver does not answer."""
        try:
            user = await self._authenticator.identify(shown)
        except NotReviewed as error:
            log.warning("a token shown to the page could not be reviewed", extra={"err": str(error)})
            raise _unavailable() from error
        if user is None:
            raise Refused(401, "The token is not valid, or no longer. Use a new one.")
        if user.name == ANONYMOUS.name:
            raise Refused(401, "A token is needed.")
        decision = await self._authorizer.authorize(user, "get", path)
        if decision.status >= 500:
            raise _unavailable()
        if not decision.allowed:
            raise Refused(403, decision.message)
        return user

    async def may_list(self, user: User, resource: str, namespace: str = "") -> bool:
        """Return whether the user may list a resource in a namespace ("": in all). Raises Refused (503)."""
        if ALWAYS_ALLOWED_GROUP in user.groups:
            return True
        key = (user, "list", resource, namespace)
        if (known := self._rights.known(key)) is not None:
            return known.allowed

        def ttl_s(answer: AccessReview) -> float:
            return ALLOWED_TTL_S if answer.allowed else DENIED_TTL_S

        try:
            asked = self._rights.answer(key, self._slots, lambda: self._resource_review(*key), ttl_s)
            return (await within(self._timeout_s, asked)).allowed
        except Exception as error:
            log.warning("a user's rights could not be reviewed", extra={"resource": resource, "err": str(error)})
            raise _unavailable() from error

    async def visible(self, user: User, namespaces: Iterable[str]) -> frozenset[str] | None:
        """Return those of these namespaces whose pods the user may list; None if the user may list them in all.

        Asks about MOST_NAMESPACES at most, in alphabetical order; others count as not visible. Raises Refused (503).
        """
        if await self.may_list(user, "pods"):
            return None
        chosen = sorted(namespaces)[:MOST_NAMESPACES]
        allowed = await asyncio.gather(*(self.may_list(user, "pods", namespace) for namespace in chosen))
        return frozenset(namespace for namespace, may in zip(chosen, allowed, strict=True) if may)


def _unavailable() -> Refused:
    return Refused(503, "The apiserver could not be asked who may see this. It is tried again.", retry_s=5)
