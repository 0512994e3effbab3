"""Why something fails, and when that is worth a line in the log. Time is an argument.

A failure that goes on is logged once for each reason it has, as they come: an operator who has mended the first one
reads the second. Reasons that differ by numbers alone, such as the age of a sample, are one. Where reasons alternate
each is logged at most once a minute.
"""

from __future__ import annotations

import re

AGAIN_S = 60.0
MAX_KINDS = 32  # of reasons of one outage; then all are new again
_NUMBER = re.compile(r"\d+(\.\d+)?")


class Outage:
    """Of one source or metric, from its first failure to its next success."""

    def __init__(self) -> None:
        self.reason = ""  # the latest
        self._logged = ""  # the kind of reason that the last line in the log was about
        self._when: dict[str, float] = {}  # kind of reason -> when it was logged last

    def is_news(self, reason: str, now: float) -> bool:
        """It fails, for this reason. To be logged?"""
        self.reason = reason
        kind = _NUMBER.sub("#", reason)
        if kind == self._logged or now - self._when.get(kind, float("-inf")) < AGAIN_S:
            return False
        if len(self._when) >= MAX_KINDS:
            self._when.clear()
        self._logged, self._when[kind] = kind, now
        return True
