"""SchedulingGates: a pod with gates is held back until its owner has removed them all."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.framework.events import Action, ClusterEvent, EventResource
from kscheduler.framework.status import Status, unresolvable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "SchedulingGates"


class SchedulingGates:
    name = NAME

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)  # as Go prints a list
        return unresolvable(f"waiting for scheduling gates: [{names}]").of(NAME)

    def events_to_register(self) -> Sequence[ClusterEvent]:
        return (ClusterEvent(EventResource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),)
