"""Any sequence of events and outcomes: no pod is lost or in two places, no gang is tried that lacks something.

Pods of gangs and ordinary ones come, change their gang or gates, are bound, fail to be bound, and go, also while their
gang is in flight; objects come, change and go. After each step the queue's own check must hold, and a plain list of
pods must agree with it. An event wakes each gang that it may help by any of its pods. At the end everything that can be
tried is.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from kscheduler.config.releases import RELEASE_1_37
from kscheduler.framework.events import ASSIGNED_POD_DELETE, NODE_ADD, ClusterEvent
from kscheduler.framework.status import unresolvable
from kscheduler.gangs.faces import Helpful
from kscheduler.gangs.gang_queue import GangQueue, Outcome
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.rules import UPSTREAM_1_36, UPSTREAM_1_37, WHOLE, GangRules
from kscheduler.gangs.stand_in import StandIn
from kscheduler.gangs.tracked_gang import Stage
from kscheduler.queue.pod_info import Pool, QueuedPodInfo
from kscheduler.queue.requeue import ANY_PROFILE
from kscheduler.snapshot.pod_info import PodInfo
from tests.gangs.builders import DOORS, gang, key_of, pod
from tests.queue.harness import AFFINITY, FIT, NODE_LABEL, REGISTERED, by_priority, scheduling_gates

STEPS = 60
WOKEN_BY = {
    NODE_ADD: FIT | AFFINITY,
    ASSIGNED_POD_DELETE: FIT,
    NODE_LABEL: AFFINITY,
}  # event -> those that registered it
BUSY = unresolvable("busy").of("NodeResourcesFit")
GANGS = ["red", "blue"]
MAYBE_A_GANG = ["", *GANGS, *GANGS]


class Interleaving:
    """A queue and the facts about its pods; each step is drawn from a generator of random numbers."""

    def __init__(self, rules: GangRules, rng: random.Random) -> None:
        self.rng = rng
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
        self.is_gated = False  # room is being made for the gangs
        self.queue.gate = lambda face: BUSY if self.is_gated else None
        self.queue.waits_for_others = lambda face: self.is_gated
        self.made = 0
        self.waiting: dict[str, PodInfo] = {}  # pod uid -> pod that exists and has no node
        self.flying: set[str] = set()  # uids of those that are in flight
        self.assumed: dict[str, QueuedPodInfo] = {}  # and of those that are assumed, the pod in the queue
        self.bound: set[str] = set()
        self.changes: list[Callable[[], None]] = [
            self.set_object, self.remove_object, self.add, self.add, self.add, self.update, self.update,
            self.delete_waiting, self.delete_bound,
        ]  # fmt: skip
        self.steps: list[Callable[[], None]] = [
            *self.changes, self.attempt, self.attempt, self.attempt, self.finish_binding, self.finish_binding,
            self.happen, self.activate, self.let_time_pass, self.gate_or_open,
        ]  # fmt: skip

    def is_so(self, probability: float) -> bool:
        return self.rng.random() < probability

    def any_of(self, uids: object) -> str:
        return self.rng.choice(sorted(uids))  # type: ignore[call-overload, no-any-return]

    def step(self) -> None:
        self.rng.choice(self.steps)()

    # --- pods and objects ---

    def set_object(self) -> None:
        name, least = self.rng.choice(GANGS), self.rng.randint(0, 3)
        self.registry.set_gang(gang(name, max(least, 1), is_basic=least == 0))
        self.queue.reconsider(key_of(name), self.now)

    def remove_object(self) -> None:
        if self.is_so(0.3):
            name = self.rng.choice(GANGS)
            self.registry.remove_gang(key_of(name))
            self.queue.reconsider(key_of(name), self.now)

    def add(self) -> None:
        gate = "wait" if self.is_so(0.25) else ""
        new = pod(f"p{self.made}", self.rng.choice(MAYBE_A_GANG), gate=gate, priority=self.rng.randint(0, 2))
        self.made += 1
        self.waiting[new.uid] = new
        self.queue.add(new, self.now)

    def update(self) -> None:
        if self.waiting:
            uid = self.any_of(self.waiting)
            name = uid.removeprefix("uid-default-")
            new = pod(name, self.rng.choice(MAYBE_A_GANG), priority=self.rng.randint(0, 2))  # removes gates
            old, self.waiting[uid] = self.waiting[uid], new
            self.queue.update(old.pod, new, self.now)

    def delete_waiting(self) -> None:
        if self.waiting:
            uid = self.any_of(self.waiting)
            del self.waiting[uid]
            self.queue.delete(uid)
            if uid in self.assumed:  # the cache removes it, too
                self.lose(uid)

    def delete_bound(self) -> None:
        if self.bound:
            uid = self.any_of(self.bound)
            self.bound.remove(uid)
            self.lose(uid, has_succeeded=self.is_so(0.5))

    def lose(self, uid: str, *, has_succeeded: bool = False) -> None:
        member = self.registry.members.get(uid)
        run = 0 if member is None else member.tracked.run
        tracked = self.registry.remove_member(uid)
        if tracked is not None:
            if has_succeeded:
                self.registry.add_success(tracked, run)
            self.queue.reconsider(tracked.key, self.now)

    # --- attempts ---

    def attempt(self) -> None:
        most = self.rng.randint(1, 4)
        popped = self.queue.pop_many(self.now, most)
        assert len(popped) <= most
        if len(popped) == 1 and isinstance(popped[0], StandIn):
            self.attempt_gang(popped[0])
            return
        assert not any(isinstance(qpi, StandIn) for qpi in popped), "a gang is not popped with others"
        for qpi in popped:
            self.end(qpi, may_be_assumed=True)

    def attempt_gang(self, stand_in: StandIn) -> None:
        tracked = self.registry.get(stand_in.gang_key)
        assert tracked is not None
        assert tracked.lack is None, "a gang is tried that lacks something"
        members = list(stand_in.flying.values())
        assert members
        assert stand_in.flying.keys() <= tracked.members.keys()
        # What happens meanwhile; while plugins' answers are awaited, for example.
        self.flying = set(stand_in.flying)
        while self.is_so(0.4):
            self.rng.choice(self.changes)()
            self.check()
        self.flying = set()
        if self.is_so(0.3):
            self.queue.put_back([stand_in])
            return
        outcome = self.rng.choice(list(Outcome))
        for qpi in members:
            self.end(qpi, may_be_assumed=outcome is Outcome.PLACED)
        plugins = frozenset() if outcome is Outcome.FAULT else FIT
        others = [Helpful(qpi, self.rng.choice([FIT, AFFINITY, frozenset()])) for qpi in members[1:]]
        self.queue.return_gang(stand_in, outcome, self.now, plugins, failed=members[0], others=others)

    def end(self, qpi: QueuedPodInfo, *, may_be_assumed: bool) -> None:
        if may_be_assumed and qpi.uid in self.waiting and self.is_so(0.5):
            self.assumed[qpi.uid] = qpi
            self.registry.move(qpi.uid, Stage.ASSUMED)
        elif self.is_so(0.5):
            self.queue.add_unschedulable_if_not_present(qpi, self.now, self.rng.choice([FIT, AFFINITY]))
        else:
            self.queue.requeue_after_error(qpi, self.now)

    def finish_binding(self) -> None:
        if not self.assumed:
            return
        uid = self.any_of(self.assumed)
        qpi = self.assumed.pop(uid)
        if self.is_so(0.4):
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

    def happen(self) -> None:
        event = self.rng.choice([NODE_ADD, ASSIGNED_POD_DELETE, NODE_LABEL])
        concerned = self.concerned(event)
        self.queue.move_all_to_active_or_backoff(event, None, None, self.now)
        while self.queue.is_waking:
            self.queue.flush(self.now)
        asleep = [each.key for each in concerned if each.pool is Pool.UNSCHEDULABLE]
        assert not asleep or (self.is_gated and event is ASSIGNED_POD_DELETE), f"{event} woke {asleep} not"

    def concerned(self, event: ClusterEvent) -> list[StandIn]:
        """The rejected gangs of which a plugin registered the event that may have rejected one of their pods."""
        stand_ins = (self.queue.stand_in(key_of(name)) for name in GANGS)
        rejected = [each for each in stand_ins if each is not None and each.pool is Pool.UNSCHEDULABLE]
        return [each for each in rejected if self.plugins_of(each) & WOKEN_BY[event]]

    def plugins_of(self, stand_in: StandIn) -> frozenset[str]:
        return stand_in.unschedulable_plugins.union(*(face.unschedulable_plugins for face in stand_in.further_faces))

    def activate(self) -> None:
        if self.waiting:
            self.queue.activate([self.any_of(self.waiting)], self.now)

    def gate_or_open(self) -> None:
        self.is_gated = not self.is_gated

    def let_time_pass(self) -> None:
        self.now += self.rng.random() * 40
        self.queue.flush(self.now)

    # --- what must hold ---

    def check(self) -> None:
        self.queue.check()
        held = [qpi.uid for qpi in self.queue.pending_pods()]
        assert len(held) == len(set(held))
        assert set(held) == self.waiting.keys() - self.assumed.keys() - self.flying
        assert len(self.queue) == len(held)
        for qpi in self.queue.pending_pods():
            assert qpi.pod_info is self.waiting[qpi.uid], "the queue has an old version of a pod"

    def try_everything(self) -> None:
        """With enough time and an event for all plugins, all are tried but what is gated or lacks something."""
        expected = {
            uid
            for uid, each in self.waiting.items()
            if uid not in self.assumed and not each.pod.spec.scheduling_gates and not self.lacks(uid)
        }
        tried: set[str] = set()
        self.is_gated = False
        for _ in range(40):
            self.queue.move_all_to_active_or_backoff(NODE_ADD, None, None, self.now)
            self.now += 40.0
            self.queue.flush(self.now)
            while popped := self.queue.pop_many(self.now, 3):
                for qpi in popped:
                    self.bind(qpi, tried)
        self.queue.check()
        assert tried == expected

    def bind(self, popped: QueuedPodInfo, tried: set[str]) -> None:
        members = list(popped.flying.values()) if isinstance(popped, StandIn) else [popped]
        for qpi in members:
            tried.add(qpi.uid)
            self.registry.move(qpi.uid, Stage.BOUND)
            self.queue.done(qpi.uid)
        if isinstance(popped, StandIn):
            assert self.queue.return_gang(popped, Outcome.PLACED, self.now) is Pool.GONE

    def lacks(self, uid: str) -> bool:
        member = self.registry.members.get(uid)
        return member is not None and member.tracked.lack is not None


@pytest.mark.slow
@pytest.mark.parametrize("rules", [WHOLE, UPSTREAM_1_36, UPSTREAM_1_37], ids=lambda rules: rules.name)
@settings(max_examples=50)
@given(seed=st.integers(0, (1 << 32) - 1))
def test_no_pod_is_lost_and_no_gang_is_tried_that_lacks_something(rules: GangRules, seed: int) -> None:
    interleaving = Interleaving(rules, random.Random(seed))
    for _ in range(STEPS):
        interleaving.step()
        interleaving.check()
    interleaving.try_everything()
