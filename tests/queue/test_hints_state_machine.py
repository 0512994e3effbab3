"""Events with hints among any other calls: who is helped wakes, whatever happens meanwhile, and nobody else.

Hints read the pods and the changed objects; pods are asked in groups with and without an index, and by themselves.
Pieces of waking are tiny, so that pods change, go, come and are decided while earlier events are still on their way.
"""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from kscheduler.api.objects import Node, ObjectMeta, Pod
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    Action,
    ClusterEvent,
    EventResource,
    Grouping,
    Registration,
    pod_events,
)
from kscheduler.framework.narrowing import Narrowing
from kscheduler.queue.in_flight import QueuedEvent
from kscheduler.queue.pod_info import Pool, QueuedPodInfo
from kscheduler.queue.requeue import RequeueRules, Strategy
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.pod_info import PodInfo
from tests.queue.harness import NODE_LABEL, Incoming, make_pod, make_queue

LABELS = "abc"
OWN_LABEL = ClusterEvent(EventResource.UNSCHEDULABLE_POD, Action.UPDATE_POD_LABEL)


def label_of(pod: Pod) -> str:
    return (pod.metadata.labels or {})["v"]


def offered(changed: object) -> str:
    """The labels of pods that a changed object helps."""
    assert isinstance(changed, (Node, Pod))
    return (changed.metadata.labels or {}).get("v", "")


def helps(waiting: Pod, old: object, new: object) -> bool:
    return label_of(waiting) in offered(new if new is not None else old)


def is_other(waiting: Pod, old: object, new: object) -> bool:
    """Whether the object is not about the pod, and helps it."""
    changed = new if new is not None else old
    assert isinstance(changed, (Node, Pod))
    return changed.metadata.uid != waiting.metadata.uid and helps(waiting, old, new)


def by_label(pod: PodInfo) -> str:
    return label_of(pod.pod)


INDEXED = Grouping(
    by_label,
    lambda: Narrowing(lambda key: [[[key]]], lambda old, new: list(offered(new if new is not None else old))),
)
REGISTERED: dict[str, Sequence[ClusterEvent | Registration]] = {
    "Indexed": [Registration(NODE_ADD, helps, INDEXED), Registration(ASSIGNED_POD_DELETE, helps, INDEXED)],
    "Grouped": [
        Registration(NODE_ADD, helps, Grouping(by_label)),
        Registration(ASSIGNED_POD_ADD, is_other, Grouping(by_label)),
        Registration(NODE_LABEL, helps, Grouping(by_label)),
    ],
    "Alone": [Registration(NODE_ADD, helps), Registration(OWN_LABEL, helps), Registration(NODE_LABEL, helps)],
}
EVENTS = (NODE_ADD, NODE_LABEL, ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE)
PLUGINS = st.frozensets(st.sampled_from(sorted(REGISTERED)), min_size=1)


