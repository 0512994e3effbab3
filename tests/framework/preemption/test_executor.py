"""The work of a preemption, against a cluster that takes notes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import Pod
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.errors import APIError
from kscheduler.framework.dry_runs import Candidate
from kscheduler.framework.preemption.executor import ACCEPTED_S, Executor, is_ending_for_preemption
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_pod
from tests.framework.plugins.defaultpreemption.fakes import Bench

PREEMPTOR = PodInfo(make_pod("vip").priority(1000).scheduler_name("mine").obj())
MESSAGE = "mine: preempting to accommodate a higher priority pod"


class Stage:
    """A preemption of these victims on n1, begun but not carried out."""

    def __init__(self, *victims: PodBuilder, release: Release = RELEASE_1_36) -> None:
        self.bench = Bench(release=release)
        self.bench.nodes("n1")
        self.evictions = self.bench.evictions
        self.executor = Executor(self.bench.handle, "DefaultPreemption")
        self.victims = [PodInfo(self.bench.place(victim, "n1")) for victim in victims]

    def start(self) -> None:
        self.executor.start(Candidate("n1", tuple(self.victims)), PREEMPTOR)

    def holds(self) -> bool:
        """Is the preemptor held back? A call, so that type checkers do not remember the last answer."""
        return self.executor.is_running(PREEMPTOR.uid)

    def watch_shows(self, name: str, change: Callable[[Pod], Pod] | None) -> None:
        """Another version of a victim, or that it is gone."""
        key = f"default/{name}"
        if change is None:
            del self.evictions.pods[key]
        else:
            self.evictions.pods[key] = change(self.evictions.pods[key])

    async def carry_out(self) -> None:
        self.start()
        await self.evictions.run()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    run_virtual(scenario)


def ending(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2024-01-01T00:00:00Z"))


def test_a_victim_is_marked_and_deleted_with_the_reason() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("old"))
        await stage.carry_out()
        assert stage.evictions.log == ["mark old", "delete old", "deleted old"]
        condition = stage.evictions.conditions["default/old"]
        assert (condition.type, condition.status, condition.reason, condition.message) == (
            "DisruptionTarget", "True", "PreemptionByScheduler", MESSAGE,
        )  # fmt: skip
        assert stage.evictions.notes == [
            f"default/old for default/vip: Preempted by pod {PREEMPTOR.uid} on node n1",
        ]
        assert stage.evictions.measured == [("victims", 1), ("ended", "success")]
        assert stage.evictions.tried_again == []
        assert not stage.holds()

    run(scenario())


def test_a_victim_that_says_so_already_is_not_marked_again() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("old").condition("DisruptionTarget", "True", "PreemptionByScheduler", MESSAGE))
        await stage.carry_out()
        assert stage.evictions.log == ["delete old", "deleted old"]

    run(scenario())


def test_all_but_the_last_go_together_and_the_last_when_they_are_gone() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("a"), make_pod("b"), make_pod("c"))
        stage.evictions.hold = asyncio.Event()
        stage.start()
        work = asyncio.ensure_future(stage.evictions.run())
        await asyncio.sleep(1)
        assert stage.evictions.log == ["mark a", "delete a", "mark b", "delete b"]
        assert stage.holds()
        stage.evictions.hold.set()
        await work
        assert stage.evictions.log[-3:] == ["mark c", "delete c", "deleted c"]
        assert len(stage.evictions.notes) == 3

    run(scenario())


@pytest.mark.parametrize(
    "change",
    [ending, None, lambda pod: replace(pod, metadata=replace(pod.metadata, uid="another"))],
    ids=["it is ending", "it is gone", "another pod has its name"],
)
def test_the_pod_is_free_as_soon_as_the_watch_shows_that_the_last_victim_goes(
    change: Callable[[Pod], Pod] | None,
) -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("old"))
        stage.evictions.hold = asyncio.Event()
        stage.start()
        assert stage.holds()  # before it was begun
        work = asyncio.ensure_future(stage.evictions.run())
        await asyncio.sleep(1)
        assert stage.holds()  # the deletion is not answered
        stage.watch_shows("old", change)
        assert not stage.holds()
        stage.evictions.hold.set()
        await work

    run(scenario())


def test_an_accepted_deletion_holds_the_pod_until_the_watch_shows_it() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("a"), make_pod("last"))
        stage.evictions.lag_s = 2.25
        stage.start()
        work = asyncio.ensure_future(stage.evictions.run())
        await asyncio.sleep(2)
        assert stage.evictions.log[-1] == "deleted last"
        assert stage.holds()
        assert stage.evictions.measured[-1] == ("ended", "success")  # waiting is no part of the work
        await asyncio.sleep(0.5)
        assert not stage.holds()
        await work
        assert stage.evictions.tried_again == []  # the deletion wakes it

    run(scenario())


def test_a_victim_that_was_gone_already_wakes_the_pod_only_when_the_watch_shows_that() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("old"))
        stage.evictions.gone.add("default/old")
        stage.start()
        work = asyncio.ensure_future(stage.evictions.run())
        await asyncio.sleep(2)
        assert stage.holds()
        assert stage.evictions.tried_again == []
        stage.watch_shows("old", None)
        await work
        assert stage.evictions.tried_again == [PREEMPTOR.uid]

    run(scenario())


def test_a_watch_that_never_shows_it_does_not_hold_the_pod_for_ever() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("old"))
        stage.evictions.lag_s = 1_000.0
        stage.start()
        work = asyncio.ensure_future(stage.evictions.run())
        await asyncio.sleep(ACCEPTED_S - 1)
        assert stage.holds()
        assert stage.executor.has_ended(stage.victims[0].pod)
        await work
        assert not stage.holds()
        assert not stage.executor.has_ended(stage.victims[0].pod)
        assert stage.evictions.tried_again == [PREEMPTOR.uid]

    run(scenario())


def test_a_pod_that_was_woken_in_vain_is_woken_again_when_its_last_victim_is_gone() -> None:
    """What woke it may have been that victim's binding, given back: then the deletion frees no room."""

    async def scenario() -> None:
        stage = Stage(make_pod("old"))
        stage.evictions.lag_s = 2.25
        stage.start()
        work = asyncio.ensure_future(stage.evictions.run())
        await asyncio.sleep(1)
        assert stage.executor.holds(PREEMPTOR.uid)
        assert stage.evictions.tried_again == []
        await work
        assert not stage.executor.holds(PREEMPTOR.uid)
        assert stage.evictions.tried_again == [PREEMPTOR.uid]

    run(scenario())


