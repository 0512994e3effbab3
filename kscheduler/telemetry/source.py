"""The interface of a metric source, and the result of one fetch: for each metric, values by node with their times.

Fetches are made in the background.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kscheduler.config.metric_policy import Metric, Source
from kscheduler.errors import KSchedulerError

# Why a sample is not used; the label `reason` of the metric that counts them.
NOT_A_NUMBER = "nan"  # NaN, infinite, no number at all, or below zero where that cannot be
OLDER = "older"  # than the known sample, or of the same time
DUPLICATE = "duplicate"  # one answer has two different values for a node: neither is used
UNKNOWN_NODE = "unknown_node"
TOO_MANY = "too_many"  # beyond the limit on elements of one answer

MAX_LABELS = 200  # characters kept of a list of labels


class Sample(NamedTuple):
    value: float
    stamp: float | None = None  # Unix seconds by the source's clock; None: the moment it arrives


@dataclass(slots=True)
class Reading:
    """The values of one metric in an answer."""

    samples: dict[str, Sample] = field(default_factory=dict)  # node name -> sample
    window_s: float = 0.0  # the time a value is an average over, if the source says so
    refused: Counter[str] = field(default_factory=Counter)  # reason -> elements
    nameless: str = ""  # a message about the first element without a node's name: labels expected, labels found


@dataclass(slots=True)
class Readings:
    """The values of all requested metrics in an answer; each metric is in exactly one of the two dicts."""

    by_metric: dict[str, Reading] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # metric -> why there is no reading of it


def why_useless(reading: Reading) -> str:
    """Return why an answer had no usable value of a metric for any node, for the author of the query."""
    if reading.samples:
        some = next(iter(reading.samples))[:MAX_LABELS]
        return f"expected the names of nodes, got {some!r} for one"
    if reading.nameless:
        return reading.nameless
    if refused := ", ".join(sorted(+reading.refused)):
        return f"expected a value for each node, got none that can be used: {refused}"
    return "expected a value for each node, got an empty answer"


class ReadingBuilder:
    """Makes the Reading of one metric, i.e. its value by node, from the elements of a metrics source's answer."""

    def __init__(self) -> None:
        self._reading = Reading()
        self._contradicted: set[str] = set()  # nodes with two different values in this answer

    def add(self, node: str, value: float, stamp: float | None = None) -> None:
        """Add a node's value.

        A second value for the node is counted and ignored if equal; otherwise neither is used.
        """
        samples, refused = self._reading.samples, self._reading.refused
        if node in self._contradicted:
            refused[DUPLICATE] += 1
            return
        known = samples.get(node)
        if known is None:
            samples[node] = Sample(value, stamp)
        elif known.value == value:
            refused[DUPLICATE] += 1
        else:
            refused[DUPLICATE] += 2
            self._contradicted.add(node)
            del samples[node]

    def refuse(self, reason: str, times: int = 1) -> None:
        self._reading.refused[reason] += times

    def refuse_nameless(self, labels: Iterable[str], expected: str) -> None:
        """Count an element whose labels name no node. The labels of the first one are kept for a message."""
        self.refuse(UNKNOWN_NODE)
        if not self._reading.nameless:
            found = ", ".join(sorted(labels))[:MAX_LABELS] or "none"
            self._reading.nameless = f"expected the label {expected} to name a node, got the labels {found}"

    def reading(self, window_s: float = 0.0) -> Reading:
        self._reading.window_s = window_s
        return self._reading


class SourceError(KSchedulerError):
    """A metric source gave no answer, or none that can be used."""


class MetricSource(Protocol):
    async def fetch(self, metrics: Sequence[Metric]) -> Readings:
        """Fetch the metrics; the caller cancels it at the timeout.

        Raises SourceError if no metric can be read at all.
        """
        ...

    async def close(self) -> None:
        """Close all connections. Sources that have none of their own inherit this."""
        return


MakeSource = Callable[[Source], MetricSource]