class HintsMachine(RuleBasedStateMachine):
    release: Release = RELEASE_1_36
    popped: Bundle[QueuedPodInfo] = Bundle("popped")

    @initialize()
    def start(self) -> None:
        self.queue: SchedulingQueue = make_queue(registered=REGISTERED, piece_steps=2, release=self.release)
        self.plain = RequeueRules({"": REGISTERED}, Incoming(), lambda: 0.0, self.release)
        self.now = 1000.0
        self.made = 0
        self.alive: dict[str, PodInfo] = {}  # pod uid -> its latest version
        self.owed: dict[str, int] = {}  # uid of a pod that an event is to wake -> since when it waits
        self.missed: dict[str, list[QueuedEvent]] = {}  # uid of a pod in flight -> events since it was popped

    def wants(self, qpi: QueuedPodInfo, event: QueuedEvent) -> Strategy:
        """The plain definition: each plugin is asked for each pod."""
        return self.plain.decide(qpi, event)

    def waiting(self) -> list[QueuedPodInfo]:
        return [qpi for qpi in self.queue.pending_pods() if qpi.pool is Pool.UNSCHEDULABLE]

    def is_owed(self, qpi: QueuedPodInfo) -> bool:
        return self.owed.get(qpi.uid) == qpi.waits_since

    # --- what may happen ---

    @rule(label=st.sampled_from(LABELS), priority=st.integers(0, 1))
    def add(self, label: str, priority: int) -> None:
        pod = make_pod(f"p{self.made}", priority=priority, labels=label)
        self.made += 1
        self.alive[pod.uid] = pod
        self.queue.add(pod, self.now)

    @rule(label=st.sampled_from(LABELS), plugins=PLUGINS, count=st.integers(1, 4))
    def reject_some(self, label: str, plugins: frozenset[str], count: int) -> None:
        """Pods that are rejected at once, so that many wait."""
        for _ in range(count):
            self.add(label, 2)
            qpi = self.queue.pop(self.now)
            assert qpi is not None
            self.missed[qpi.uid] = []
            self.reject(qpi, plugins)

    @rule(data=st.data(), label=st.sampled_from(LABELS))
    def update(self, data: st.DataObject, label: str) -> None:
        if not self.alive:
            return
        uid = data.draw(st.sampled_from(sorted(self.alive)))
        old = self.alive[uid]
        new = self.alive[uid] = make_pod(old.pod.metadata.name, priority=old.priority, labels=label)
        events = [QueuedEvent(event, old.pod, new.pod) for event in pod_events(old.pod, new.pod, self.release)]
        qpi = self.queue.get(uid)
        if uid in self.missed:
            self.missed[uid] += events
        was_waiting = qpi is not None and qpi.pool is Pool.UNSCHEDULABLE
        leaves = was_waiting and qpi is not None and self.is_owed(qpi)
        self.queue.update(old.pod, new, self.now)
        if was_waiting:
            assert qpi is not None
            leaves = leaves or any(self.wants(qpi, event) for event in events)
            assert leaves == (qpi.pool is not Pool.UNSCHEDULABLE)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.alive:
            uid = data.draw(st.sampled_from(sorted(self.alive)))
            del self.alive[uid]
            self.queue.delete(uid)

    @rule(target=popped)
    def pop(self) -> QueuedPodInfo:
        qpi = self.queue.pop(self.now)
        if qpi is None:
            return multiple()  # type: ignore[return-value]
        self.missed[qpi.uid] = []
        return qpi

    @rule(qpi=consumes(popped), plugins=PLUGINS)
    def reject(self, qpi: QueuedPodInfo, plugins: frozenset[str]) -> None:
        missed = self.missed.pop(qpi.uid)
        pool = self.queue.add_unschedulable_if_not_present(qpi, self.now, plugins)
        if qpi.uid not in self.alive:
            assert pool is Pool.GONE
            return
        assert qpi.pod_info is self.alive[qpi.uid]
        helped = any(self.wants(qpi, event) for event in missed)
        assert pool is (Pool.BACKOFF if helped else Pool.UNSCHEDULABLE)

    @rule(event=st.sampled_from(EVENTS), labels=st.sampled_from(["", "a", "b", "ab", "bc", "abc"]))
    def happen(self, event: ClusterEvent, labels: str) -> None:
        kind = Node if event.resource is EventResource.NODE else Pod
        changed = kind(metadata=ObjectMeta(name="changed", uid="changed", labels={"v": labels}))
        is_gone = event is ASSIGNED_POD_DELETE
        queued_event = QueuedEvent(event, changed if is_gone else None, None if is_gone else changed)
        waiting = self.waiting()
        self.owed |= {qpi.uid: qpi.waits_since for qpi in waiting if self.wants(qpi, queued_event)}
        self.queue.move_all_to_active_or_backoff(*queued_event, self.now)
        self.check_left(waiting)
        for events in self.missed.values():
            events.append(queued_event)

    @rule(step=st.sampled_from([0.0, 0.0, 0.1, 3.0]))
    def flush(self, step: float) -> None:
        self.now += step
        waiting = self.waiting()
        self.queue.flush(self.now)
        self.check_left(waiting)

    def check_left(self, waiting: list[QueuedPodInfo]) -> None:
        for qpi in waiting:
            assert qpi.pool is Pool.UNSCHEDULABLE or self.is_owed(qpi), f"{qpi.key} woke for nothing"

    @rule()
    def finish_what_is_on_its_way(self) -> None:
        while self.queue.is_waking:
            self.flush(0.0)
        lost = [qpi.key for qpi in self.waiting() if self.is_owed(qpi)]
        assert not lost, "a wake-up was lost"
        self.owed.clear()

    @invariant()
    def everybody_is_somewhere(self) -> None:
        if hasattr(self, "queue"):
            self.queue.check()
            assert {qpi.uid for qpi in self.queue.pending_pods()} == set(self.alive) - set(self.missed)

    def teardown(self) -> None:
        if hasattr(self, "queue"):
            self.finish_what_is_on_its_way()


class HintsMachine137(HintsMachine):
    release = RELEASE_1_37


for machine in (HintsMachine, HintsMachine137):
    machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestHintsMachine = pytest.mark.slow(HintsMachine.TestCase)
TestHintsMachine137 = pytest.mark.slow(HintsMachine137.TestCase)