def test_a_pod_that_was_woken_in_vain_waits_on_while_its_last_victim_takes_its_time() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("old"))
        stage.evictions.lag_s = 1_000.0
        stage.start()
        work = asyncio.ensure_future(stage.evictions.run())
        await asyncio.sleep(1)
        assert stage.executor.holds(PREEMPTOR.uid)
        stage.watch_shows("old", ending)
        await work
        assert not stage.executor.holds(PREEMPTOR.uid)
        assert stage.evictions.tried_again == []  # the deletion wakes it

    run(scenario())


def test_a_pod_that_was_let_go_since_it_was_woken_in_vain_is_not_woken_again() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("old"))
        stage.evictions.hold = asyncio.Event()
        stage.start()
        work = asyncio.ensure_future(stage.evictions.run())
        await asyncio.sleep(1)
        assert stage.executor.holds(PREEMPTOR.uid)
        stage.watch_shows("old", None)
        assert not stage.executor.holds(PREEMPTOR.uid)  # the queue asks again, and tries it
        stage.evictions.hold.set()
        await work
        assert stage.evictions.tried_again == []

    run(scenario())


def test_nobody_ends_a_pod_again_whose_deletion_was_accepted() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("old"))
        stage.evictions.lag_s = 3.0
        stage.start()
        work = asyncio.ensure_future(stage.evictions.run())
        await asyncio.sleep(1)
        stage.executor.start(Candidate("n1", tuple(stage.victims)), PodInfo(make_pod("other").uid("other").obj()))
        assert not stage.executor.is_running("other")
        assert stage.evictions.work == []
        await work
        assert stage.evictions.log.count("delete old") == 1

    run(scenario())


OTHER = PodInfo(make_pod("other").uid("other").priority(1000).scheduler_name("mine").obj())


async def two_preemptors(stage: Stage, *, is_of_one_profile: bool) -> None:
    """Both choose all victims before the first has written anything, and carry it out side by side."""
    executor = stage.executor if is_of_one_profile else Executor(stage.bench.handle, "DefaultPreemption")
    stage.start()
    executor.start(Candidate("n1", tuple(stage.victims)), OTHER)
    works, stage.evictions.work = stage.evictions.work, []
    tasks = [asyncio.ensure_future(work) for work in works]
    await asyncio.sleep(3)
    if stage.evictions.hold is not None:
        stage.evictions.hold.set()
    await asyncio.gather(*tasks)
    assert not stage.holds()
    assert not executor.is_running(OTHER.uid)


