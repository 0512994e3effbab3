"""Limits on an answer of a source: its size, and how many elements are handled before the event loop may run again.

A valid answer has about one element per node.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import islice
from typing import TypeVar

from kscheduler.telemetry.source import TOO_MANY, ReadingBuilder

T = TypeVar("T")

# A Prometheus element with a dozen labels has about half a kilobyte.
BASE_BYTES = 1 << 20
BYTES_PER_NODE = 1 << 12
MOST_BYTES = 1 << 27
# More than there are nodes: an answer may name nodes that were just deleted, or control planes a query did not exclude.
BASE_ELEMENTS = 1_000
ELEMENTS_PER_NODE = 2
SLICE = 250  # elements of an answer: about a millisecond


class AnswerLimits:
    def __init__(self, node_count: Callable[[], int]) -> None:
        self._node_count = node_count

    @property
    def bytes(self) -> int:
        return min(BASE_BYTES + BYTES_PER_NODE * self._node_count(), MOST_BYTES)

    @property
    def elements(self) -> int:
        return BASE_ELEMENTS + ELEMENTS_PER_NODE * self._node_count()

    async def build(self, elements: list[T], add: Callable[[T, ReadingBuilder], None]) -> ReadingBuilder:
        """Return a builder to which `add` added the elements up to the limit; further ones are counted as refused."""
        builder, most = ReadingBuilder(), self.elements
        if len(elements) > most:
            builder.refuse(TOO_MANY, len(elements) - most)
            elements = elements[:most]
        async for some in sliced(elements):
            for element in some:
                add(element, builder)
        return builder


async def sliced(items: Iterable[T], size: int = SLICE) -> AsyncIterator[list[T]]:
    """Yield the items in order, `size` at a time; other tasks may run in between."""
    iterator = iter(items)
    some = list(islice(iterator, size))
    while some:
        yield some
        some = list(islice(iterator, size))
        if some:
            await asyncio.sleep(0)
