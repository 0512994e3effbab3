"""How often a metric has something new to say, as seen; and how old a sample may therefore be. Time is an argument.

Two things are seen, and the slower counts:

- *Samples*: how far apart samples of a node come that have another time than the one before. This is how often the
  source measures, if it says so. Prometheus gives each answer the time of the query: there it is how often it is asked.
- *Values*: how far apart the changes of a node's value are. This is how fast the metric changes, whatever the times
  say: with Prometheus the interval of its scrapes, or longer for what changes rarely.

Only nodes of which something new came say how long that took: one whose exporter is dead, or that is always idle,
makes no metric slow. A metric that never changed is not taken for one that changes slowly: its source may stand still.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from kscheduler.config.metric_policy import Freshness
from kscheduler.telemetry.clamping import median

REMEMBERED = 5  # answers; one long silence among them does not move their median


class Cadence:
    """`interval_s`: how often the source is asked. Nothing new can be seen more often."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._samples: deque[float] = deque(maxlen=REMEMBERED)
        self._values: deque[float] = deque(maxlen=REMEMBERED)

    def saw(self, samples: Sequence[float], values: Sequence[float]) -> None:
        """An answer came. For some nodes: seconds from the sample before to a new one, and from value to value."""
        for seen, intervals in ((samples, self._samples), (values, self._values)):
            if seen:
                intervals.append(median(sorted(seen)))

    @property
    def seconds(self) -> float:
        return max(_typical(self._samples), _typical(self._values), self._interval_s)

    def max_age_s(self, freshness: Freshness) -> float:
        """How old a sample may be."""
        if freshness.max_age.nanoseconds > 0:
            return freshness.max_age.seconds
        adapted = freshness.cadences * self.seconds
        return min(max(adapted, freshness.at_least.seconds), freshness.at_most.seconds)


def _typical(intervals: deque[float]) -> float:
    return median(sorted(intervals)) if intervals else 0.0
