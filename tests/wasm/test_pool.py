"""Instances of a plugin: lent and returned, held for a pod, thrown away after a fault, left alone after several."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kscheduler.wasm.engine import FaultKind, GuestFault, Instance
from kscheduler.wasm.pool import MAX_IDLE, Pool, PoolOptions, Unavailable, bad_answer
from kscheduler.wasm.quarantine import QuarantineRules
from tests.support.clocks import ManualClock
from tests.wasm.fakes import FakeInstance, FakeModule, Reports


class Scene:
    def __init__(self, **options: object) -> None:
        self.module, self.clock, self.reports = FakeModule(), ManualClock(), Reports()
        given = PoolOptions(setup=call("configure"), **options)  # type: ignore[arg-type]
        self.pool = Pool("policy", self.module, given, self.clock, self.reports)

    def fail(self, times: int = 1, uid: str | None = None) -> None:
        for _ in range(times):
            with pytest.raises(GuestFault, match="trap: trapped"):
                self.pool.run(call("trap"), uid)


def call(export: str) -> Callable[[Instance], None]:
    def work(instance: Instance) -> None:
        instance.call(export)

    return work


def number(instance: Instance) -> int:
    """Which instance it is."""
    assert isinstance(instance, FakeInstance)
    return instance.number


def test_an_instance_is_made_when_needed_started_and_used_again() -> None:
    scene = Scene()
    assert [scene.pool.run(number) for _ in range(3)] == [0, 0, 0]
    assert scene.module.made[0].is_started
    assert scene.pool.instances == 1


def test_a_new_instance_is_set_up() -> None:
    scene = Scene()
    scene.pool.warm()
    assert [each.calls for each in scene.module.made] == [1]
    assert scene.pool.instances == 1


def test_a_guest_that_cannot_be_set_up_is_not_kept() -> None:
    scene = Scene()
    scene.module.fails_at_setup = True
    with pytest.raises(GuestFault, match="configure: trapped"):
        scene.pool.warm()
    assert (scene.pool.instances, scene.module.open) == (0, 0)


def test_a_guest_that_does_not_start_is_not_kept() -> None:
    scene = Scene()
    scene.module.fails_at_start = True
    with pytest.raises(GuestFault, match="start: trapped"):
        scene.pool.run(number)
    assert (scene.pool.instances, scene.module.open) == (0, 0)
    assert scene.reports.calls == ["trap"]


def test_two_threads_get_two_instances() -> None:
    scene = Scene()
    barrier = threading.Barrier(2, timeout=120)
    seen: list[int] = []

    def work(instance: Instance) -> None:
        barrier.wait()
        seen.append(number(instance))

    threads = [threading.Thread(target=scene.pool.run, args=(work,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [0, 1]
    assert scene.pool.instances == 2


def test_after_a_fault_the_instance_is_thrown_away() -> None:
    scene = Scene()
    scene.fail()
    assert scene.module.made[0].is_closed
    assert scene.pool.run(number) == 1
    assert scene.pool.instances == 1


def test_a_bad_answer_costs_the_instance_too() -> None:
    scene = Scene()

    def work(_instance: Instance) -> None:
        raise bad_answer("3 scores for 4 nodes")

    with pytest.raises(GuestFault) as caught:
        scene.pool.run(work)
    assert caught.value.kind is FaultKind.BAD_ANSWER
    assert (scene.pool.instances, scene.module.open) == (0, 0)
    assert scene.reports.calls == ["bad_answer"]


def test_a_bug_of_the_host_passes_and_loses_nothing() -> None:
    scene = Scene()

    def work(_instance: Instance) -> None:
        raise KeyError("ours")

    with pytest.raises(KeyError):
        scene.pool.run(work)
    assert (scene.pool.instances, scene.module.open) == (0, 0)
    assert scene.reports.calls == []


def test_the_number_of_instances_is_bounded() -> None:
    scene = Scene(max_instances=2)
    scene.pool.hold("a")
    scene.pool.hold("b")
    with pytest.raises(Unavailable, match="plugin policy: all its 2 instances are in use"):
        scene.pool.run(number)
    with pytest.raises(Unavailable):
        scene.pool.hold("c")
    scene.pool.release("a")
    assert scene.pool.run(number) == 0


def test_idle_instances_beyond_a_few_are_closed() -> None:
    scene = Scene()
    uids = [f"pod-{index}" for index in range(MAX_IDLE + 3)]
    for uid in uids:
        scene.pool.hold(uid)
    for uid in uids:
        scene.pool.release(uid)
    assert (scene.pool.instances, scene.module.open, scene.pool.holders) == (MAX_IDLE, MAX_IDLE, 0)


# --- a pod's own instance ---


def test_a_pod_keeps_its_instance_from_hold_to_release() -> None:
    scene = Scene()
    scene.pool.hold("a")
    scene.pool.hold("a")
    scene.pool.hold("b")
    assert [scene.pool.run(number, uid) for uid in ("a", "b", "a", None, "b")] == [0, 1, 0, 2, 1]
    scene.pool.release("a")
    scene.pool.release("a")
    assert scene.pool.holders == 1
    assert scene.pool.instances == 3


def test_a_pod_that_holds_none_is_lent_any() -> None:
    scene = Scene()
    assert scene.pool.run(number, "a") == 0
    assert scene.pool.run(number) == 0
    scene.pool.release("a")


def test_a_pod_whose_instance_failed_gets_no_other_until_it_is_released() -> None:
    scene = Scene()
    scene.pool.hold("a")
    scene.fail(uid="a")
    with pytest.raises(Unavailable, match="the pod's instance was lost to an earlier fault"):
        scene.pool.run(number, "a")
    assert scene.pool.run(number) == 1
    scene.pool.release("a")
    assert scene.pool.run(number, "a") == 1
    assert (scene.pool.instances, scene.pool.holders) == (1, 0)


def test_a_held_instance_survives_the_end_of_its_pool_until_it_is_released() -> None:
    scene = Scene()
    scene.pool.hold("a")
    scene.pool.run(number)
    scene.pool.close()
    assert scene.module.open == 1
    assert scene.pool.run(number, "a") == 0
    with pytest.raises(Unavailable, match="replaced or stopped"):
        scene.pool.run(number)
    scene.pool.release("a")
    assert (scene.pool.instances, scene.module.open) == (0, 0)


def test_pods_that_bind_leave_some_instances_for_decisions() -> None:
    scene = Scene(max_instances=16)
    for uid in range(14):
        scene.pool.hold(str(uid))
    with pytest.raises(Unavailable, match="14 pods that bind hold an instance each"):
        scene.pool.hold("one more")
    scene.pool.hold("3")  # it has one
    assert scene.pool.run(number) == 14
    scene.pool.release("3")
    scene.pool.hold("one more")
    assert scene.pool.holders == 14


# --- quarantine ---


def test_after_three_faults_in_a_row_the_guest_is_left_alone() -> None:
    scene = Scene()
    scene.fail(3)
    assert scene.pool.is_quarantined
    with pytest.raises(Unavailable, match=r"for 1\.0 s more; the latest fault: trap: trapped$"):
        scene.pool.run(number)
    with pytest.raises(Unavailable):
        scene.pool.hold("a")
    assert len(scene.module.made) == 3
    assert scene.reports.quarantines == [(True, "trap: trapped")]
    assert scene.reports.calls == ["trap"] * 3 + ["unavailable"]


def test_a_success_in_between_is_enough_to_stay() -> None:
    scene = Scene()
    for _ in range(4):
        scene.fail(2)
        scene.pool.run(number)
    assert not scene.pool.is_quarantined


def test_successes_of_other_exports_do_not_count_while_one_keeps_failing() -> None:
    scene = Scene()
    for _ in range(3):
        scene.pool.run(number, export="preFilter")
        with pytest.raises(GuestFault):
            scene.pool.run(call("trap"), export="filter")
    assert scene.pool.is_quarantined


def test_a_success_of_the_export_that_failed_starts_the_count_again() -> None:
    scene = Scene()
    for _ in range(4):
        for _ in range(2):
            with pytest.raises(GuestFault):
                scene.pool.run(call("trap"), export="filter")
        scene.pool.run(number, export="filter")
    assert not scene.pool.is_quarantined


def test_after_a_quarantine_faults_are_counted_from_zero() -> None:
    scene = Scene()
    for _ in range(3):
        with pytest.raises(GuestFault):
            scene.pool.run(call("trap"), export="unreserve")
    scene.clock.advance(1.0)
    for _ in range(4):
        with pytest.raises(GuestFault):
            scene.pool.run(call("trap"), export="filter")
        scene.pool.run(number, export="filter")
    assert not scene.pool.is_quarantined


def test_an_instance_that_starts_admits_the_guest_again() -> None:
    scene = Scene()
    scene.fail(3)
    scene.clock.advance(1.0)
    assert scene.pool.run(number) == 3
    assert scene.module.made[3].calls == 1
    assert not scene.pool.is_quarantined
    assert scene.reports.quarantines[1:] == [(False, "")]


@pytest.mark.parametrize("use", ["run", "hold"])
def test_a_guest_that_cannot_be_set_up_is_left_alone_twice_as_long(use: str) -> None:
    scene = Scene()
    scene.fail(3)
    scene.module.fails_at_setup = True
    scene.clock.advance(1.0)
    with pytest.raises(GuestFault, match="configure"):
        scene.pool.run(number) if use == "run" else scene.pool.hold("a")
    with pytest.raises(Unavailable, match=r"for 2\.0 s more"):
        scene.pool.run(number)
    assert (scene.pool.instances, scene.module.open) == (0, 0)


def test_a_quarantine_ends_with_its_pool() -> None:
    scene = Scene()
    scene.fail(3)
    scene.pool.close()
    scene.pool.close()
    assert scene.reports.quarantines[1:] == [(False, "")]


def test_a_closed_pool_says_nothing_of_what_comes_back_to_it() -> None:
    scene = Scene()
    scene.pool.hold("a")
    scene.pool.hold("b")
    scene.pool.close()
    reported = list(scene.reports.sizes)
    scene.pool.release("a")
    scene.fail(uid="b")
    scene.pool.release("b")
    assert scene.reports.sizes == reported
    assert scene.reports.quarantines == []
    assert (scene.pool.instances, scene.module.open) == (0, 0)


def test_a_quarantine_closes_idle_instances() -> None:
    scene = Scene()
    for uid in "abcd":
        scene.pool.hold(uid)
    for uid in "abcd":
        scene.pool.release(uid)
    assert scene.pool.instances == 4
    scene.fail(3)
    assert (scene.pool.instances, scene.module.open) == (0, 0)


# --- what is reported ---


def test_runs_and_sizes_are_reported() -> None:
    scene = Scene()
    scene.pool.run(number)
    scene.module.made[0].memory_bytes = 3 * 65_536
    scene.pool.run(number)
    assert scene.reports.calls == ["", ""]
    assert scene.reports.sizes == [(1, 1), (1, 3)]


class PoolMachine(RuleBasedStateMachine):
    """Whatever happens in whatever order: every open instance is counted, and none is used by two."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(max_instances=4, quarantine=QuarantineRules(faults_in_a_row=2))
        self.pool = self.scene.pool

    def attempt(self, act: Callable[[], object]) -> None:
        with contextlib.suppress(GuestFault, Unavailable):
            act()

    uids = st.sampled_from(["a", "b", "c", "d", "e"])

    @rule(uid=uids)
    def hold(self, uid: str) -> None:
        self.attempt(lambda: self.pool.hold(uid))

    @rule(uid=uids)
    def release(self, uid: str) -> None:
        self.pool.release(uid)

    @rule(uid=uids, export=st.sampled_from(["fine", "trap"]))
    def run(self, uid: str, export: str) -> None:
        self.attempt(lambda: self.pool.run(call(export), uid))

    @rule(export=st.sampled_from(["fine", "trap"]))
    def run_any(self, export: str) -> None:
        self.attempt(lambda: self.pool.run(call(export)))

    @rule(fails=st.booleans())
    def change_the_setup(self, fails: bool) -> None:
        self.scene.module.fails_at_setup = fails

    @rule(seconds=st.floats(0, 5))
    def wait(self, seconds: float) -> None:
        self.scene.clock.advance(seconds)

    @rule()
    def close(self) -> None:
        self.pool.close()

    @invariant()
    def counts_agree(self) -> None:
        assert self.scene.module.open == self.pool.instances <= 4

    def teardown(self) -> None:
        self.pool.close()
        for uid in ("a", "b", "c", "d", "e"):
            self.pool.release(uid)
        assert (self.pool.instances, self.scene.module.open, self.pool.holders) == (0, 0, 0)


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
