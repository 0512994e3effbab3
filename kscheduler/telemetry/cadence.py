"""The observed update interval of a metric, and the maximum age of its samples that follows from it.

Two intervals are observed, and the longer one counts:

- *Samples*: the time between two samples of a node that have different timestamps. This is how often the source
  measures, if it reports timestamps. Prometheus stamps each answer with the time of the query, so there it is the
  polling interval.
- *Values*: the time between two changes of a node's value. This is how fast the metric changes, whatever its timestamps
  are: with Prometheus the scrape interval, or longer for a value that changes rarely.

Only nodes with a new sample or value contribute an interval: a node whose exporter is dead, or that is always idle,
does not make the metric look slow. A metric that never changed does not count as slow either: its source may be stuck.
Callers pass the current time as an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from kscheduler.config.metric_policy import Freshness
from kscheduler.telemetry.clamping import median

REMEMBERED = 5  # the last answers; one long gap among them does not move their median


class Cadence:
    """Estimates how often a metric is updated.

    `interval_s` is the polling interval of its source, below which no update interval can be observed.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._samples: deque[float] = deque(maxlen=REMEMBERED)
        self._values: deque[float] = deque(maxlen=REMEMBERED)

    def saw(self, samples: Sequence[float], values: Sequence[float]) -> None:
        """Record one answer: the seconds between the last two samples, and the last two values, of some nodes."""
        for seen, intervals in ((samples, self._samples), (values, self._values)):
            if seen:
                intervals.append(median(sorted(seen)))

    @property
    def seconds(self) -> float:
        return max(_typical(self._samples), _typical(self._values), self._interval_s)

    def max_age_s(self, freshness: Freshness) -> float:
        """Return the maximum age of a usable sample in seconds: as configured, or adapted to the update interval."""
        if freshness.max_age.nanoseconds > 0:
            return freshness.max_age.seconds
        adapted = freshness.cadences * self.seconds
        return min(max(adapted, freshness.at_least.seconds), freshness.at_most.seconds)


def _typical(intervals: deque[float]) -> float:
    return median(sorted(intervals)) if intervals else 0.0
