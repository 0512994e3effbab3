"""What one question to a source brought: for each metric, nodes and values with the time they were taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

# Why a sample is not used; the label `reason` of the metric that counts them.
NOT_A_NUMBER = "nan"  # NaN, infinite, no number at all, or below zero where that cannot be
OLDER = "older"  # than the one known, or the same once more
DUPLICATE = "duplicate"  # two different values for one node in one answer: neither is taken
UNKNOWN_NODE = "unknown_node"
TOO_MANY = "too_many"  # more elements than any honest answer has

MAX_LABELS = 200  # characters that are remembered of a list of labels


class Sample(NamedTuple):
    value: float
    stamp: float | None = None  # Unix seconds by the source's clock; None: the moment it arrives


@dataclass(slots=True)
class Reading:
    """One metric."""

    samples: dict[str, Sample] = field(default_factory=dict)  # node name -> sample
    window_s: float = 0.0  # the time a value is an average over, if the source says so
    refused: Counter[str] = field(default_factory=Counter)  # reason -> elements
    nameless: str = ""  # what an element that names no node was expected to have, and had


@dataclass(slots=True)
class Readings:
    """All metrics of a source; each is in one of the two."""

    by_metric: dict[str, Reading] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # metric -> why there is no reading of it


def why_useless(reading: Reading) -> str:
    """Of a reading that told nothing of any node. Made for whoever wrote the query."""
    if reading.samples:
        some = next(iter(reading.samples))[:MAX_LABELS]
        return f"expected the names of nodes, got {some!r} for one"
    if reading.nameless:
        return reading.nameless
    if refused := ", ".join(sorted(+reading.refused)):
        return f"expected a value for each node, got none that can be used: {refused}"
    return "expected a value for each node, got an empty answer"


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

    def refuse_nameless(self, labels: Iterable[str], expected: str) -> None:
        """An element that names no node: what labels it has. The first one is remembered for people to read."""
        self.refuse(UNKNOWN_NODE)
        if not self._reading.nameless:
            found = ", ".join(sorted(labels))[:MAX_LABELS] or "none"
            self._reading.nameless = f"expected the label {expected} to name a node, got the labels {found}"

    def reading(self, window_s: float = 0.0) -> Reading:
        self._reading.window_s = window_s
        return self._reading
