"""Passes readings on to the topics, and wakes the streams that show them. Runs on the page's loop."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from kscheduler.serving.live.node_picture import NodePicture
from kscheduler.serving.live.readings import DECISIONS, NODES, OVERVIEW, QUEUE, Reading
from kscheduler.serving.live.topics import Decisions, Nodes, Overview, Queue, Topic

log = logging.getLogger(__name__)


class Hub:
    def __init__(self, watch: Callable[[frozenset[str]], object], taken: Callable[[], object]) -> None:
        """Create a hub without viewers.

        `watch` is called with the views that are watched, when they change; `taken` when a reading was processed.
        """
        self._watch = watch
        self._taken = taken
        self._viewers: Counter[str] = Counter()
        self._wakers: set[asyncio.Event] = set()
        self._picture = NodePicture()
        self._overview, self._queue, self._decisions = Overview(), Queue(), Decisions()
        self.topics: Mapping[str, Topic] = {
            OVERVIEW: self._overview,
            QUEUE: self._queue,
            DECISIONS: self._decisions,
            NODES: Nodes(self._picture),
        }
        self._task: asyncio.Task[None] | None = None  # processes the latest reading
        self.is_closed = False

    def deliver(self, reading: Reading) -> None:
        """Process a reading; the feed sends the next one only when this one was processed."""
        self._task = asyncio.ensure_future(self._process(reading))

    async def _process(self, reading: Reading) -> None:
        try:
            if reading.nodes is not None:
                await self._picture.update(reading.nodes)
            self._overview.add(reading.numbers, reading.replica, self._picture.shares())
            if reading.queue is not None:
                self._queue.replace(reading.queue, reading.numbers)
            if reading.decisions is not None:
                self._decisions.replace(reading.decisions)
            for waker in self._wakers:
                waker.set()
        except Exception:
            log.exception("the page's figures could not be processed")
        finally:
            self._taken()

    @contextmanager
    def viewer(self, view: str) -> Iterator[asyncio.Event]:
        """Watch a view; the event is set each time when there may be something new."""
        waker = asyncio.Event()
        waker.set()
        self._wakers.add(waker)
        self._viewers[view] += 1
        self._announce()
        try:
            yield waker
        finally:
            self._wakers.discard(waker)
            self._viewers[view] -= 1
            if not self._viewers[view]:
                del self._viewers[view]
            self._announce()

    def _announce(self) -> None:
        self._watch(frozenset(self._viewers))

    def close(self) -> None:
        """Have all streams end."""
        self.is_closed = True
        for waker in self._wakers:
            waker.set()
