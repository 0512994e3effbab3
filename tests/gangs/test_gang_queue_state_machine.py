"""Any sequence of events and outcomes: no pod is lost or in two places, no gang is tried that lacks something.

Pods of gangs and ordinary ones come, change their gang or gates, are bound, fail to be bound, and go; objects come,
change and go. After each step the queue's own check must hold, and a plain list of pods must agree with it. At the end
everything that can be tried is.
"""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kscheduler.config.releases import RELEASE_1_37
from kscheduler.framework.events import ASSIGNED_POD_DELETE, NODE_ADD
from kscheduler.gangs.gang_queue import GangQueue, Outcome
from kscheduler.gangs.registry import Registry, Stage
from kscheduler.gangs.rules import UPSTREAM_1_37, WHOLE, GangRules
from kscheduler.gangs.stand_in import StandIn
from kscheduler.queue.pod_info import Pool, QueuedPodInfo
from kscheduler.queue.requeue import ANY_PROFILE
from kscheduler.snapshot.pod_info import PodInfo
from tests.gangs.builders import DOORS, gang, key_of, pod
from tests.queue.harness import AFFINITY, FIT, REGISTERED, by_priority, scheduling_gates

GANGS = ["red", "blue"]
MAYBE_A_GANG = st.sampled_from(["", *GANGS, *GANGS])
GATES = st.sampled_from(["", "", "", "wait"])
EVENTS = st.sampled_from([NODE_ADD, ASSIGNED_POD_DELETE])
PRIORITIES = st.integers(0, 2)


