"""The points of a pod's binding cycle: from Reserve to PostBind one instance of the guest serves the pod."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from kscheduler.errors import PluginError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Status
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.batch.answers import PodAnswer, status_of, wait_of
from kscheduler.wasm.batch.plugin import BatchPlugin, status_reader
from kscheduler.wasm.batch.points import Point
from kscheduler.wasm.engine import GuestFault
from kscheduler.wasm.pool import Unavailable

log = logging.getLogger(__name__)

T = TypeVar("T")


_Permission = tuple[Status | None, float]


class BindingPoint(BatchPlugin):
    """Reserve, Unreserve and PostBind, which all plugins of the binding cycle have: the pod holds an instance."""

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        def work() -> Status | None:
            self.pool.hold(pod.uid)
            return self._say(Point.RESERVE, state, pod, node_name, status_reader(Point.RESERVE), None)

        return self._policy(Point.RESERVE, pod, work, None)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._finish(Point.UNRESERVE, state, pod, node_name)

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._finish(Point.POST_BIND, state, pod, node_name)

    def _say(
        self,
        point: Point,
        state: CycleState,
        pod: PodInfo,
        node_name: str,
        read: Callable[[PodAnswer, int], T],
        instead: T,
    ) -> T:
        """`instead` if the guest does not have the point."""
        if point not in self._described.points:
            return instead
        row = self._table.row_of(node_name)
        place: dict[str, Any] = {"node": node_name} if row is None else {"node": node_name, "row": row}
        return self._ask(point, state, pod, read, uid=pod.uid, **place)

    def _finish(self, point: Point, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """The last word about the pod; nobody can act on a fault any more."""
        try:
            self._say(point, state, pod, node_name, _read_nothing, None)
        except (GuestFault, Unavailable, PluginError) as error:
            log.warning(
                "plugin failed",
                extra={"plugin": self.name, "point": point.word, "pod": pod.key, "err": str(error)},
            )
        finally:
            self.pool.release(pod.uid)


class PermitPoint(BindingPoint):
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> _Permission:
        nothing: _Permission = (None, 0.0)

        def read(answer: PodAnswer, rows: int) -> _Permission:
            return status_of(answer, Point.PERMIT), wait_of(answer)

        def work() -> _Permission:
            return self._say(Point.PERMIT, state, pod, node_name, read, nothing)

        return self._policy(Point.PERMIT, pod, work, nothing)


class PreBindPoint(BindingPoint):
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        def work() -> Status | None:
            return self._say(Point.PRE_BIND, state, pod, node_name, status_reader(Point.PRE_BIND), None)

        return self._policy(Point.PRE_BIND, pod, work, None)


def _read_nothing(answer: PodAnswer, rows: int) -> None:
    return None
