"""Any sequence of calls: no pod is lost, none is in two pools, no wake-up is missed, order and backoff hold.

Pieces of waking are tiny, so that most events are still on their way when the next thing happens, and the clock jumps.
"""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    ClusterEvent,
    Registration,
    complete_registrations,
    matches,
)
from kscheduler.queue.backoff_queue import window
from kscheduler.queue.pod_info import PLAIN, Lane, Pool, QueuedPodInfo
from kscheduler.snapshot.pod_info import PodInfo
from tests.queue.harness import (
    NODE_ALLOCATABLE,
    NODE_LABEL,
    NODE_TAINT,
    REGISTERED,
    by_priority,
    lane_by_label,
    make_pod,
    make_queue,
)

EVENTS = [NODE_ADD, NODE_DELETE, NODE_ALLOCATABLE, NODE_LABEL, NODE_TAINT, ASSIGNED_POD_DELETE]
PLUGINS = st.frozensets(st.sampled_from(["NodeResourcesFit", "NodeAffinity", "TaintToleration"]), min_size=1)
PRIORITIES = st.integers(-1, 2)
LABELS = st.sampled_from(["", "", "1", "2"])  # of lanes
LANES: st.SearchStrategy[Lane] = st.sampled_from([PLAIN, (1,), (2,)])


def wants(plugins: frozenset[str] | set[str], event: ClusterEvent, release: Release) -> bool:
    """The plain definition that the queue's index must agree with."""
    registrations: list[Registration] = [
        registration for plugin in plugins for registration in complete_registrations(REGISTERED[plugin], release)
    ]
    return any(matches(registration.event, event) for registration in registrations)