@pytest.mark.parametrize("is_of_one_profile", [True, False])
def test_a_victim_that_two_preemptors_choose_is_ended_once(is_of_one_profile: bool) -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("old"), make_pod("last"))
        stage.evictions.hold = asyncio.Event()
        await two_preemptors(stage, is_of_one_profile=is_of_one_profile)
        for name in ("old", "last"):
            assert [stage.evictions.log.count(f"{verb} {name}") for verb in ("mark", "delete")] == [1, 1]
        assert len(stage.evictions.notes) == 2
        assert [what for what, _ in stage.evictions.measured].count("ended") == 2

    run(scenario())


def test_preemptors_that_choose_the_same_victims_in_another_order_do_not_wait_for_each_other() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("a"), make_pod("b"), make_pod("c"))
        stage.evictions.hold = asyncio.Event()
        stage.start()
        stage.executor.start(Candidate("n1", tuple(reversed(stage.victims))), OTHER)
        works, stage.evictions.work = stage.evictions.work, []
        tasks = [asyncio.ensure_future(work) for work in works]
        await asyncio.sleep(1)
        stage.evictions.hold.set()
        await asyncio.gather(*tasks)
        assert sorted(line for line in stage.evictions.log if line.startswith("delete ")) == [
            "delete a",
            "delete b",
            "delete c",
        ]

    run(scenario())


def test_a_victim_that_one_preemptor_failed_to_end_is_ended_by_the_other() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("old"))
        stage.evictions.refuse["old"] = APIError("no", status=403)
        await two_preemptors(stage, is_of_one_profile=True)
        assert stage.evictions.log.count("delete old") == 2
        assert sorted(stage.evictions.tried_again) == sorted([PREEMPTOR.uid, OTHER.uid])

    run(scenario())


def test_a_victim_that_one_preemptor_sent_back_is_not_deleted_by_the_other_which_is_tried_again() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("waiting").uid("w"))
        stage.evictions.in_memory.add("w")
        stage.start()
        stage.executor.start(Candidate("n1", tuple(stage.victims)), OTHER)
        first, second = stage.evictions.work
        stage.evictions.work = []
        await first
        stage.evictions.in_memory.clear()  # it waits in the queue again
        await second
        assert stage.evictions.log == ["stop w for DefaultPreemption"]
        assert stage.evictions.tried_again == [OTHER.uid]

    run(scenario())


def test_a_victim_that_is_chosen_again_after_it_was_sent_back_is_ended_again() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("waiting").uid("w"))
        stage.evictions.in_memory.add("w")
        await stage.carry_out()
        stage.evictions.in_memory.clear()
        await stage.carry_out()
        assert stage.evictions.log[-1] == "deleted waiting"

    run(scenario())


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_clock_that_jumps_ends_what_is_remembered_of_a_deletion(jump_s: float) -> None:
    """Deleting the pod once more does no harm; taking it for one that goes, for an hour, would."""

    async def scenario() -> None:
        stage = Stage(make_pod("old"))
        stage.evictions.lag_s = 3.0
        stage.start()
        work = asyncio.ensure_future(stage.evictions.run())
        await asyncio.sleep(1)
        assert stage.executor.has_ended(stage.victims[0].pod)
        stage.evictions.now += jump_s
        assert not stage.executor.has_ended(stage.victims[0].pod)
        assert stage.holds()
        await work
        assert not stage.holds()

    run(scenario())


def test_other_pods_are_not_held() -> None:
    stage = Stage(make_pod("old"))
    stage.start()
    assert not stage.executor.is_running("somebody-else")
    for work in stage.evictions.work:
        work.close()


def test_victims_that_are_ending_already_are_only_waited_for() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("going").terminating(), make_pod("old"))
        await stage.carry_out()
        assert stage.evictions.log == ["mark old", "delete old", "deleted old"]
        assert stage.evictions.measured[0] == ("victims", 2)

    run(scenario())


def test_nothing_is_done_when_all_are_ending() -> None:
    stage = Stage(make_pod("going").terminating())
    stage.start()
    assert not stage.holds()
    assert stage.evictions.work == []
    assert stage.evictions.measured == []


