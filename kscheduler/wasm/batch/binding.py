"""The extension points of a pod's binding: one instance of the guest serves the pod from Reserve to PostBind.

Reserve and Permit are part of the scheduling cycle and called on its thread. The others are called on separate threads,
if there are any, so that a slow guest delays its own pod only.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Status
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.batch.answers import PodAnswer, status_of, wait_of
from kscheduler.wasm.batch.asking import Asker
from kscheduler.wasm.batch.plugin import FAULTS, BatchPlugin, Cycle, status_reader, with_state
from kscheduler.wasm.batch.points import Point

log = logging.getLogger(__name__)

T = TypeVar("T")


_Permission = tuple[Status | None, float]
_numbers = itertools.count()  # numbers of bindings, for the names of holders


class BindingPoint(BatchPlugin):
    """The methods for Reserve, Unreserve and PostBind, which reserve and release the guest's instance for a pod.

    Each plugin with an extension point of the binding has them.
    """

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        def work() -> Status | None:
            cycle = self._binding(state, pod)
            _asker_of(cycle).pool.hold(cycle.holder)
            return self._call(Point.RESERVE, state, pod, node_name, status_reader(Point.RESERVE), None)

        return self._policy(Point.RESERVE, pod, work, None)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._finish(Point.UNRESERVE, state, pod, node_name)

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._finish(Point.POST_BIND, state, pod, node_name)

    def _call(
        self,
        point: Point,
        state: CycleState,
        pod: PodInfo,
        node_name: str,
        read: Callable[[PodAnswer, int], T],
        instead: T,
    ) -> T:
        """Call the guest on this thread; return `instead` if the guest does not have the extension point."""
        if point not in self._described.points:
            return instead
        return self._ask(point, state, pod, read, holder=self._binding(state, pod).holder, **self._place(node_name))

    async def _call_apart(
        self,
        point: Point,
        state: CycleState,
        pod: PodInfo,
        node_name: str,
        read: Callable[[PodAnswer, int], T],
        instead: T,
    ) -> T:
        """Call the guest on another thread, if there are any; return `instead` if it lacks the extension point."""
        cycle, threads = self._binding(state, pod), self.around.threads
        await cycle.turn.wait()
        if threads is None or point not in self._described.points:
            return self._call(point, state, pod, node_name, read, instead)
        found, kept = await _asker_of(cycle).ask_apart(
            threads,
            point,
            pod,
            with_state(read),
            cycle.state,
            holder=cycle.holder,
            turn=cycle.turn,
            **self._place(node_name),
        )
        if kept is not None:
            cycle.state = kept
        return found

    def _binding(self, state: CycleState, pod: PodInfo) -> Cycle:
        """Return the plugin's data about the pod's cycle, with the name under which the pod holds a guest's instance.

        Each attempt has a name of its own, because the previous attempt may still have to unreserve.
        """
        cycle = self._cycle(state)
        if cycle.asker is None:
            cycle.asker, cycle.holder = self._asker, f"{pod.uid}/{next(_numbers)}"
        return cycle

    def _place(self, node_name: str) -> dict[str, Any]:
        """Return the fields that identify a node in a message to the guest: its name and, if it has one, its row."""
        row = self._table.row_of(node_name)
        return {"node": node_name} if row is None else {"node": node_name, "row": row}

    def _finish(self, point: Point, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Call Unreserve or PostBind, and release the guest's instance that the pod holds.

        If there are threads for calls of guests, one of them does it, and this method does not wait.
        """
        threads = self.around.threads
        if threads is not None and (point in self._described.points or self._cycle(state).turn.is_taken):
            threads.start(self._finish_apart(point, state, pod, node_name))
            return
        with self._ending(point, state, pod):
            self._call(point, state, pod, node_name, _read_nothing, None)

    async def _finish_apart(self, point: Point, state: CycleState, pod: PodInfo, node_name: str) -> None:
        with self._ending(point, state, pod):
            await self._call_apart(point, state, pod, node_name, _read_nothing, None)

    @contextlib.contextmanager
    def _ending(self, point: Point, state: CycleState, pod: PodInfo) -> Iterator[None]:
        """Log errors of the block, since no caller can act on them any more.

        At the end, release the guest's instance that the pod holds.
        """
        try:
            yield
        except FAULTS as error:
            log.warning(
                "plugin failed",
                extra={"plugin": self.name, "point": point.word, "pod": pod.key, "err": str(error)},
            )
        finally:
            cycle = self._binding(state, pod)
            if not cycle.turn.is_taken:  # it is taken only if the program ends meanwhile
                _asker_of(cycle).pool.release(cycle.holder)


class PermitPoint(BindingPoint):
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> _Permission:
        nothing: _Permission = (None, 0.0)

        def read(answer: PodAnswer, rows: int) -> _Permission:
            return status_of(answer, Point.PERMIT), wait_of(answer)

        def work() -> _Permission:
            return self._call(Point.PERMIT, state, pod, node_name, read, nothing)

        return self._policy(Point.PERMIT, pod, work, nothing)


class PreBindPoint(BindingPoint):
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        read = status_reader(Point.PRE_BIND)
        try:
            return await self._call_apart(Point.PRE_BIND, state, pod, node_name, read, None)
        except FAULTS as error:
            if not self._is_ignored(Point.PRE_BIND, pod, error):
                raise
            return None


def _asker_of(cycle: Cycle) -> Asker:
    assert cycle.asker is not None
    return cycle.asker


def _read_nothing(answer: PodAnswer, rows: int) -> None:
    return None