class QueueMachine(RuleBasedStateMachine):
    release = RELEASE_1_36
    popped: Bundle[QueuedPodInfo] = Bundle("popped")

    @initialize()
    def start(self) -> None:
        self.queue = make_queue(piece_steps=3, lane_of=lane_by_label, release=self.release)
        self.now = 1000.0
        self.latest = self.now  # the queue's time, which the flush below shows it: clocks may jump back, it does not
        self.queue.flush(self.now)
        self.owed: dict[str, int] = {}  # uid of a pod that an event is to wake -> since when it waits
        self.made = 0
        self.alive: dict[str, PodInfo] = {}  # pod uid -> its latest version; neither bound nor deleted
        self.missed: dict[str, list[ClusterEvent]] = {}  # uid of a pod in flight -> events since it was popped

    # --- what may happen ---

    @rule(priority=PRIORITIES, is_gated=st.booleans(), lane=LABELS)
    def add(self, priority: int, is_gated: bool, lane: str) -> None:
        pod = make_pod(f"p{self.made}", priority=priority, gates=["wait"] if is_gated else (), labels=lane)
        self.made += 1
        self.alive[pod.uid] = pod
        self.queue.add(pod, self.now)

    @rule(data=st.data(), priority=PRIORITIES, lane=LABELS)
    def update(self, data: st.DataObject, priority: int, lane: str) -> None:
        if self.alive:
            uid = data.draw(st.sampled_from(sorted(self.alive)))
            old = self.alive[uid]
            new = self.alive[uid] = make_pod(old.pod.metadata.name, priority=priority, labels=lane)  # removes gates
            self.queue.update(old.pod, new, self.now)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.alive:
            uid = data.draw(st.sampled_from(sorted(self.alive)))
            del self.alive[uid]
            self.queue.delete(uid)

    @rule(target=popped, lane=LANES)
    def pop(self, lane: Lane) -> QueuedPodInfo:
        held = [qpi for qpi in self.queue.pending_pods() if lane_by_label(qpi.pod_info) == lane]
        active = [by_priority(qpi) for qpi in held if qpi.pool is Pool.ACTIVE]
        backoff = [(qpi.backoff_expiration, by_priority(qpi)) for qpi in held if qpi.pool is Pool.BACKOFF]
        if lane != PLAIN and self.queue.counts().active:
            backoff = []
        assert (lane in self.queue.lanes()) == (lane != PLAIN and bool(active or backoff))
        qpi = self.queue.pop(self.now, lane)
        if qpi is None:
            assert not active, "an active pod was not popped"
            assert not backoff, "a pod in backoff was not popped although nothing was active"
            return multiple()  # type: ignore[return-value]
        assert lane_by_label(qpi.pod_info) == lane
        if active:
            assert by_priority(qpi) == min(active)
        else:
            assert by_priority(qpi) == min(backoff)[1]
        self.missed[qpi.uid] = []
        return qpi

    @rule(target=popped, most=st.integers(1, 5), tried=st.integers(0, 5))
    def pop_several(self, most: int, tried: int) -> QueuedPodInfo:
        """Some are tried, the others put back: that must change nothing for them, nor their order."""
        active = [qpi for qpi in self.queue.pending_pods() if qpi.pool is Pool.ACTIVE and qpi.lane == PLAIN]
        several = self.queue.pop_many(self.now, most)
        if active:
            assert len(several) == min(most, len(active))
            assert [by_priority(qpi) for qpi in several] == sorted(map(by_priority, active))[: len(several)]
        attempts = [qpi.attempts for qpi in several[tried:]]
        self.queue.put_back(several[tried:])
        if tried < len(several):
            again = self.queue.pop_many(self.now, len(several) - tried)
            assert again == several[tried:]
            assert [qpi.attempts for qpi in again] == attempts
            self.queue.put_back(again)
        for qpi in several[:tried]:
            self.missed[qpi.uid] = []
        return multiple(*several[:tried])  # type: ignore[return-value]

    @rule(qpi=consumes(popped), plugins=PLUGINS)
    def reject(self, qpi: QueuedPodInfo, plugins: frozenset[str]) -> None:
        missed = self.missed.pop(qpi.uid)
        pool = self.queue.add_unschedulable_if_not_present(qpi, self.now, plugins)
        if qpi.uid not in self.alive:
            assert pool is Pool.GONE
        elif any(wants(plugins, event, self.release) for event in missed):
            assert pool is Pool.BACKOFF
        elif pool is not Pool.BACKOFF:  # which an update of the pod itself may lead to
            assert pool is Pool.UNSCHEDULABLE
        assert qpi.uid not in self.alive or qpi.pod_info is self.alive[qpi.uid]

    @rule(qpi=consumes(popped))
    def meet_a_fault(self, qpi: QueuedPodInfo) -> None:
        del self.missed[qpi.uid]
        pool = self.queue.requeue_after_error(qpi, self.now)
        assert pool is (Pool.ERROR_BACKOFF if qpi.uid in self.alive else Pool.GONE)

    @rule(qpi=consumes(popped))
    def bind(self, qpi: QueuedPodInfo) -> None:
        del self.missed[qpi.uid]
        self.alive.pop(qpi.uid, None)
        self.queue.done(qpi.uid)

    def wakes(self, qpi: QueuedPodInfo, event: ClusterEvent) -> bool:
        return wants(qpi.unschedulable_plugins, event, self.release)

    @rule(event=st.sampled_from(EVENTS))
    def happen(self, event: ClusterEvent) -> None:
        waiting = [qpi for qpi in self.queue.pending_pods() if qpi.pool is Pool.UNSCHEDULABLE]
        wanted = {qpi.uid: qpi.waits_since for qpi in waiting if self.wakes(qpi, event)}
        woken = self.queue.move_all_to_active_or_backoff(event, None, None, self.now)
        left = {qpi.uid for qpi in waiting if qpi.pool is not Pool.UNSCHEDULABLE}
        assert len(left) == woken
        assert left <= wanted.keys()
        self.owed |= wanted
        for events in self.missed.values():
            events.append(event)

    @rule(data=st.data())
    def activate(self, data: st.DataObject) -> None:
        uids = [qpi.uid for qpi in self.queue.pending_pods() if qpi.gated_by is None]
        if uids:
            uid = data.draw(st.sampled_from(sorted(uids)))
            self.queue.activate([uid], self.now)
            qpi = self.queue.get(uid)
            assert qpi is not None
            assert qpi.pool is Pool.ACTIVE

    @rule(data=st.data())
    def end_error_backoffs(self, data: st.DataObject) -> None:
        pools = {uid: qpi.pool for uid in self.alive if (qpi := self.queue.get(uid)) is not None}
        uids = data.draw(st.lists(st.sampled_from(sorted(self.alive)), unique=True)) if self.alive else []
        ended = [uid for uid in uids if pools.get(uid) is Pool.ERROR_BACKOFF]
        assert self.queue.end_error_backoffs([*uids, "unknown"], self.now) == len(ended)
        for uid, pool in pools.items():
            qpi = self.queue.get(uid)
            assert qpi is not None
            assert qpi.pool is (Pool.ACTIVE if uid in ended else pool)

    @rule(step=st.floats(0.0, 40.0))
    def let_time_pass(self, step: float) -> None:
        self.now += step
        self.latest = max(self.latest, self.now)
        self.flush()

    @rule(step=st.floats(0.0, 500.0))
    def jump_back(self, step: float) -> None:
        self.now -= step

    def flush(self) -> None:
        """One piece; only pods that are owed or overdue wake."""
        waiting = [qpi for qpi in self.queue.pending_pods() if qpi.pool is Pool.UNSCHEDULABLE]
        self.queue.flush(self.now)
        for qpi in waiting:
            if qpi.pool is not Pool.UNSCHEDULABLE:
                assert qpi.uid in self.owed or qpi.timestamp + 300.0 < self.latest, "a pod woke for nothing"
        for qpi in self.queue.pending_pods():
            if qpi.pool in (Pool.BACKOFF, Pool.ERROR_BACKOFF):
                assert qpi.backoff_expiration >= window(self.latest), "a backoff outlived its second"

    @rule()
    def finish_what_is_on_its_way(self) -> None:
        for _ in range(10_000):
            self.flush()
            if self.queue.next_deadline(self.now) != self.now:
                break
        else:
            raise AssertionError("waking never ends")
        for uid, since in self.owed.items():
            qpi = self.queue.get(uid)
            assert qpi is None or qpi.pool is not Pool.UNSCHEDULABLE or qpi.waits_since > since, "a wake-up was lost"
        self.owed.clear()
        deadline = self.queue.next_deadline(self.now)
        assert deadline is None or deadline > self.now, "something was due and was not done"

    # --- what must always hold ---

    @invariant()
    def nothing_is_lost_and_nothing_is_twice(self) -> None:
        if not hasattr(self, "queue"):
            return
        self.queue.check()
        held = {qpi.uid for qpi in self.queue.pending_pods()}
        assert held == set(self.alive) - set(self.missed)
        assert {qpi.uid for qpi in self.queue._in_flight} == set(self.missed)

    def teardown(self) -> None:
        """Pods in activeQ are tried, and unschedulable pods too once their time is up."""
        if not hasattr(self, "queue"):
            return
        expected = {qpi.uid for qpi in self.queue.pending_pods() if qpi.gated_by is None}
        tried: set[str] = set()
        while True:
            for lane in (PLAIN, *self.queue.lanes()):
                while (qpi := self.queue.pop(self.now, lane)) is not None:
                    assert qpi.uid not in tried
                    tried.add(qpi.uid)
                    self.queue.done(qpi.uid)
            deadline = self.queue.next_deadline(self.now)
            if deadline is None:
                break
            gated = self.queue.counts().gated
            if gated == len(self.queue) and self.release.wakes_gated_by_wildcard:  # their gates are asked for ever
                break
            # A piece of waking may end before it has woken anybody; who is gated may stay so.
            moved = self.queue.flush(deadline)
            assert moved > 0 or deadline == self.now or gated, "a deadline at which nothing was due"
            self.now = deadline
        assert tried == expected


class QueueMachine137(QueueMachine):
    release = RELEASE_1_37


for machine in (QueueMachine, QueueMachine137):
    machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestQueueMachine = pytest.mark.slow(QueueMachine.TestCase)
TestQueueMachine137 = pytest.mark.slow(QueueMachine137.TestCase)
