"""Whatever fails, no gang stays half placed: in the end its minimum is placed, or none of it.

Pods of several gangs come in any order; bindings succeed or are refused in any order; pods that wait are deleted and
nodes are added in between. A gang may be half placed only after a binding of it was refused.
"""

from __future__ import annotations

import random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.cycle.schedule_one import BindingCycle
from kscheduler.errors import Conflict, Forbidden
from kscheduler.framework.events import NODE_ADD
from kscheduler.gangs.tracked_gang import Stage
from kscheduler.testing.wrappers import PodBuilder, make_pod
from tests.gangs.bench import GangBench
from tests.support.checks import check_cache

STEPS = 60


class Trouble(GangBench):
    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.binding: list[BindingCycle] = []
        self.hurt: set[str] = set()  # gangs of which a binding was refused
        self.nodes = 2
        self.to_come: list[PodBuilder] = []
        for number in range(6):
            name, size = f"g{number}", rng.randint(2, 6)
            self.set_gang(name, rng.randint(2, size))
            cpu = rng.randint(1, 3)
            self.to_come += [
                make_pod(f"{name}-{i}").label(POD_GROUP_LABEL, name).req(cpu=cpu).priority(number % 2)
                for i in range(size)
            ]
        self.to_come += [make_pod(f"alone-{i}").req(cpu=1) for i in range(3)]
        rng.shuffle(self.to_come)

    def dispatch(self, cycle: BindingCycle) -> None:
        if cycle.pod.uid in self.registry.members:
            self.registry.move(cycle.pod.uid, Stage.ASSUMED)
        self.binding.append(cycle)

    def step(self) -> None:
        often = [self.come, self.try_some, self.reply]
        self.rng.choice([*often, *often, *often, *often, self.grow, self.go])()
        self.queue.check()
        check_cache(self.cache)

    def come(self) -> None:
        if self.to_come:
            self.add(self.to_come.pop())

    def try_some(self) -> None:
        self.clock.advance(self.rng.choice([0.0, 0.5, 12.0]))
        self.queue.flush(self.clock.now())
        self.batch.run(self.clock.now(), self.rng.randint(1, 8))
        for tracked in self.registry:
            assert not tracked.is_broken or tracked.key.name in self.hurt, f"{tracked.key} is half placed for no reason"

    def reply(self, *, may_fail: bool = True) -> None:
        if not self.binding:
            return
        cycle = self.binding.pop(self.rng.randrange(len(self.binding)))
        member = self.registry.members.get(cycle.pod.uid)
        outcome = self.rng.choice([Conflict("changed"), Forbidden("denied")]) if self.rng.random() < 0.3 else None
        if outcome is not None and may_fail:
            if member is not None:
                self.hurt.add(member.tracked.key.name)
                self.registry.move(cycle.pod.uid, Stage.IN_FLIGHT)
            self.one.finish_binding(cycle, outcome)
            return
        self.one.finish_binding(cycle, None)
        if member is not None:
            self.registry.move(cycle.pod.uid, Stage.BOUND)
            self.gangs.reconsider(member.tracked.key, self.clock.now())

    def grow(self) -> None:
        self.nodes += 1
        self.node(f"n{self.nodes}", pods=110)
        self.queue.move_all_to_active_or_backoff(NODE_ADD, None, None, self.clock.now())

    def go(self) -> None:
        """A pod that waits is deleted."""
        waiting = sorted(queued.pod_info.key for queued in self.queue.pending_pods())
        if waiting:
            key = self.rng.choice(waiting)
            self.queue.delete(self.watched.pop(key).metadata.uid)

    def settle(self) -> None:
        """No faults any more, and room for all."""
        for _ in range(40):
            self.grow()
        while self.to_come:
            self.come()
        for _ in range(20):
            self.clock.advance(20.0)
            self.queue.move_all_to_active_or_backoff(NODE_ADD, None, None, self.clock.now())
            self.queue.flush(self.clock.now())
            while self.batch.run(self.clock.now(), 8):
                pass
            while self.binding:
                self.reply(may_fail=False)
        self.queue.check()
        check_cache(self.cache)


@pytest.mark.slow
@settings(max_examples=60)
@given(seed=st.integers(0, (1 << 32) - 1))
def test_no_gang_stays_half_placed(seed: int) -> None:
    trouble = Trouble(random.Random(seed))
    for _ in range(STEPS):
        trouble.step()
    trouble.settle()
    for tracked in trouble.registry:
        exist = len(tracked.members)
        if exist >= tracked.min_members:
            assert tracked.placed == exist, f"{tracked.key}: {tracked.placed} of {exist} pods are placed"
        else:
            assert tracked.placed == 0 or tracked.key.name in trouble.hurt, f"{tracked.key} is half placed"
