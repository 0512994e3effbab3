"""Plugins out of the tree that scenarios use."""

from __future__ import annotations

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code, Status, unschedulable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


class Guard:
    """Permit: lets a pod wait until somebody decides about it."""

    name = "Guard"

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        return Status(Code.WAIT), 10.0


class Moody:
    """Filter: turns everybody away while it is in a mood, and says what may help: nothing."""

    name = "Moody"

    def __init__(self) -> None:
        self.in_a_mood = True

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("not in the mood") if self.in_a_mood else None

    def events_to_register(self) -> tuple[()]:
        return ()
