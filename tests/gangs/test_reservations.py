"""Without queues with shares at most one gang has a reservation, whatever happens; it is for it alone, and ends."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import given, settings

from kscheduler.api.objects import Pod
from kscheduler.gangs.planner import Plan, Planner
from kscheduler.gangs.preemption.whole import NOT_TRIED, Answer, WholePreemption
from kscheduler.gangs.reservations import RENEWED_S, Reservations
from kscheduler.gangs.tracked_gang import TrackedGang
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.queue.scheduling_queue import UNSCHEDULABLE_FLUSH_S
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import make_pod
from tests.gangs.bench import GangBench, member, members
from tests.gangs.builders import key_of

AFTER_S = 30.0
UNSCHEDULABLE_TIMEOUT_S = 300.0  # kube-scheduler's default, after which a rejected pod is tried without an event


class GivenPreemption(WholePreemption):
    """Evicts nobody, and gives one answer."""

    def __init__(self) -> None:
        self.answer = NOT_TRIED

    def look(
        self,
        tracked: TrackedGang,
        face: PodInfo,
        members: Sequence[QueuedPodInfo],
        plan: Plan,
        missing: int,
        *,
        wanted: int = 0,
    ) -> Answer:
        plan.placed.undo()
        return self.answer

    def is_leaving(self, pod: Pod) -> bool:
        return False


class Reserving(GangBench):
    """Two nodes with 4 CPUs each, and room for gangs that have failed for 30 seconds."""

    def __init__(self, preemption: WholePreemption | None = None) -> None:
        super().__init__(reserves_after_s=AFTER_S, preemption=preemption)

    @property
    def reservations(self) -> Reservations:
        found = self.batch.gangs.reservations
        assert found is not None
        return found

    def later(self, seconds: float) -> list[str]:
        """Have all that waits tried again after some time."""
        self.clock.advance(seconds)
        self.gangs.activate(list(self.gangs.uids), self.clock.now())
        return self.run()

    def occupy(self, *cpus: int) -> None:
        for i, cpu in enumerate(cpus):
            self.add(make_pod(f"old-{i}").req(cpu=cpu))
        assert len(self.run()) == len(cpus)

    def end(self, name: str) -> None:
        self.cache.forget(f"uid-default-{name}")

    def nominated(self) -> dict[str, str]:
        found = self.nominations.by_pod.values()
        return {each.pod.pod.metadata.name: each.node_name for each in found}

    def check_reservation(self) -> None:
        """Members of one gang are nominated, that wait and have all their room on nodes that exist; or nobody is."""
        assert len(self.reservations.held) <= 1
        held = next(iter(self.reservations.held.values()), None)
        nominated = {uid: each.node_name for uid, each in self.nominations.by_pod.items()}
        assert nominated == ({} if held is None else dict(held.nodes))
        if held is not None:
            assert self.gangs.stand_in(held.key) is not None
            assert {self.registry.members[uid].tracked.key for uid in nominated} == {held.key}

    def fail_for_long(self, name: str, size: int, cpu: int = 4) -> None:
        self.set_gang(name, size)
        self.add(*members(size, name, cpu))
        assert self.run() == []
        assert self.later(AFTER_S) == []


def test_no_room_is_reserved_before_a_gang_has_failed_for_so_long() -> None:
    bench = Reserving()
    bench.occupy(4, 4)
    bench.set_gang("train", 2)
    bench.add(*members(2, cpu=4))
    bench.run()
    bench.later(AFTER_S - 1)
    assert bench.nominated() == {}
    bench.later(1)
    assert sorted(bench.nominated().values()) == ["n1", "n2"]
    assert not any(bench.conditions.nominations), "none is written"


def test_reserved_room_is_for_the_gang_alone_and_it_is_placed_when_all_is_there() -> None:
    bench = Reserving()
    bench.occupy(4, 4)
    bench.fail_for_long("train", 2)
    bench.end("old-0")
    bench.add(make_pod("late").req(cpu=1))
    assert bench.later(1) == []
    bench.end("old-1")
    assert bench.later(20) == ["train-0", "train-1"]
    assert bench.nominated() == {}
    assert bench.ends == ["placed"]


def test_the_same_nodes_stay_reserved_from_attempt_to_attempt() -> None:
    bench = Reserving()
    bench.node("n3", pods=110)
    bench.occupy(4, 4, 4)
    bench.fail_for_long("train", 2)
    before = bench.nominated()
    bench.end("old-0")
    bench.add(make_pod("late").req(cpu=3).priority(1))
    for _ in range(3):
        bench.later(5)
    assert bench.nominated() == before


def test_nodes_are_chosen_again_after_a_while_where_less_is_to_be_waited_for_by_then() -> None:
    bench = Reserving()
    bench.occupy(2, 2, 2, 2)
    bench.fail_for_long("train", 1)
    (reserved,) = bench.nominated().values()
    other = bench.cache.table.get("n2" if reserved == "n1" else "n1")
    assert other is not None
    for uid in list(other.pods):
        bench.cache.forget(uid)
    bench.add(make_pod("new").req(cpu=1))
    assert bench.run() == ["new"]
    bench.later(1)
    assert set(bench.nominated().values()) == {reserved}
    bench.later(RENEWED_S)
    assert set(bench.nominated().values()) == {other.name}


def test_nodes_of_an_earlier_preemption_do_not_end_a_reservation() -> None:
    preemption = GivenPreemption()
    bench = Reserving(preemption)
    bench.occupy(4, 4)
    bench.fail_for_long("train", 2)
    reserved = bench.nominated()
    assert len(reserved) == 2
    # It is too early to search again, and the pods' statuses show yet where they were nominated before.
    preemption.answer = Answer("tried later", {"uid-default-train-0": "n1", "uid-default-train-1": "n1"})
    bench.later(5)
    assert bench.nominated() == reserved
    assert bench.ends == []
    preemption.answer = replace(preemption.answer, evicts=True)
    bench.later(5)
    assert bench.nominated() == {"train-0": "n1", "train-1": "n1"}
    assert bench.ends == ["released"]


def test_a_gang_that_can_never_fit_reserves_nothing() -> None:
    bench = Reserving()
    bench.occupy(4, 4)
    bench.fail_for_long("huge", 3)
    assert bench.nominated() == {}
    bench.fail_for_long("train", 2)
    bench.later(1)
    assert bench.nominated().keys() == {"train-0", "train-1"}, "the one before it does not keep it from that"


def test_room_is_looked_for_again_after_five_minutes_though_no_event_has_come() -> None:
    bench = Reserving()
    bench.occupy(4, 4)
    bench.fail_for_long("huge", 3)
    bench.node("n3", pods=110)  # added without an event to the queue
    assert bench.nominated() == {}
    bench.clock.advance(UNSCHEDULABLE_TIMEOUT_S + UNSCHEDULABLE_FLUSH_S)
    bench.queue.flush(bench.clock.now())
    assert bench.run() == []
    assert sorted(bench.nominated().values()) == ["n1", "n2", "n3"]


def test_a_gang_that_lacks_a_pod_gives_its_room_back_and_others_are_tried() -> None:
    bench = Reserving()
    bench.occupy(4)
    bench.fail_for_long("train", 2)
    bench.add(make_pod("late").req(cpu=4))
    assert bench.run() == []
    bench.queue.delete("uid-default-train-1")
    assert bench.nominated() == {}
    assert bench.ends == ["released"]
    bench.reservations.wake_others()
    bench.clock.advance(20)
    bench.queue.flush(bench.clock.now())
    assert bench.run() == ["late"]


def test_a_changed_object_ends_a_reservation_and_an_equal_one_does_not() -> None:
    bench = Reserving()
    bench.occupy(4)
    bench.fail_for_long("train", 2)
    bench.set_gang("train", 2)
    bench.reservations.reconsider(key_of("train"))
    assert bench.ends == []
    bench.set_gang("train", 1)
    bench.reservations.reconsider(key_of("train"))
    assert bench.ends == ["released"]
    assert bench.nominated() == {}


def test_a_fault_while_the_gang_is_planned_ends_its_reservation() -> None:
    bench = Reserving()
    bench.occupy(4)
    bench.fail_for_long("train", 2)
    planner: Planner = bench.batch.gangs.planner
    plan = planner.plan

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    planner.plan = fail  # type: ignore[assignment]
    bench.later(1)
    planner.plan = plan  # type: ignore[method-assign]
    bench.check_reservation()
    assert bench.later(20) == []
    assert bench.nominated().keys() == {"train-0", "train-1"}


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_whatever_happens_one_gang_at_most_has_a_reservation_and_all_are_placed_in_the_end(seed: int) -> None:
    rng, bench = random.Random(seed), Reserving()
    sizes: dict[str, int] = {}
    alive: list[str] = []
    for number in range(30):
        kind = rng.choice(["gang", "pod", "pod", "end", "end", "leave", "later", "later"])
        if kind == "gang" and len(sizes) < 4:
            name, size = f"g{number}", rng.randint(1, 4)
            sizes[name] = size
            bench.set_gang(name, size)
            priority = rng.choice([0, 0, 5])
            for i in range(size):
                bench.add(member(f"{name}-{i}", name, rng.randint(1, 2)).priority(priority))
        elif kind == "pod":
            bench.add(make_pod(f"p{number}").req(cpu=rng.randint(1, 2)).priority(rng.choice([0, 0, 3])))
        elif kind == "end" and alive:
            bench.end(alive.pop(rng.randrange(len(alive))))
        elif kind == "leave" and sizes:
            name = rng.choice(sorted(sizes))
            for i in range(sizes[name]):
                if f"{name}-{i}" not in alive:
                    bench.queue.delete(f"uid-default-{name}-{i}")
            del sizes[name]
        alive += bench.later(rng.choice([0.0, 1.0, AFTER_S / 2, AFTER_S]))
        bench.check_reservation()
    for _ in range(200):
        if not len(bench.queue):
            break
        while alive:
            bench.end(alive.pop())
        alive += bench.later(AFTER_S)
        bench.check_reservation()
    assert len(bench.queue) == bench.queue.counts().gated, "each fits when the others have ended"
    assert bench.nominated() == {}
