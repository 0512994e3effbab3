"""Counters, gauges and histograms, one for each combination of label values.

They are plain lists and numbers without locks, since only one thread uses them; prometheus_client only formats them.
Hot code keeps the child that `labels()` returned: observing then takes a tenth of a microsecond, where
prometheus_client's own Histogram takes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from kscheduler._fast import Histogram

UNEXPECTED = "unexpected"  # exposed in place of each label value that is not allowed


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def inc(self, amount: float = 1) -> None:
        self.value += amount


class Gauge:
    """A number that goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def set(self, value: float) -> None:
        self.value = value

    def inc(self, amount: float = 1) -> None:
        self.value += amount


def cumulative(histogram: Histogram) -> Iterator[tuple[str, float]]:
    """Yield (upper bound of a bucket as text, number of values up to it); the last bound is +Inf."""
    total = 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        total += count
        yield bound_text(bound), total


def bound_text(bound: float) -> str:
    """Format the upper bound of a bucket as Go does: "1", "0.25", "1e-05", "+Inf"."""
    return "+Inf" if bound == float("inf") else repr(bound).removesuffix(".0")


ChildT = TypeVar("ChildT", Counter, Gauge, Histogram)


class Family(Generic[ChildT]):
    """One metric, with a child for each combination of label values that has been used."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...] = ()) -> None:
        self.name = name
        self.text = text
        self.label_names = labels
        self._children: dict[tuple[str, ...], ChildT] = {}  # label values -> child
        self._allowed: Mapping[str, frozenset[str]] = {}  # label -> allowed values; others become UNEXPECTED

    def labels(self, *values: str) -> ChildT:
        """Return the child for these label values, in the order of the label names; callers may keep it for speed."""
        if self._allowed:
            values = self._constrained(values)
        child = self._children.get(values)
        if child is None:
            if len(values) != len(self.label_names):
                raise ValueError(f"{self.name} has the labels {self.label_names}, got {values}")
            child = self._children[values] = self._make()
        return child

    def allow(self, values: Mapping[str, frozenset[str]]) -> None:
        """Restrict label values: label -> allowed values, others become "unexpected".

        Labels not in `values` are unrestricted.
        """
        self._allowed = values
        self._children = {self._constrained(key): child for key, child in self._children.items()}

    def _constrained(self, values: tuple[str, ...]) -> tuple[str, ...]:
        if len(values) != len(self.label_names):
            return values  # `labels` raises ValueError for these
        allowed = self._allowed
        named = zip(self.label_names, values, strict=True)
        return tuple(value if value in allowed.get(name, (value,)) else UNEXPECTED for name, value in named)

    def remove(self, *values: str) -> None:
        """Remove the child of these label values, so that it is no longer exposed; ignored if there is none."""
        self._children.pop(self._constrained(values) if self._allowed else values, None)

    def clear(self) -> None:
        self._children.clear()

    def items(self) -> Iterable[tuple[tuple[str, ...], ChildT]]:
        return self._children.items()

    def export(self) -> Metric:
        """Return all children as a prometheus_client metric."""
        raise NotImplementedError

    def _make(self) -> ChildT:
        raise NotImplementedError


class CounterFamily(Family[Counter]):
    def export(self) -> Metric:
        metric = CounterMetricFamily(self.name, self.text, labels=self.label_names)
        for values, child in self.items():
            metric.add_metric(values, child.value)
        return metric

    def _make(self) -> Counter:
        return Counter()


class GaugeFamily(Family[Gauge]):
    def export(self) -> Metric:
        metric = GaugeMetricFamily(self.name, self.text, labels=self.label_names)
        for values, child in self.items():
            metric.add_metric(values, child.value)
        return metric

    def _make(self) -> Gauge:
        return Gauge()


class HistogramFamily(Family[Histogram]):
    def __init__(self, name: str, text: str, bounds: tuple[float, ...], labels: tuple[str, ...] = ()) -> None:
        super().__init__(name, text, labels)
        self.bounds = bounds

    def export(self) -> Metric:
        metric = HistogramMetricFamily(self.name, self.text, labels=self.label_names)
        for values, child in self.items():
            metric.add_metric(values, list(cumulative(child)), child.sum)
        return metric

    def _make(self) -> Histogram:
        return Histogram(self.bounds)


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return `count` bucket bounds, each `factor` times the previous one, as floats equal to Go's."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)
