"""What one question to a source brought: for each metric, nodes and values with the time they were taken."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

# Why a sample is not used; the label `reason` of the metric that counts them.
NOT_A_NUMBER = "nan"  # NaN, infinite, no number at all, or below zero where that cannot be
OLDER = "older"  # than the one known, or the same once more
DUPLICATE = "duplicate"  # two different values for one node in one answer: neither is taken
UNKNOWN_NODE = "unknown_node"
TOO_MANY = "too_many"  # more elements than any honest answer has


class Sample(NamedTuple):
    value: float
    stamp: float | None = None  # Unix seconds by the source's clock; None: the moment it arrives


@dataclass(slots=True)
class Reading:
    """One metric."""

    samples: dict[str, Sample] = field(default_factory=dict)  # node name -> sample
    window_s: float = 0.0  # the time a value is an average over, if the source says so
    refused: Counter[str] = field(default_factory=Counter)  # reason -> elements


@dataclass(slots=True)
class Readings:
    """All metrics of a source; each is in one of the two."""

    by_metric: dict[str, Reading] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # metric -> why there is no reading of it


class ReadingBuilder:
    """Elements one by one, as a source's answer lists them."""

    def __init__(self) -> None:
        self._reading = Reading()
        self._contradicted: set[str] = set()  # nodes that were given two values

    def add(self, node: str, value: float, stamp: float | None = None) -> None:
        """A repetition of the same value is harmless; another value for the same node voids both."""
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

    def reading(self, window_s: float = 0.0) -> Reading:
        self._reading.window_s = window_s
        return self._reading
