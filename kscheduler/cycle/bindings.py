"""Starts the binding of decided pods: a plain binding is written at once, a binding cycle with plugins gets a task.

Such a task ends once PreBind has run, and its binding is written as a plain one if the default Bind plugin would do so.

The number of bindings under way is limited, and decisions wait when it is reached. They continue when half of the limit
is free again, so that pods are decided in batches and not one for each answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from kscheduler.client.bind_lane import BindLane
from kscheduler.client.protocol import Binding
from kscheduler.cycle.binding_tasks import BindingTasks
from kscheduler.cycle.schedule_one import BindingCycle, ScheduleOne
from kscheduler.errors import APIError

WITHDRAW_S = 2.0  # for the answers to those sent last, and for the client to let go of the others


class Bindings:
    """All bindings under way. `on_room` is called when decisions may continue, or a pod needs another decision."""

    def __init__(self, one: ScheduleOne, tasks: BindingTasks, lane: BindLane, on_room: Callable[[], None]) -> None:
        self._one = one
        self._tasks = tasks
        self._lane = lane
        self._on_room = on_room
        self._is_full = False  # until half of the room is free again

    def __len__(self) -> int:
        return len(self._tasks) + len(self._lane)

    @property
    def room(self) -> int:
        """The number of bindings that may be started now; 0 or less for none."""
        (room, most), tasks = self._lane.room_and_backlog(), self._tasks
        if room <= 0:
            self._is_full = True
        elif room >= most - most // 2:
            self._is_full = False
        return 0 if self._is_full else min(tasks.room if tasks.running else tasks.limit, room)

    @property
    def has_room(self) -> bool:
        return self.room > 0

    def start(self, cycle: BindingCycle) -> None:
        """Start the binding of an assumed pod."""
        binding = self._one.direct_binding(cycle)
        if binding is None:
            self._tasks.start(self._run(cycle))
        else:  # as `_write`, without its call
            self._lane.submit(binding, partial(self._finish, cycle))

    def _run(self, cycle: BindingCycle) -> Coroutine[Any, Any, None]:
        """Return the work of a binding cycle with plugins."""
        return self._one.bind(cycle, self._write)

    def _write(self, cycle: BindingCycle, binding: Binding) -> None:
        self._lane.submit(binding, partial(self._finish, cycle))

    def _finish(self, cycle: BindingCycle, error: APIError | None) -> None:
        # A pod that is not bound goes back to the queue, and has news for others; or a plugin has.
        has_news = error is not None or bool(cycle.state.pods_to_activate)
        try:
            self._one.finish_binding(cycle, error)
        finally:
            if has_news or (self._is_full and self.room > 0):
                self._on_room()

    async def drain(self, timeout_s: float) -> int:
        """Wait for all bindings for at most `timeout_s` seconds, and return how many are still under way.

        In the last WITHDRAW_S of them, none is sent any more that has waited for the client's rate limit until then.
        """
        now = asyncio.get_running_loop().time
        end = now() + timeout_s
        left = await self._tasks.drain(timeout_s)  # first, since a binding follows each of them
        await self._lane.drain(max(0.0, end - WITHDRAW_S - now()))
        return left + await self._lane.withdraw_unsent(max(0.0, end - now()))

    async def cancel(self) -> None:
        """Stop all bindings at once, for a scheduler that must not bind any more."""
        await asyncio.gather(self._tasks.cancel(), self._lane.cancel())
