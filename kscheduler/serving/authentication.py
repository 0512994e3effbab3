"""Authenticates requests: by the headers of a front proxy, else by client certificate, else by bearer token.

The first method that proves a user counts. A request without credentials is anonymous; one whose credentials are all
invalid is answered with 401. As in kube-scheduler, a token that cannot be reviewed by the apiserver is invalid. Results
of token reviews are cached for a while under a hash of the token. No part of a token or header is logged.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cryptography import x509

from kscheduler.client.concurrency import within
from kscheduler.client.reviews import User
from kscheduler.clock import Clock
from kscheduler.errors import KSchedulerError
from kscheduler.serving.answer_cache import AnswerCache
from kscheduler.serving.authorities import Authorities, NotAuthenticated, common_name, user_of
from kscheduler.serving.request_headers import HeaderNames, Headers

log = logging.getLogger(__name__)

CACHE_TTL_S = 10.0  # kube-scheduler's default
REVIEW_TIMEOUT_S = 10.0
REVIEWS_AT_ONCE = 4
MAX_TOKEN = 16 * 1024  # longer ones are refused; a projected service account token has about 1 KiB

ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))
AUTHENTICATED_GROUP = "system:authenticated"

TokenReview = Callable[[str], Awaitable["User | None"]]


@dataclass(frozen=True, slots=True)
class Shown:
    """The credentials that a client presents: the headers of its request and the certificates of its connection."""

    headers: Headers = ()
    certificates: Callable[[], Sequence[x509.Certificate]] = tuple  # the client's own first, then intermediate ones

    @property
    def token(self) -> str | None:
        """The token of the header `Authorization: Bearer TOKEN`; None without it."""
        header = next((value for name, value in self.headers if name.lower() == "authorization"), "").strip()
        scheme, _, rest = header.partition(" ")
        token = rest.partition(" ")[0]
        return token if scheme.lower() == "bearer" and token else None


@dataclass(frozen=True, slots=True)
class FrontProxies:
    """The proxies whose headers may name a user.

    Such a proxy has a client certificate of `authorities` and, if `allowed_names` is not empty, a common name among
    these.
    """

    authorities: Authorities
    names: HeaderNames
    allowed_names: tuple[str, ...] = ()


class Trust(Protocol):
    """The certificate authorities that client certificates are verified with; they may change at any time."""

    @property
    def clients(self) -> Authorities | None: ...

    @property
    def front_proxies(self) -> FrontProxies | None: ...

    async def wait_known(self) -> None:
        """Wait until the authorities were read for the first time; after that, return at once."""
        ...


class Authenticator(Protocol):
    async def authenticate(self, shown: Shown) -> User | None:
        """Return the user, who may be anonymous; None for invalid credentials (401).

        Never raises, and is bounded in time.
        """
        ...


class NotReviewed(KSchedulerError):
    """Raised when the apiserver could not say whose token it is."""


class DelegatedAuthenticator:
    """Authenticates requests: verifies certificates itself, and sends tokens to the apiserver (TokenReview)."""

    def __init__(
        self,
        trust: Trust,
        token_review: TokenReview,
        clock: Clock,
        *,
        ttl_s: float = CACHE_TTL_S,
        invalid_ttl_s: float | None = None,
        timeout_s: float = REVIEW_TIMEOUT_S,
    ) -> None:
        """Create an authenticator.

        `ttl_s`: for how many seconds the users of tokens are cached; `invalid_ttl_s`: the same of tokens that are
        invalid, None: as long.
        """
        self._trust = trust
        self._token_review = token_review
        self._clock = clock
        self._timeout_s = timeout_s
        self._ttl_s = ttl_s
        self._invalid_ttl_s = ttl_s if invalid_ttl_s is None else invalid_ttl_s
        self._users: AnswerCache[User | None] = AnswerCache(clock)  # SHA-256 of a token -> its user, None if invalid
        self._slots = asyncio.Semaphore(REVIEWS_AT_ONCE)

    async def authenticate(self, shown: Shown) -> User | None:
        try:
            return await self.identify(shown)
        except NotReviewed as error:
            log.warning("a request could not be authenticated", extra={"reasons": [str(error)]})
            return None

    async def identify(self, shown: Shown) -> User | None:
        """Return the user as `authenticate` does, but raise NotReviewed if the apiserver could not review the token."""
        faults: list[str] = []
        user = await self._by_certificate(shown, faults)
        if user is None and (token := shown.token) is not None:
            user = await self._by_token(token, faults)
        if user is not None:
            return _with_authenticated_group(user)
        if faults:
            log.warning("a request could not be authenticated", extra={"reasons": faults})
            return None
        return ANONYMOUS

    async def _by_certificate(self, shown: Shown, faults: list[str]) -> User | None:
        try:
            certificates = shown.certificates()
        except Exception as error:  # a certificate may be broken in more ways than the library has types for
            faults.append(f"the client's certificate cannot be read: {error}")
            return None
        if not certificates:
            return None
        try:
            await within(self._timeout_s, self._trust.wait_known())
        except TimeoutError:
            log.warning("the authorities of client certificates are not known yet")
        for prove in (self._by_front_proxy, self._by_client_certificate):
            try:
                user = prove(shown, certificates)
            except NotAuthenticated as error:
                faults.append(str(error))
            except Exception as error:  # as above: parts of a certificate are parsed only when they are read
                faults.append(f"the client's certificate cannot be read: {type(error).__name__}: {error}")
            else:
                if user is not None:
                    return user
        return None

    def _by_front_proxy(self, shown: Shown, certificates: Sequence[x509.Certificate]) -> User | None:
        proxies = self._trust.front_proxies
        if proxies is None:
            return None
        proxies.authorities.verify(certificates, self._clock.wall())
        name = common_name(certificates[0])
        if proxies.allowed_names and name not in proxies.allowed_names:
            raise NotAuthenticated(f"x509: subject with cn={name} is not in the allowed list")
        return proxies.names.user(shown.headers)

    def _by_client_certificate(self, shown: Shown, certificates: Sequence[x509.Certificate]) -> User | None:
        authorities = self._trust.clients
        if authorities is None:
            return None
        authorities.verify(certificates, self._clock.wall())
        return user_of(certificates[0])

    async def _by_token(self, token: str, faults: list[str]) -> User | None:
        if len(token) > MAX_TOKEN:
            faults.append("invalid bearer token")
            return None
        try:
            user = await within(self._timeout_s, self._review(token))
        except TimeoutError:
            raise NotReviewed(f"no answer about a token from the apiserver within {self._timeout_s:g} s") from None
        except Exception as error:
            raise NotReviewed(f"the apiserver could not be asked about a token: {error}") from error
        if user is None:
            faults.append("invalid bearer token")
        return user

    async def _review(self, token: str) -> User | None:
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()

        def ttl_s(user: User | None) -> float:
            return self._invalid_ttl_s if user is None else self._ttl_s

        return await self._users.answer(key, self._slots, lambda: self._token_review(token), ttl_s)


def _with_authenticated_group(user: User) -> User:
    known = user.name == ANONYMOUS.name or AUTHENTICATED_GROUP in user.groups or ANONYMOUS.groups[0] in user.groups
    return user if known else user._replace(groups=(*user.groups, AUTHENTICATED_GROUP))
