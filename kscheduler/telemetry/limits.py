"""Limits on the size of an answer that is read. A valid answer has about one element for each node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kscheduler.telemetry.readings import TOO_MANY, ReadingBuilder

T = TypeVar("T")

# A Prometheus element with a dozen labels has about half a kilobyte.
BASE_BYTES = 1 << 20
BYTES_PER_NODE = 1 << 12
MOST_BYTES = 1 << 27
# More than there are nodes: an answer may name nodes that were just deleted, or control planes a query did not exclude.
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
        """Return the elements up to the limit, and count the rest as refused."""
        most = self.elements
        if len(elements) > most:
            builder.refuse(TOO_MANY, len(elements) - most)
            return elements[:most]
        return elements
