"""The parts of a replayed scheduler: they write nowhere, and what they would wait for is in the record."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from kscheduler.api.devices import ResourceClaim
from kscheduler.cycle.binding_tasks import PreBindSteps
from kscheduler.cycle.bindings import Bindings
from kscheduler.cycle.schedule_batch import MOST_PODS, ScheduleBatch
from kscheduler.cycle.schedule_one import BindingCycle
from kscheduler.record.entries import Start
from kscheduler.replay.edge import EdgeClaims, EdgeEvictions
from kscheduler.replay.replayed_edge import Task


class RecordedClock:
    """The time of the input that is replayed. Implements `Clock`."""

    def __init__(self, start: Start) -> None:
        self._start_us = start.clock
        self._at = start.clock / 1e6
        self.wall_us = start.wall

    def set(self, at: float) -> None:
        self._at = (self._start_us + round(at * 1e6)) / 1e6

    def now(self) -> float:
        return self._at

    def wall(self) -> float:
        return self._at + self.wall_us / 1e6


class NoClient:
    """In place of a client: nothing is sent in a replay."""


class NoEvictions(EdgeEvictions):
    """Evictions that write nothing; tasks are started by the replay."""

    def begin(self, work: Task) -> None:
        _ = self._edge.task("preempt", "", work)

    async def together(self, *work: Coroutine[Any, Any, object]) -> None:
        for each in work:
            _ = self._edge.task("evict", "", _plain(each))
        await self._edge.wait("together", "", _nothing, type(None))


async def _plain(work: Coroutine[Any, Any, object]) -> None:
    await work


async def _nothing() -> None:
    pass


class NoClaims(EdgeClaims):
    """Claims that are written nowhere; tasks are started by the replay."""

    def begin(self, claim: ResourceClaim, work: Coroutine[Any, Any, None]) -> None:
        _ = self._edge.task("writeClaim", claim.key, work)


class ReplayedPreBinds(PreBindSteps):
    """PreBind steps, which end when the record says so."""

    def break_off(self, uid: str, why: str) -> bool:
        step = self._steps.get(uid)
        if step is None:
            return False
        step.broken_off = step.broken_off or why
        return True


class ReplayedBindings(Bindings):
    """Bindings that are written nowhere: their cycles wait for an outcome in the record."""

    cycles: dict[str, BindingCycle]  # pod uid -> cycle of a pod whose mere binding would be under way

    @property
    def room(self) -> int:
        """0: a slice of decisions decides nothing, because the record determines the batches."""
        return 0

    def start(self, cycle: BindingCycle) -> None:
        if self._one.direct_binding(cycle) is None:
            _ = self._one.bind(cycle)  # which registers the task at the edge
        else:
            self.cycles[cycle.pod.uid] = cycle


class ReplayedBatch(ScheduleBatch):
    """Batches whose size the record determines."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self._size = MOST_PODS

    def _next_size(self, done: int, asked: int, seconds: float) -> int:
        return MOST_PODS
