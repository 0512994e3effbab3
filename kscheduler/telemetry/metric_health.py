"""Tracks failures of each metric: how many came in a row, and which samples were refused. Each change is logged once.

Callers pass the current time as an argument.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping

from kscheduler.observability.measurements import Measurements
from kscheduler.telemetry.outages import Outage
from kscheduler.telemetry.source import OLDER

log = logging.getLogger(__name__)


class MetricHealth:
    def __init__(self, observer: Measurements) -> None:
        self._observer = observer
        self._failures: Counter[str] = Counter()  # name of a metric -> consecutive failures
        self._outages: dict[str, Outage] = {}  # name of a metric whose source answers, but without usable values of it
        self._refusing: dict[
            str, set[str]
        ] = {}  # name of a metric -> reasons for which samples of its last answer were refused
        self.version = 0  # grows with every change of a number of failures

    def failures(self, metric: str) -> int:
        return self._failures[metric]

    def reason(self, metric: str) -> str:
        """Return why the source's last answer had no usable value of the metric; "" if it had one."""
        outage = self._outages.get(metric)
        return "" if outage is None else outage.reason

    def refusals(self, metric: str) -> list[str]:
        """Return the reasons for which samples of the metric in its source's last answer were refused."""
        return sorted(self._refusing.get(metric, ()))

    def answered(self, metric: str) -> None:
        if self._outages.pop(metric, None) is not None:
            log.info("metric is answered again", extra={"metric": metric})
        self._set(metric, 0)

    def was_useless(self, metric: str, reason: str, now: float) -> None:
        """Record that the metric's source answered, but without a usable value of this metric."""
        if self._outages.setdefault(metric, Outage()).is_news(reason, now):
            log.warning("metric is not answered", extra={"metric": metric, "err": reason})
        self._set(metric, self._failures[metric] + 1)

    def source_failed(self, metric: str, failures: int) -> None:
        """Record that the metric's source failed for the `failures`-th time in a row. The caller logs that."""
        self._set(metric, max(failures, self._failures[metric] + 1))

    def refused(self, metric: str, refused: Mapping[str, int]) -> None:
        """Record how many samples of a metric, in one answer of its source, were refused for each reason.

        Reasons that begin or cease to occur are logged, except for samples that are not newer than the known ones,
        which is normal.
        """
        counts = {reason: times for reason, times in refused.items() if times}
        self._observer.samples_refused(metric, counts)
        now, before = set(counts) - {OLDER}, self._refusing.get(metric, set())
        for reason in sorted(now - before):
            fields = {"metric": metric, "reason": reason, "samples": counts[reason]}
            log.warning("samples of a metric are refused", extra=fields)
        for reason in sorted(before - now):
            log.info("samples of a metric are refused no longer", extra={"metric": metric, "reason": reason})
        self._refusing[metric] = now

    def forget(self, metric: str) -> None:
        self._failures.pop(metric, None)
        self._refusing.pop(metric, None)
        self._outages.pop(metric, None)

    def _set(self, metric: str, failures: int) -> None:
        if self._failures[metric] != failures:
            self._failures[metric] = failures
            self.version += 1
