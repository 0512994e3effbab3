"""Unsupported: rejects a pod with required constraints that no plugin here can judge yet, rather than place it wrongly.

It stands in for the default plugins of kube-scheduler that this program does not have yet. A preference that no plugin
understands is ignored.
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
    """Yield the fields of the pod that state requirements which no plugin here can judge."""
    spec = pod.spec
    if spec.scheduling_group is not None:
        yield "scheduling with its group"
