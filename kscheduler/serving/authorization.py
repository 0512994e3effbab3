"""Who may read the endpoints: everybody, or whom the apiserver says (TokenReview, then SubjectAccessReview).

Answers are kept for ten seconds, as kube-scheduler keeps them, under a hash of the token. Reviews are bounded in
time and number, so that a stuck apiserver, or somebody trying tokens, costs neither memory nor other requests.
Client certificates and request headers of a front proxy are not read.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from kscheduler.client.concurrency import within
from kscheduler.clock import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")

CACHE_TTL_S = 10.0  # kube-scheduler's --authentication-token-webhook-cache-ttl and its two siblings
CACHE_ENTRIES = 1024
REVIEW_TIMEOUT_S = 10.0
REVIEWS_AT_ONCE = 4
MAX_TOKEN = 16 * 1024  # longer is no token of ours; a projected one has about 1 KiB

ANONYMOUS = "system:anonymous"


class Identity(NamedTuple):
    """What a TokenReview answers."""

    authenticated: bool
    user: str
    groups: tuple[str, ...] = ()


TokenReview = Callable[[str], Awaitable["tuple[bool, str, tuple[str, ...]]"]]  # token -> authenticated, user, groups
SubjectAccessReview = Callable[[str, "tuple[str, ...]", str, str], Awaitable[bool]]  # user, groups, verb, path


@dataclass(frozen=True, slots=True)
class Decision:
    """`status` is the HTTP status to answer with: 200, 401, 403 or 500."""

    status: int
    message: str = ""

    @property
    def allowed(self) -> bool:
        return self.status == 200


ALLOWED = Decision(200)


class Authorizer(Protocol):
    async def authorize(self, token: str | None, verb: str, path: str) -> Decision:
        """May the bearer of `token` do `verb` (a lower-case HTTP method) on `path`? Never raises, never hangs."""
        ...


class AllowAll:
    """Everybody may read everything: for tests, the simulator and plain HTTP on a loopback address."""

    async def authorize(self, token: str | None, verb: str, path: str) -> Decision:
        return ALLOWED


class DelegatedAuthorizer:
    """Asks the apiserver, through two callables that the client provides."""

    def __init__(
        self,
        token_review: TokenReview,
        subject_access_review: SubjectAccessReview,
        clock: Clock,
        *,
        timeout_s: float = REVIEW_TIMEOUT_S,
    ) -> None:
        self._token_review = token_review
        self._subject_access_review = subject_access_review
        self._timeout_s = timeout_s
        self._identities: _Cache[Identity] = _Cache(clock)  # SHA-256 of a token -> who it is
        self._access: _Cache[bool] = _Cache(clock)  # user, groups, verb, path -> allowed
        self._slots = asyncio.Semaphore(REVIEWS_AT_ONCE)

    async def authorize(self, token: str | None, verb: str, path: str) -> Decision:
        if token is None:
            return _forbidden(ANONYMOUS, verb, path)
        if not token or len(token) > MAX_TOKEN:
            return Decision(401, "Unauthorized")
        try:
            return await within(self._timeout_s, self._decide(token, verb, path))
        except asyncio.TimeoutError:
            log.warning("asking the apiserver about a request took too long", extra={"path": path})
            return Decision(500, f"no answer from the apiserver within {self._timeout_s:g} s")
        except Exception as error:
            log.warning("asking the apiserver about a request failed", extra={"path": path, "err": error})
            return Decision(500, "the apiserver could not be asked who may do this")

    async def _decide(self, token: str, verb: str, path: str) -> Decision:
        identity = await self._identify(token)
        if not identity.authenticated:
            return Decision(401, "Unauthorized")
        key = (identity.user, identity.groups, verb, path)
        allowed = self._access.get(key)
        if allowed is None:
            async with self._slots:
                allowed = await self._subject_access_review(identity.user, identity.groups, verb, path)
            self._access.put(key, allowed)
        return ALLOWED if allowed else _forbidden(identity.user, verb, path)

    async def _identify(self, token: str) -> Identity:
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        identity = self._identities.get(key)
        if identity is None:
            async with self._slots:
                identity = self._identities.get(key)  # another request may have asked while this one waited
                if identity is None:
                    authenticated, user, groups = await self._token_review(token)
                    identity = Identity(authenticated, user, tuple(groups))
                    self._identities.put(key, identity)
        return identity


def _forbidden(user: str, verb: str, path: str) -> Decision:
    return Decision(403, f'forbidden: User "{user}" cannot {verb} path "{path}"')


class _Cache(Generic[T]):
    """Answers for `CACHE_TTL_S`; the oldest goes when it is full."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[Hashable, tuple[float, T]] = {}  # key -> deadline, answer; oldest first

    def get(self, key: Hashable) -> T | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[0] <= self._clock.now():
            del self._entries[key]
            return None
        return entry[1]

    def put(self, key: Hashable, value: T) -> None:
        self._entries.pop(key, None)
        if len(self._entries) >= CACHE_ENTRIES:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = (self._clock.now() + CACHE_TTL_S, value)
