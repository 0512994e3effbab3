"""The reasons of a continuing failure, and which of them are logged.

Each new reason of a continuing failure is logged once, so that an operator who has fixed the first problem sees the
next one. Reasons that differ only in numbers, such as the age of a sample, count as one. Alternating reasons are each
logged at most once a minute. Callers pass the current time as an argument.
"""

from __future__ import annotations

import re

AGAIN_S = 60.0
MAX_KINDS = 32  # kinds of reasons remembered for one outage; beyond that all are forgotten
_NUMBER = re.compile(r"\d+(\.\d+)?")


class Outage:
    """The failure of one source or metric, from the first error to the next success."""

    def __init__(self) -> None:
        self.reason = ""  # the latest
        self._logged = ""  # the kind of reason that the last line in the log was about
        self._when: dict[str, float] = {}  # kind of reason -> when it was logged last

    def is_news(self, reason: str, now: float) -> bool:
        """Record a failure with this reason, and return whether to log it."""
        self.reason = reason
        kind = _NUMBER.sub("#", reason)
        if kind == self._logged or now - self._when.get(kind, float("-inf")) < AGAIN_S:
            return False
        if len(self._when) >= MAX_KINDS:
            self._when.clear()
        self._logged, self._when[kind] = kind, now
        return True
