"""Logs why pods could not be scheduled; what keeps all of them from it is logged once a minute, with their number.

A right that was taken away, or a webhook that is down, fails each attempt of each pod for the same reason.
"""

from __future__ import annotations

import logging
import re

from kscheduler.errors import APIError
from kscheduler.framework.status import Status

log = logging.getLogger(__name__)

AGAIN_S = 60.0  # from one line about a cause to its next
# As the apiserver words them: a right that is missing, in whichever namespace, and a webhook that cannot be called.
_COMMON = re.compile(r'cannot \S+ resource "[^"]*" in API group "[^"]*"|failed calling webhook "[^"]*"')


class FailureLog:
    """Logs the failed attempts of pods. What fits no node is none."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}  # cause -> when it was logged last
        self._kept_back: dict[str, int] = {}  # cause -> attempts since then

    def log(self, pod: str, status: Status, now: float) -> None:
        """Log the attempt of a pod, namespace/name, at this time of the clock in seconds."""
        extra: dict[str, object] = {"pod": pod, "err": status.message}
        cause = _common_cause(status.error)
        level = logging.ERROR
        if cause:
            if now - self._logged_at.get(cause, float("-inf")) < AGAIN_S:
                self._kept_back[cause] += 1
                level = logging.DEBUG
            else:
                if kept_back := self._kept_back.get(cause, 0):
                    extra["not_logged_meanwhile"] = kept_back
                self._logged_at[cause], self._kept_back[cause] = now, 0
        log.log(level, "pod could not be scheduled", extra=extra)


def _common_cause(error: BaseException | None) -> str:
    """Return what went wrong, if other pods would fail for the same cause; "" if not."""
    if not isinstance(error, APIError):
        return ""
    if error.status == 401:
        return "401"
    found = _COMMON.search(error.explanation) if error.status in (403, 500) else None
    return found[0] if found else ""
