"""Keeps track of the requests ("tries") that write one binding, and of whether one may have been carried out unseen."""

from __future__ import annotations

import asyncio
from collections import deque

from kscheduler.errors import APIError, TooManyRequests


class Overdue:
    """The outcome of a try that has waited so long for its answer that another try may be sent besides."""

    def __str__(self) -> str:
        return "no answer for much longer than usual"


class Bug(APIError):
    """The outcome of a try that a bug in this program ended; the apiserver may have carried it out."""


OVERDUE = Overdue()
Outcome = APIError | Overdue | None  # None: the apiserver wrote it


class Tries:
    """The outcomes of the tries to write one binding, in the order of arrival. Only one task may read them."""

    def __init__(self) -> None:
        self.open = 0  # tries without an answer
        self.fresh = 0  # tries without an answer that are not overdue
        self.has_begun = False
        self._is_lost = False  # a try may have been carried out, and its answer will never arrive
        self._outcomes: deque[Outcome] = deque()
        self._news = asyncio.Event()

    @property
    def in_doubt(self) -> bool:
        """True if one of the tries may have been carried out although no answer shows it."""
        return self._is_lost or self.open > 0

    def begin(self) -> Try:
        """Record that another request for the binding is about to be sent, and return its `Try`."""
        self.has_begun = True
        self.open += 1
        self.fresh += 1
        return Try(self)

    async def next(self) -> Outcome:
        """Wait for an outcome that has not been returned yet, and return the oldest one."""
        while not self._outcomes:
            self._news.clear()
            await self._news.wait()
        return self._outcomes.popleft()

    async def has_news_within(self, timeout_s: float) -> bool:
        """Return True as soon as there is an outcome to read, or False after `timeout_s` seconds."""
        if not self._outcomes:
            self._news.clear()
            timer = asyncio.get_running_loop().call_later(timeout_s, self._news.set)
            try:
                await self._news.wait()
            finally:
                timer.cancel()
        return bool(self._outcomes)

    def _ended(self, was_late: bool, outcome: APIError | None) -> None:
        self.open -= 1
        self.fresh -= not was_late
        self._is_lost = self._is_lost or (outcome is not None and _may_have_been_carried_out(outcome))
        self._note(outcome)

    def _came_due(self) -> None:
        self.fresh -= 1
        self._note(OVERDUE)

    def _note(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        self._news.set()


class Try:
    """One request that writes a binding. Call `is_late` at most once, then either `ended` or `failed` once."""

    __slots__ = ("_is_late", "_tries")

    def __init__(self, tries: Tries) -> None:
        self._tries = tries
        self._is_late = False

    def is_late(self) -> None:
        """Record that the answer to this request is overdue; it may still arrive."""
        if not self._is_late:
            self._is_late = True
            self._tries._came_due()

    def ended(self, error: APIError | None) -> None:
        """Record the outcome of this request; None means that the apiserver wrote the binding."""
        self._tries._ended(self._is_late, error)

    def failed(self, bug: Exception) -> None:
        """Record that the request ended with an exception that is not an APIError."""
        self._tries._ended(self._is_late, Bug(f"a fault of the program: {type(bug).__name__}"))


def _may_have_been_carried_out(error: APIError) -> bool:
    """Return True unless the error proves that the apiserver refused the binding or never received it."""
    return error.is_transient and not isinstance(error, TooManyRequests) and not error.is_failed_admission
