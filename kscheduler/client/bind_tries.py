"""The tries to write one binding: which have no answer yet, and whether one may have been carried out unseen."""

from __future__ import annotations

import asyncio
from collections import deque

from kscheduler.errors import APIError, TooManyRequests


class Overdue:
    """An outcome: a try has waited so long for its answer that another one may go out beside it."""

    def __str__(self) -> str:
        return "no answer for much longer than usual"


class Bug(APIError):
    """An outcome: a fault of this program ended a try, perhaps after the apiserver had carried it out."""


OVERDUE = Overdue()
Outcome = APIError | Overdue | None  # None: the apiserver wrote it


class Tries:
    """The outcomes of one binding's tries, in the order in which they came. For one event loop and one reading task."""

    def __init__(self) -> None:
        self.open = 0  # without an answer
        self.fresh = 0  # of those, not overdue
        self.has_begun = False
        self._is_lost = False  # one was carried out perhaps, and its answer will not come
        self._outcomes: deque[Outcome] = deque()
        self._news = asyncio.Event()

    @property
    def in_doubt(self) -> bool:
        """True if a try may have been carried out without our knowledge."""
        return self._is_lost or self.open > 0

    def begin(self) -> Try:
        """Record that another try of the binding is about to be written, and return it."""
        self.has_begun = True
        self.open += 1
        self.fresh += 1
        return Try(self)

    async def next(self) -> Outcome:
        """Return the oldest unread outcome, once there is one."""
        while not self._outcomes:
            self._news.clear()
            await self._news.wait()
        return self._outcomes.popleft()

    async def has_news_within(self, timeout_s: float) -> bool:
        """Wait up to that many seconds, and return True as soon as there is an unread outcome."""
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
    """One try: `is_late` is called at most once, then `ended` or `failed` once."""

    __slots__ = ("_is_late", "_tries")

    def __init__(self, tries: Tries) -> None:
        self._tries = tries
        self._is_late = False

    def is_late(self) -> None:
        """Report that the answer is overdue. It may still come."""
        if not self._is_late:
            self._is_late = True
            self._tries._came_due()

    def ended(self, error: APIError | None) -> None:
        """Report the outcome; None means that the apiserver wrote the binding."""
        self._tries._ended(self._is_late, error)

    def failed(self, bug: Exception) -> None:
        """Report that the try ended with an exception that is no APIError."""
        self._tries._ended(self._is_late, Bug(f"a fault of the program: {type(bug).__name__}"))


def _may_have_been_carried_out(error: APIError) -> bool:
    """Return False if the apiserver refused the binding, or was not asked."""
    return error.is_transient and not isinstance(error, TooManyRequests)
