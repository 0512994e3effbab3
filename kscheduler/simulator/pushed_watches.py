"""The watches of the simulated apiserver: they call the informer with the events, so that no task waits for them.

The events come as they would to a task that awaits them: one turn of the event loop after the first change, or later by
the watch's latency if it has one, together with all changes that were made in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from kscheduler.client.protocol import WatchEvent
from kscheduler.errors import Unreachable
from kscheduler.simulator.field_selectors import Selector
from kscheduler.simulator.store import Store, Watch

T = TypeVar("T")

Receive = Callable[[list[WatchEvent[T]]], None]


class PushedWatch(Watch[T], Generic[T]):
    """An open watch that calls `receive` with each batch. `delay_s` returns the seconds from a change to its delivery.

    As it is read soon after each change, the log keeps what it has yet to take, however short it is otherwise.

    `ended` is done once the watch has ended: with an exception if it broke, or if `receive` raised one.
    """

    may_fall_behind = False

    def __init__(
        self,
        store: Store[T],
        position: int,
        selector: Selector | None,
        receive: Receive[T],
        delay_s: Callable[[], float] | None,
        loop: asyncio.AbstractEventLoop,
        *,
        is_kept: bool,
    ) -> None:
        super().__init__(store, position, selector, is_kept=is_kept)
        self._receive = receive
        self._delay_s = delay_s
        self._loop = loop
        self._call_soon = loop.call_soon
        self._first_step = self._deliver if delay_s is None else self._notice
        self._is_due = False  # a delivery is on its way
        self.ended: asyncio.Future[None] = loop.create_future()

    def wake(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._call_soon(self._first_step)

    def _notice(self) -> None:
        if self._delay_s is not None and self.has_changes:
            self._loop.call_later(self._delay_s(), self._loop.call_soon, self._deliver)
        else:
            self._deliver()

    def _deliver(self) -> None:
        if self.ended.done():
            return
        try:
            if self.broken:
                raise Unreachable("the connection to the apiserver broke while watching")
            batch = self.take()
            if batch:
                self._receive(batch)
        except Exception as error:
            self.ended.set_exception(error)
            return
        self._is_due = False
        if self.lost:
            self.ended.set_result(None)
        elif self.broken or self.position < self._store.end:
            self.wake()
