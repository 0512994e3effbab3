"""Binding cycles and preemptions that run in the background, each in an asyncio task of its own.

Draining waits for all of them. The number of binding cycles is limited. While a pod is in PreBind, where its plugins
provision volumes and the like, a preemption may still stop its binding cycle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from kscheduler.client.slots import OVERDUE_S
from kscheduler.framework.faults import running
from kscheduler.framework.interface import Plugin
from kscheduler.framework.status import Status, error_status

# When stopping, pods that only wait for others (a provisioner, the rest of a gang) are given so long. That would do for
# a few writes of PreBind; all other pods have no scheduler meanwhile, and the next leader decides these again.
WAITING_DRAIN_S = 1.0
LOOK_S = 0.05  # between two looks whether those left only wait


class BackgroundTasks:
    """Tasks that can be waited for together.

    `on_change` is called when one ends; `what` names a task in bug reports.
    """

    def __init__(self, what: str, on_change: Callable[[], None]) -> None:
        self._what = what
        self._on_change = on_change
        self.running: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self.running)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        self._on_change()
        if not task.cancelled() and (error := task.exception()) is not None:
            context = {"message": f"{self._what} raised", "exception": error, "task": task}
            asyncio.get_running_loop().call_exception_handler(context)

    async def drain(self, timeout_s: float) -> int:
        """Wait for all tasks for at most `timeout_s` seconds, and return how many are still running."""
        if self.running:
            await asyncio.wait(set(self.running), timeout=timeout_s)
        return len(self.running)

    async def cancel(self) -> None:
        """Cancel all tasks at once, for a scheduler that must not bind any more."""
        tasks = set(self.running)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class BindingTasks(BackgroundTasks):
    """The binding cycles that run as tasks, up to a limit: whenever one ends, another may start.

    `waiting` returns how many of them wait for something else, for minutes perhaps. Those do not count toward the
    limit: a provisioner that is slow, a gang that is not complete, or a Bind plugin that hangs must not keep other pods
    from being decided. `unwritten` returns how many of them wait before their binding is written.
    """

    def __init__(
        self,
        limit: int,
        on_change: Callable[[], None],
        waiting: Callable[[], int] = lambda: 0,
        unwritten: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__("a binding cycle", on_change)
        self.limit = limit
        self._waiting = waiting
        self._unwritten = unwritten

    @property
    def room(self) -> int:
        """The number of binding cycles that may be started; negative when many that waited have gone on at once."""
        return self.limit - len(self.running) + self._waiting()

    async def drain(self, timeout_s: float) -> int:
        """Wait as `BackgroundTasks.drain` does, but only for WAITING_DRAIN_S if none but `unwritten` ones are left."""
        now = asyncio.get_running_loop().time
        end = now() + timeout_s
        await super().drain(min(timeout_s, WAITING_DRAIN_S))
        while len(self.running) > self._unwritten() and (left_s := end - now()) > 0:
            await asyncio.wait(self.running, timeout=min(left_s, LOOK_S), return_when=asyncio.FIRST_COMPLETED)
        return len(self.running)


@dataclass(slots=True)
class _Step:
    """One pod's PreBind while it runs."""

    task: asyncio.Task[Any]
    plugin: Plugin | None = None  # whose turn it is
    broken_off: str = ""  # why it was stopped; "" if it was not


class PreBindSteps:
    """The pods whose binding cycle is in PreBind, the last point at which a preemption can stop it.

    `on_change` is called whenever a PreBind begins.
    """

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._on_change = on_change
        self._steps: dict[str, _Step] = {}  # pod uid -> its PreBind

    def __len__(self) -> int:
        return len(self._steps)

    async def run(self, uid: str, pre_bind: Awaitable[Status | None]) -> Status | None:
        """Await `pre_bind` and return its status, or an ERROR with the reason if it was stopped, even after its end.

        If a plugin was stopped whose turn it was, the ERROR names it.
        """
        task = asyncio.current_task()
        assert task is not None
        step = self._steps[uid] = _Step(task)
        self._on_change()
        try:
            status = await pre_bind
        except asyncio.CancelledError:
            if not step.broken_off:
                raise
            task.uncancel()  # or else what waits next with a limit takes it for its own cancellation
            if step.plugin is not None:
                return running("PreBind", step.plugin, error_status(step.broken_off))
            status = None
        finally:
            del self._steps[uid]
        return error_status(step.broken_off) if step.broken_off else status

    def note_turn(self, uid: str, plugin: Plugin) -> None:
        """Note that it is a plugin's turn in the PreBind that runs for a pod."""
        self._steps[uid].plugin = plugin

    def break_off(self, uid: str, why: str) -> bool:
        """Cancel the pod's PreBind and return True; False if the pod is not in PreBind. May be called repeatedly."""
        step = self._steps.get(uid)
        if step is None:
            return False
        if not step.broken_off:
            step.broken_off = why
            step.task.cancel()
        return True


class QuickSteps:
    """Steps of binding cycles that should be quick, above all Bind. `len` is the number of steps that are overdue.

    A step is overdue after OVERDUE_S seconds; then its binding cycle no longer counts toward the limit of
    `BindingTasks`. That applies to at most `limit` steps, so if all are slow, twice the limit are under way.
    `on_overdue` is called when a step becomes overdue.
    """

    def __init__(self, limit: int, on_overdue: Callable[[], None] = lambda: None) -> None:
        self._limit = limit
        self._on_overdue = on_overdue
        self._overdue = 0

    def __len__(self) -> int:
        return min(self._overdue, self._limit)

    def step(self) -> _QuickStep:
        """Return a context manager around one step, i.e. a part of a binding cycle that should be quick."""
        return _QuickStep(self)

    def change_overdue(self, by: int) -> None:
        """Count steps that have become overdue, or that were and have ended."""
        self._overdue += by
        if by > 0:
            self._on_overdue()


class _QuickStep:
    """One step of a binding cycle that should be quick, as a context manager."""

    __slots__ = ("_is_overdue", "_steps", "_timer")

    def __init__(self, steps: QuickSteps) -> None:
        self._steps = steps
        self._is_overdue = False
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(OVERDUE_S, self._note)

    def __exit__(self, *_: object) -> None:
        assert self._timer is not None  # it has been entered
        self._timer.cancel()
        if self._is_overdue:
            self._steps.change_overdue(-1)

    def _note(self) -> None:
        self._is_overdue = True
        self._steps.change_overdue(1)
