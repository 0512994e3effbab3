"""Unsupported: refuses a pod whose hard constraints no plugin here can judge yet, rather than place it wrongly.

It stands in for kube-scheduler's default plugins that this program does not have so far, and shrinks as they come.
A mere preference (ScheduleAnyway) does not make a pod unplaceable and is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kscheduler.api.objects import Pod
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ClusterEvent
from kscheduler.framework.interface import PreFilterResult
from kscheduler.framework.status import SKIP, Status, unresolvable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "Unsupported"


class Unsupported:
    name = NAME
    signs_metadata = False

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        needs = list(_unsupported(pod.pod))
        if not needs:
            return None, SKIP
        return None, unresolvable(f"this scheduler cannot judge yet what the pod requires: {', '.join(needs)}")

    def sign_pod(self, pod: PodInfo) -> bool | None:
        return None if any(_unsupported(pod.pod)) else True

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        return True

    def events_to_register(self) -> Sequence[ClusterEvent]:
        return ()  # nothing in the cluster changes what this program can judge


def _unsupported(pod: Pod) -> Iterator[str]:
    """Yield the fields that restrict the pod in a way no plugin here understands."""
    spec = pod.spec
    if spec.resource_claims:
        yield "resource claims"
    if spec.scheduling_group is not None:
        yield "scheduling with its group"
