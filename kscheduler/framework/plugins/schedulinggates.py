"""SchedulingGates: gates a pod that has scheduling gates until all of them are removed."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.api.objects import Pod
from kscheduler.framework.events import ONE_GROUP, Action, ClusterEvent, EventResource, Registration
from kscheduler.framework.status import Status, unresolvable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "SchedulingGates"


class SchedulingGates:
    name = NAME
    gates_by_spec = True

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)  # as Go prints a list
        return unresolvable(f"waiting for scheduling gates: [{names}]").of(NAME)

    def events_to_register(self) -> Sequence[Registration]:
        eliminated = ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return (Registration(eliminated, is_schedulable_after_gates_eliminated, ONE_GROUP),)


def is_schedulable_after_gates_eliminated(waiting: Pod, old: object, new: object) -> bool:
    """Return True if the gates were removed from the waiting pod itself."""
    return not isinstance(new, Pod) or new.metadata.uid == waiting.metadata.uid
