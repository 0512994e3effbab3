"""Limits how much a guest logs, so that one that logs at each call does not flood the log of the scheduler.

    message -- has its severity a token? -- yes --> logged
                                         -- no  --> left out and counted: reported at the first one, then once a minute

Messages of each severity have tokens of their own, so that a guest that logs much does not hide its errors.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogRules:
    """How many messages of one severity a guest may log: `burst` at once, and then so many a second."""

    burst: int = 500
    per_s: float = 10.0
    report_s: float = 60.0  # between two reports of how many were left out


NO_LOG_LIMIT = LogRules(burst=1 << 60)  # for commands that show each message to the user


class _Tokens:
    __slots__ = ("count", "updated_s")

    def __init__(self, burst: int, now_s: float) -> None:
        self.count = float(burst)
        self.updated_s = now_s


class GuestLog:
    """Decides which messages of one plugin are logged, by its clock. Any thread may ask."""

    def __init__(self, plugin: str, now: Callable[[], float], rules: LogRules) -> None:
        self._plugin = plugin
        self._now = now
        self._rules = rules
        self._lock = threading.Lock()
        self._tokens: dict[int, _Tokens] = {}  # by severity
        self._left_out = 0  # messages since the last report
        self._reported_s: float | None = None  # when the last report was; None: there was none

    def admits(self, severity: int) -> bool:
        """Return whether a message of this severity may be logged now; if not, it is counted."""
        now_s = self._now()
        with self._lock:
            is_admitted = self._take(severity, now_s)
            self._left_out += not is_admitted
            left_out = self._due_report(now_s)
        if left_out:
            extra = {"plugin": self._plugin, "left_out": left_out}
            log.warning("a guest logs too much: messages are left out", extra=extra)
        return is_admitted

    def _take(self, severity: int, now_s: float) -> bool:
        rules = self._rules
        tokens = self._tokens.get(severity)
        if tokens is None:
            tokens = self._tokens[severity] = _Tokens(rules.burst, now_s)
        # A scheduler's clock replaces the machine's when it is there, and may be behind it.
        tokens.count = min(float(rules.burst), tokens.count + max(0.0, now_s - tokens.updated_s) * rules.per_s)
        tokens.updated_s = now_s
        if tokens.count < 1.0:
            return False
        tokens.count -= 1.0
        return True

    def _due_report(self, now_s: float) -> int:
        """Return how many messages are to be reported as left out now; 0 for no report."""
        if not self._left_out:
            return 0
        if self._reported_s is not None and 0.0 <= now_s - self._reported_s < self._rules.report_s:
            return 0
        left_out, self._left_out = self._left_out, 0
        self._reported_s = now_s
        return left_out