class GangQueueMachine(RuleBasedStateMachine):
    @initialize(rules=st.sampled_from([WHOLE, UPSTREAM_1_37]))
    def start(self, rules: GangRules) -> None:
        self.registry = Registry(DOORS, rules)
        self.queue = GangQueue(
            by_priority,
            scheduling_gates,
            gangs=self.registry,
            registered={ANY_PROFILE: REGISTERED},
            piece_steps=3,
            release=RELEASE_1_37,
        )
        self.now = 1000.0
        self.queue.flush(self.now)
        self.made = 0
        self.waiting: dict[str, PodInfo] = {}  # pod uid -> pod that exists and has no node
        self.binding: dict[str, QueuedPodInfo] = {}  # of these, the assumed ones
        self.bound: set[str] = set()

    # --- pods and objects ---

    @rule(name=st.sampled_from(GANGS), least=st.integers(0, 3))
    def set_object(self, name: str, least: int) -> None:
        self.registry.set_gang(gang(name, max(least, 1), is_basic=least == 0))
        self.queue.reconsider(key_of(name), self.now)

    @rule(name=st.sampled_from(GANGS))
    def remove_object(self, name: str) -> None:
        self.registry.remove_gang(key_of(name))
        self.queue.reconsider(key_of(name), self.now)

    @rule(of=MAYBE_A_GANG, gate=GATES, priority=PRIORITIES)
    def add(self, of: str, gate: str, priority: int) -> None:
        new = pod(f"p{self.made}", of, gate=gate, priority=priority)
        self.made += 1
        self.waiting[new.uid] = new
        self.queue.add(new, self.now)

    @rule(data=st.data(), of=MAYBE_A_GANG, priority=PRIORITIES)
    def update(self, data: st.DataObject, of: str, priority: int) -> None:
        if self.waiting:
            uid = data.draw(st.sampled_from(sorted(self.waiting)))
            new = pod(uid.removeprefix("uid-default-"), of, priority=priority)  # removes gates
            old, self.waiting[uid] = self.waiting[uid], new
            self.queue.update(old.pod, new, self.now)

    @rule(data=st.data())
    def delete_waiting(self, data: st.DataObject) -> None:
        if self.waiting:
            uid = data.draw(st.sampled_from(sorted(self.waiting)))
            del self.waiting[uid]
            self.queue.delete(uid)
            if uid in self.binding:  # the cache removes it, too
                self.lose(uid)

    @rule(data=st.data(), has_succeeded=st.booleans())
    def delete_bound(self, data: st.DataObject, has_succeeded: bool) -> None:
        if self.bound:
            uid = data.draw(st.sampled_from(sorted(self.bound)))
            self.bound.remove(uid)
            self.lose(uid, has_succeeded=has_succeeded)

    def lose(self, uid: str, *, has_succeeded: bool = False) -> None:
        tracked = self.registry.remove_member(uid, has_succeeded=has_succeeded)
        if tracked is not None:
            self.queue.reconsider(tracked.key, self.now)

    # --- attempts ---

    @rule(data=st.data(), most=st.integers(1, 4))
    def attempt(self, data: st.DataObject, most: int) -> None:
        popped = self.queue.pop_many(self.now, most)
        assert len(popped) <= most
        if len(popped) == 1 and isinstance(popped[0], StandIn):
            self.attempt_gang(data, popped[0])
            return
        assert not any(isinstance(qpi, StandIn) for qpi in popped), "a gang is not popped with others"
        for qpi in popped:
            self.end(data, qpi, may_be_assumed=True)

    def attempt_gang(self, data: st.DataObject, stand_in: StandIn) -> None:
        tracked = self.registry.get(stand_in.gang_key)
        assert tracked is not None
        assert tracked.lack is None, "a gang is tried that lacks something"
        assert stand_in.flying
        assert {uid for uid in stand_in.flying if self.waiting[uid]} <= tracked.members.keys()
        if data.draw(st.integers(0, 4)) == 0:
            self.queue.put_back([stand_in])
            return
        outcome = data.draw(st.sampled_from(Outcome))
        members = list(stand_in.flying.values())
        for qpi in members:
            self.end(data, qpi, may_be_assumed=outcome is Outcome.PLACED)
        plugins = FIT if outcome is not Outcome.FAULT else frozenset()
        self.queue.return_gang(stand_in, outcome, self.now, plugins, failed=members[0])
        assert stand_in.pool is not Pool.IN_FLIGHT

    def end(self, data: st.DataObject, qpi: QueuedPodInfo, *, may_be_assumed: bool) -> None:
        if may_be_assumed and data.draw(st.booleans()):
            self.binding[qpi.uid] = qpi
            self.registry.move(qpi.uid, Stage.ASSUMED)
        elif data.draw(st.booleans()):
            self.queue.add_unschedulable_if_not_present(qpi, self.now, data.draw(st.sampled_from([FIT, AFFINITY])))
        else:
            self.queue.requeue_after_error(qpi, self.now)

    @rule(data=st.data(), is_bound=st.booleans())
    def finish_binding(self, data: st.DataObject, is_bound: bool) -> None:
        if not self.binding:
            return
        uid = data.draw(st.sampled_from(sorted(self.binding)))
        qpi = self.binding.pop(uid)
        if not is_bound:
            self.registry.move(uid, Stage.IN_FLIGHT)
            self.queue.requeue_after_error(qpi, self.now)
            return
        self.queue.done(uid)
        if self.waiting.pop(uid, None) is not None:
            self.bound.add(uid)
            tracked = self.registry.move(uid, Stage.BOUND)
            if tracked is not None:
                self.queue.reconsider(tracked.key, self.now)

    # --- time and events ---

    @rule(event=EVENTS)
    def happen(self, event: object) -> None:
        self.queue.move_all_to_active_or_backoff(event, None, None, self.now)  # type: ignore[arg-type]

    @rule(data=st.data())
    def activate(self, data: st.DataObject) -> None:
        if self.waiting:
            self.queue.activate([data.draw(st.sampled_from(sorted(self.waiting)))], self.now)

    @rule(step=st.floats(0.0, 40.0))
    def let_time_pass(self, step: float) -> None:
        self.now += step
        self.queue.flush(self.now)

    # --- what must always hold ---

    @invariant()
    def nothing_is_lost_and_nothing_is_twice(self) -> None:
        if not hasattr(self, "queue"):
            return
        self.queue.check()
        held = [qpi.uid for qpi in self.queue.pending_pods()]
        assert len(held) == len(set(held))
        assert set(held) == self.waiting.keys() - self.binding.keys()
        assert len(self.queue) == len(held)
        for qpi in self.queue.pending_pods():
            assert qpi.pod_info is self.waiting[qpi.uid], "the queue has an old version of a pod"

    def teardown(self) -> None:
        """With enough time and an event for all plugins, everything is tried but what is gated or lacks something."""
        if not hasattr(self, "queue"):
            return
        expected = {
            uid
            for uid, each in self.waiting.items()
            if uid not in self.binding and not each.pod.spec.scheduling_gates and not self.lacks(uid)
        }
        tried: set[str] = set()
        for _ in range(40):
            self.queue.move_all_to_active_or_backoff(NODE_ADD, None, None, self.now)
            self.now += 40.0
            self.queue.flush(self.now)
            while popped := self.queue.pop_many(self.now, 3):
                for qpi in popped:
                    members = list(qpi.flying.values()) if isinstance(qpi, StandIn) else [qpi]
                    for each in members:
                        tried.add(each.uid)
                        self.registry.move(each.uid, Stage.BOUND)
                        self.queue.done(each.uid)
                    if isinstance(qpi, StandIn):
                        assert self.queue.return_gang(qpi, Outcome.PLACED, self.now) is Pool.GONE
            self.queue.check()
        assert tried == expected

    def lacks(self, uid: str) -> bool:
        member = self.registry.members.get(uid)
        return member is not None and member.tracked.lack is not None


GangQueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestGangQueueMachine = pytest.mark.slow(GangQueueMachine.TestCase)
