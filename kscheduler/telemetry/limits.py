"""How much of an answer is looked at. An honest one has about one element for each node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kscheduler.telemetry.readings import TOO_MANY, ReadingBuilder

T = TypeVar("T")

# An element of Prometheus with a dozen labels is half a kilobyte long.
BASE_BYTES = 1 << 20
BYTES_PER_NODE = 1 << 12
MOST_BYTES = 1 << 27
# Some more than there are nodes: one that just left, control planes that a query forgot to leave out.
BASE_ELEMENTS = 1_000
ELEMENTS_PER_NODE = 2


class AnswerLimits:
    def __init__(self, node_count: Callable[[], int]) -> None:
        self._node_count = node_count

    @property
    def bytes(self) -> int:
        return min(BASE_BYTES + BYTES_PER_NODE * self._node_count(), MOST_BYTES)

    @property
    def elements(self) -> int:
        return BASE_ELEMENTS + ELEMENTS_PER_NODE * self._node_count()

    def first(self, elements: list[T], builder: ReadingBuilder) -> list[T]:
        """As many as are looked at; the rest is refused."""
        most = self.elements
        if len(elements) > most:
            builder.refuse(TOO_MANY, len(elements) - most)
            return elements[:most]
        return elements
