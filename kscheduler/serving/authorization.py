"""Authorizes requests: some paths for everybody, everything for system:masters, the rest as the apiserver decides.

The apiserver's answers (SubjectAccessReviews) are cached for a while. Reviews are bounded in time and number, and those
for anonymous users run one at a time, so that unauthenticated clients delay no other request.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kscheduler.client.concurrency import within
from kscheduler.client.reviews import AccessReview, User
from kscheduler.clock import Clock
from kscheduler.errors import ConfigError
from kscheduler.serving.answer_cache import AnswerCache
from kscheduler.serving.authentication import ANONYMOUS, REVIEW_TIMEOUT_S, REVIEWS_AT_ONCE

log = logging.getLogger(__name__)

CACHE_TTL_S = 10.0  # kube-scheduler's default, for positive and negative answers
ALWAYS_ALLOWED = ("/healthz", "/readyz", "/livez")
ALWAYS_ALLOWED_GROUP = "system:masters"  # the apiserver allows it everything too
MAX_KEPT_PATH = 10_000  # answers for longer paths, which any client can make up, are not cached

SubjectAccessReview = Callable[[User, str, str], Awaitable[AccessReview]]  # user, verb, path


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of authorization. `status` is the HTTP status to answer with: 200, 401, 403 or 500."""

    status: int
    message: str = ""

    @property
    def allowed(self) -> bool:
        return self.status == 200


ALLOWED = Decision(200)
UNAUTHORIZED = Decision(401, "Unauthorized")


class Authorizer(Protocol):
    async def authorize(self, user: User, verb: str, path: str) -> Decision:
        """Decide whether the user may do `verb` (an HTTP method in lower case) on `path`.

        Never raises, is bounded in time.
        """
        ...


class AllowedPaths:
    """The paths that everybody may access. A trailing * matches any rest of the path; a leading / may be left out."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Compile the paths. Raises ConfigError for a * that is not the last character."""
        plain = [path.removeprefix("/") for path in paths]
        for path in plain:
            if "*" in path[:-1]:
                raise ConfigError(f'--authorization-always-allow-paths: only trailing * allowed in "{path}"')
        self._exact = frozenset(path for path in plain if not path.endswith("*"))
        self._prefixes = tuple(path[:-1] for path in plain if path.endswith("*"))

    def __contains__(self, path: str) -> bool:
        plain = path.removeprefix("/")
        return plain in self._exact or plain.startswith(self._prefixes)


class DelegatedAuthorizer:
    """Authorizes requests by SubjectAccessReviews of the apiserver, whose answers are cached."""

    def __init__(
        self,
        subject_access_review: SubjectAccessReview,
        clock: Clock,
        *,
        always_allow: Sequence[str] = ALWAYS_ALLOWED,
        allowed_ttl_s: float = CACHE_TTL_S,
        denied_ttl_s: float = CACHE_TTL_S,
        timeout_s: float = REVIEW_TIMEOUT_S,
    ) -> None:
        """Create an authorizer. `always_allow`: paths that everybody may access.

        `allowed_ttl_s` and `denied_ttl_s` say for how many seconds positive and negative answers are cached.
        """
        self._subject_access_review = subject_access_review
        self._free = AllowedPaths(always_allow)
        self._allowed_ttl_s = allowed_ttl_s
        self._denied_ttl_s = denied_ttl_s
        self._timeout_s = timeout_s
        self._answers: AnswerCache[AccessReview] = AnswerCache(clock)  # user, verb, path -> answer
        self._slots = asyncio.Semaphore(REVIEWS_AT_ONCE)
        self._anonymous_slots = asyncio.Semaphore(1)

    async def authorize(self, user: User, verb: str, path: str) -> Decision:
        if ALWAYS_ALLOWED_GROUP in user.groups or path in self._free:
            return ALLOWED
        try:
            answer = await within(self._timeout_s, self._ask(user, verb, path))
        except TimeoutError:
            log.warning("asking the apiserver about a request took too long", extra={"path": path})
            return Decision(500, f"no answer from the apiserver within {self._timeout_s:g} s")
        except Exception as error:
            log.warning("asking the apiserver about a request failed", extra={"path": path, "err": error})
            return Decision(500, "the apiserver could not be asked who may do this")
        return ALLOWED if answer.allowed else _forbidden(user.name, verb, path, answer.reason)

    async def _ask(self, user: User, verb: str, path: str) -> AccessReview:
        def ttl_s(answer: AccessReview) -> float:
            if len(path) > MAX_KEPT_PATH:
                return 0.0
            return self._allowed_ttl_s if answer.allowed else self._denied_ttl_s

        slots = self._anonymous_slots if user == ANONYMOUS else self._slots
        key = (user, verb, path)
        return await self._answers.answer(key, slots, lambda: self._subject_access_review(*key), ttl_s)


def _forbidden(user: str, verb: str, path: str, reason: str) -> Decision:
    message = f"User {_quoted(user)} cannot {verb} path {_quoted(path)}"
    # A browser must not interpret the message as HTML.
    for character, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        message = message.replace(character, escaped)
    return Decision(403, f"forbidden: {message}: {reason}" if reason else f"forbidden: {message}")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())
