"""Splits long work into small pieces, and lets the event loop run between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

SLICE = 250  # elements of an answer: about a millisecond


async def sliced(items: Iterable[T], size: int = SLICE) -> AsyncIterator[list[T]]:
    """Yield the items in order, `size` at a time; other tasks may run in between."""
    iterator = iter(items)
    some = list(islice(iterator, size))
    while some:
        yield some
        some = list(islice(iterator, size))
        if some:
            await asyncio.sleep(0)