def test_a_pod_that_is_still_being_bound_is_sent_back_without_deleting_it() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("waiting").uid("w"))
        stage.evictions.in_memory.add("w")
        await stage.carry_out()
        assert stage.evictions.log == ["stop w for DefaultPreemption"]
        assert stage.evictions.notes == [
            f"default/waiting for default/vip: Preempted by pod {PREEMPTOR.uid} on node n1 (in kube-scheduler memory).",
        ]

    run(scenario())


@pytest.mark.parametrize("release", [RELEASE_1_36, RELEASE_1_37])
@pytest.mark.parametrize("in_memory", ["first", "last"])
def test_a_last_victim_that_is_only_sent_back_lets_the_pod_try_at_once_in_1_37(
    release: Release, in_memory: str
) -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("first").uid("first"), make_pod("last").uid("last"), release=release)
        stage.evictions.in_memory.add(in_memory)
        await stage.carry_out()
        expected = [PREEMPTOR.uid] if in_memory == "last" and release is RELEASE_1_37 else []
        assert stage.evictions.tried_again == expected
        assert not stage.holds()

    run(scenario())


def test_a_failure_spares_the_last_victim_and_lets_the_pod_try_again() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("a"), make_pod("b"), make_pod("last"))
        stage.evictions.refuse["b"] = APIError("no", status=500)
        await stage.carry_out()
        assert "mark last" not in stage.evictions.log
        assert stage.evictions.tried_again == [PREEMPTOR.uid]
        assert stage.evictions.measured[-1] == ("ended", "error")
        assert not stage.holds()

    run(scenario())


def test_a_failure_of_the_last_victim_lets_the_pod_try_again_too() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("old"))
        stage.evictions.refuse["old"] = APIError("no", status=403)
        await stage.carry_out()
        assert stage.evictions.tried_again == [PREEMPTOR.uid]
        assert stage.evictions.notes == []

    run(scenario())


def test_a_bug_does_not_leave_the_pod_waiting() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("old"))
        stage.evictions.refuse["old"] = ZeroDivisionError()
        await stage.carry_out()
        assert stage.evictions.tried_again == [PREEMPTOR.uid]
        assert not stage.holds()

    run(scenario())


def test_a_last_victim_that_was_gone_already_wakes_the_pod_for_its_deletion_was_seen_in_vain() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("a"), make_pod("last"))
        stage.evictions.gone.add("default/last")
        await stage.carry_out()
        assert stage.evictions.tried_again == [PREEMPTOR.uid]
        assert stage.evictions.measured[-1] == ("ended", "success")
        assert [note.split()[0] for note in stage.evictions.notes] == ["default/a"]

    run(scenario())


def test_cancelling_sets_the_pod_free() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("old"))
        stage.evictions.hold = asyncio.Event()
        stage.start()
        work = asyncio.ensure_future(stage.evictions.run())
        await asyncio.sleep(1)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        assert not stage.holds()

    run(scenario())


def test_nominations_of_lower_priority_to_the_node_are_cleared_first() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("old"))
        for name, priority, node_name in (("low", 1, "n1"), ("equal", 1000, "n1"), ("away", 1, "n2")):
            stage.bench.nominations.nominate(PodInfo(make_pod(name).priority(priority).obj()), node_name)
        await stage.carry_out()
        assert stage.evictions.log == ["clear low", "mark old", "delete old", "deleted old"]

    run(scenario())


def test_a_nomination_that_cannot_be_cleared_stops_nothing_but_counts_as_a_failure() -> None:
    async def scenario() -> None:
        stage = Stage(make_pod("old"))
        stage.bench.nominations.nominate(PodInfo(make_pod("low").priority(1).obj()), "n1")
        stage.evictions.refuse["low"] = APIError("no", status=500)
        await stage.carry_out()
        assert stage.evictions.log[-1] == "deleted old"
        assert stage.evictions.measured[-1] == ("ended", "error")
        assert stage.evictions.tried_again == [PREEMPTOR.uid]

    run(scenario())


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (make_pod("p").terminating().condition("DisruptionTarget", "True", "PreemptionByScheduler"), True),
        (make_pod("p").condition("DisruptionTarget", "True", "PreemptionByScheduler"), False),
        (make_pod("p").terminating(), False),
        (make_pod("p").terminating().condition("DisruptionTarget", "True", "EvictionByEvictionAPI"), False),
        (make_pod("p").terminating().condition("DisruptionTarget", "False", "PreemptionByScheduler"), False),
    ],
)
def test_a_pod_ends_for_preemption_if_it_is_ending_and_its_condition_says_so(pod: PodBuilder, expected: bool) -> None:
    assert is_ending_for_preemption(pod.obj()) is expected
