"""Pods, registrations and a queue with kube-scheduler's ordering, for the tests of this package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from kscheduler.api.objects import ObjectMeta, Pod, PodSchedulingGate, PodSpec
from kscheduler.config.releases import RELEASE_1_36, Release
from kscheduler.framework.events import Action, ClusterEvent, EventResource, Registration
from kscheduler.framework.status import Code, Status
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.pod_info import PLAIN, Lane, Pool, QueuedPodInfo
from kscheduler.queue.requeue import ANY_PROFILE
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.queue.waking import PIECE_STEPS
from kscheduler.snapshot.pod_info import PodInfo

NODE_ALLOCATABLE = ClusterEvent(EventResource.NODE, Action.UPDATE_NODE_ALLOCATABLE)
NODE_LABEL = ClusterEvent(EventResource.NODE, Action.UPDATE_NODE_LABEL)
NODE_TAINT = ClusterEvent(EventResource.NODE, Action.UPDATE_NODE_TAINT)
GATES_ELIMINATED = ClusterEvent(EventResource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)

# As the plugins of these names register them in kube-scheduler.
REGISTERED: dict[str, Sequence[ClusterEvent | Registration]] = {
    "NodeResourcesFit": [
        ClusterEvent(EventResource.POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN),
        ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE),
    ],
    "NodeAffinity": [ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)],
    "TaintToleration": [
        ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT),
        ClusterEvent(EventResource.POD, Action.UPDATE_POD_TOLERATION),
    ],
    "SchedulingGates": [GATES_ELIMINATED],
}

FIT = frozenset({"NodeResourcesFit"})
AFFINITY = frozenset({"NodeAffinity"})


def make_pod(name: str, *, priority: int | None = None, gates: Sequence[str] = (), labels: str = "") -> PodInfo:
    return PodInfo(
        Pod(
            metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", labels={"v": labels}),
            spec=PodSpec(priority=priority, scheduling_gates=[PodSchedulingGate(gate) for gate in gates] or None),
        )
    )


def by_priority(qpi: QueuedPodInfo) -> tuple[float, ...]:
    return (-qpi.pod_info.priority, qpi.timestamp)


def lane_by_label(pod_info: PodInfo) -> Lane:
    """A pod's `labels` are the number of its lane, if it has one."""
    label = (pod_info.pod.metadata.labels or {})["v"]
    return (int(label),) if label else PLAIN


def scheduling_gates(pod_info: PodInfo) -> Status | None:
    gates = pod_info.pod.spec.scheduling_gates
    if not gates:
        return None
    reason = f"waiting for scheduling gates: {[gate.name for gate in gates]}"
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,), "SchedulingGates")


class Incoming(Measurements):
    """Counts what the queue reports, as queue_incoming_pods_total would."""

    def __init__(self) -> None:
        super().__init__()
        self.hints: Counter[tuple[str, str, str]] = Counter()  # (plugin, event label, answer) -> times reported

    @property
    def counts(self) -> Counter[tuple[str, ...]]:
        """(queue, event label) -> pods."""
        return Counter({labels: int(counter.value) for labels, counter in self.incoming.items()})

    def hint(self, plugin: str, event: str, answer: str, seconds: float) -> None:
        self.hints[plugin, event, answer] += 1


def make_queue(
    *,
    registered: dict[str, Sequence[ClusterEvent | Registration]] = REGISTERED,
    pre_enqueue: Callable[[PodInfo], Status | None] = scheduling_gates,
    observer: Incoming | None = None,
    initial_backoff_s: float = 1.0,
    max_backoff_s: float = 10.0,
    max_in_unschedulable_s: float = 300.0,
    piece_steps: int = PIECE_STEPS,
    lane_of: Callable[[PodInfo], Lane] | None = None,
    release: Release = RELEASE_1_36,
) -> SchedulingQueue:
    return SchedulingQueue(
        by_priority,
        pre_enqueue,
        registered={ANY_PROFILE: registered},
        observer=observer,
        initial_backoff_s=initial_backoff_s,
        max_backoff_s=max_backoff_s,
        max_in_unschedulable_s=max_in_unschedulable_s,
        piece_steps=piece_steps,
        lane_of=lane_of,
        release=release,
    )


def pop(queue: SchedulingQueue, now: float) -> QueuedPodInfo:
    qpi = queue.pop(now)
    assert qpi is not None, "the queue had nothing to pop"
    return qpi


def pop_names(queue: SchedulingQueue, now: float) -> list[str]:
    """Pop everything there is, and finish it."""
    names = []
    while (qpi := queue.pop(now)) is not None:
        names.append(qpi.pod_info.pod.metadata.name)
        queue.done(qpi.uid)
    return names


def reject(
    queue: SchedulingQueue, name: str, now: float, plugins: frozenset[str] = FIT, priority: int | None = None
) -> QueuedPodInfo:
    """Add a pod, pop it and let the plugins reject it; nothing else may be active."""
    queue.add(make_pod(name, priority=priority), now)
    qpi = pop(queue, now)
    queue.add_unschedulable_if_not_present(qpi, now, plugins)
    return qpi


def pool_of(qpi: QueuedPodInfo) -> Pool:
    """Where the pod is now; a call, so that type checkers do not remember the last answer."""
    return qpi.pool
