"""Whom it would hit on one node, with a profile that fits by resources."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import Candidate
from kscheduler.framework.plugins.defaultpreemption.dry_run import NO_VICTIMS, WhatIfDryRun
from kscheduler.framework.status import Code, Status, unschedulable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_pod
from tests.framework.plugins.defaultpreemption.fakes import NOW, Bench, budget
from tests.support.checks import check_cache

FOO = {"app": "foo"}


def critical(**requests: str) -> PodBuilder:
    return make_pod("critical").priority(1000).req(**requests)


def answer(bench: Bench, pod: PodBuilder, node_name: str = "n1") -> Candidate | Status:
    info, state = PodInfo(pod.obj()), CycleState()
    bench.framework.schedule_pod(state, info)
    node = bench.cache.table.get(node_name)
    assert node is not None
    return WhatIfDryRun(bench.handle).try_node(state, info, node, NOW)


def test_without_pods_of_lower_priority_there_is_nobody_to_hit() -> None:
    bench = Bench()
    bench.nodes("n1")
    bench.place(make_pod("equal").priority(1000).req(cpu="4"), "n1")
    assert answer(bench, critical(cpu="1")) is NO_VICTIMS
    assert (NO_VICTIMS.code, NO_VICTIMS.message) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        "No preemption victims found for incoming pod",
    )


def test_a_node_that_does_not_help_even_when_all_are_gone_says_why() -> None:
    bench = Bench()
    bench.nodes("n1")
    bench.place(make_pod("stays").priority(2000).req(cpu="2"), "n1")
    bench.place(make_pod("goes").priority(1).req(cpu="2"), "n1")
    found = answer(bench, critical(cpu="3"))
    assert isinstance(found, Status)
    assert (found.code, found.message, found.plugin) == (Code.UNSCHEDULABLE, "Insufficient cpu", "NodeResourcesFit")


def test_as_many_pods_as_possible_stay_the_most_important_first() -> None:
    bench = Bench()
    bench.nodes("n1")
    bench.place(make_pod("low").priority(1).req(cpu="1"), "n1")
    bench.place(make_pod("young").priority(5).req(cpu="1").started("2024-01-02T00:00:00Z"), "n1")
    bench.place(make_pod("old").priority(5).req(cpu="1").started("2024-01-01T00:00:00Z"), "n1")
    bench.place(make_pod("high").priority(9).req(cpu="1"), "n1")
    assert bench.victims(critical(cpu="1"), "n1") == (["low"], 0)
    assert bench.victims(critical(cpu="2"), "n1") == (["young", "low"], 0)
    assert bench.victims(critical(cpu="3"), "n1") == (["old", "young", "low"], 0)


def test_a_pod_is_not_spared_for_its_importance_if_that_leaves_too_little() -> None:
    """A large pod has to go though a small one of lower priority stays."""
    bench = Bench()
    bench.nodes("n1")
    bench.place(make_pod("large").priority(9).req(cpu="3"), "n1")
    bench.place(make_pod("small").priority(1).req(cpu="1"), "n1")
    assert bench.victims(critical(cpu="3"), "n1") == (["large"], 0)


def test_pods_under_a_budget_come_back_before_others() -> None:
    bench = Bench()
    bench.nodes("n1")
    bench.budgets.set(budget("foo", 0, FOO))
    bench.place(make_pod("guarded").label(app="foo").priority(1).req(cpu="2"), "n1")
    bench.place(make_pod("free").priority(5).req(cpu="2"), "n1")
    assert bench.victims(critical(cpu="2"), "n1") == (["free"], 0)
    # Where that is not enough, the budget is violated, and counted.
    assert bench.victims(critical(cpu="3"), "n1") == (["free", "guarded"], 1)


def test_victims_are_ordered_by_importance_whatever_group_they_are_of() -> None:
    bench = Bench()
    bench.nodes("n1")
    bench.budgets.set(budget("foo", 1, FOO))
    for name, priority in (("p1", 3), ("p2", 2), ("p3", 1)):
        bench.place(make_pod(name).label(app="foo").priority(priority).req(cpu="1"), "n1")
    assert bench.victims(critical(cpu="4"), "n1") == (["p1", "p2", "p3"], 2)


def test_the_node_keeps_its_pods() -> None:
    bench = Bench()
    bench.nodes("n1")
    bench.place(make_pod("old").priority(1).req(cpu="4"), "n1")
    bench.victims(critical(cpu="4"), "n1")
    node = bench.cache.table.get("n1")
    assert node is not None
    assert [pod.key for pod in node.pods.values()] == ["default/old"]
    check_cache(bench.cache)


def test_room_promised_to_a_pod_of_higher_priority_is_not_taken() -> None:
    bench = Bench()
    bench.nodes("n1")
    bench.place(make_pod("old").priority(1).req(cpu="4"), "n1")
    bench.nominations.nominate(PodInfo(make_pod("vip").priority(5000).req(cpu="3").obj()), "n1")
    assert bench.victims(critical(cpu="1"), "n1") == (["old"], 0)
    found = answer(bench, critical(cpu="2"))
    assert isinstance(found, Status)
    assert found.reasons == ("Insufficient cpu",)


class Fragile:
    """A plugin that cannot follow one pod leaving a node."""

    name = "Fragile"

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[None, None]:
        return None, None

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: object) -> Status | None:
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: object) -> Status | None:
        raise RuntimeError(f"cannot do without {other.key}")

    def filter(self, state: CycleState, pod: PodInfo, node: object) -> Status | None:
        return unschedulable("never")


def test_a_plugin_that_cannot_follow_is_a_fault_of_that_node() -> None:
    bench = Bench(filters=(Fragile(),))
    bench.nodes("n1")
    bench.place(make_pod("old").priority(1).req(cpu="4"), "n1")
    found = answer(bench, critical(cpu="4"))
    assert isinstance(found, Status)
    assert found.code is Code.ERROR
    assert "cannot do without default/old" in found.message


pods_drawn = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.booleans()), min_size=1, max_size=6)


@given(pods_drawn, st.integers(1, 8), st.integers(0, 2))
def test_victims_are_enough_and_none_could_stay_alone(
    drawn: list[tuple[int, int, bool]], asked: int, allowed: int
) -> None:
    bench = Bench()
    bench.nodes("n1", cpu="8")
    bench.budgets.set(budget("foo", allowed, FOO))
    used, movable = 0, {}
    for index, (cpu, priority, is_guarded) in enumerate(drawn):
        pod = make_pod(f"p{index}").priority(priority * 500).req(cpu=str(cpu))
        bench.place(pod.label(app="foo") if is_guarded else pod, "n1")
        used += cpu
        if priority * 500 < 1000:
            movable[f"p{index}"] = cpu
    found = answer(bench, critical(cpu=str(asked)))
    if isinstance(found, Candidate):
        hit = {victim.pod.metadata.name for victim in found.victims}
        assert hit <= movable.keys()
        left = used - sum(movable[name] for name in hit)
        assert left + asked <= 8
        assert all(left + movable[name] + asked > 8 for name in hit)
        assert found.violations <= max(0, sum(drawn[int(name[1:])][2] for name in movable) - allowed)
    elif found.code is Code.ERROR:
        assert used + asked <= 8  # it fits without any of this
    else:
        assert not movable or used - sum(movable.values()) + asked > 8
