"""Pods under metric policies, in a whole scheduler: where they go, and how long they wait for metrics that fail."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.scenarios.policies import BELOW_HALF, pod, source_of, world_of
from tests.support.world import World, in_virtual_time

INTERVAL_S = 10.0


BALANCE = "score: [{metric: load, goal: Minimize, range: {min: 0, max: 1}, selfLoad: {resource: cpu}}]"


def placed(world: World) -> dict[str, str]:
    return {each.metadata.name: each.spec.node_name for each in world.cluster.pods.values()}


def node_of(world: World, name: str) -> str:
    return placed(world)[name]


def reasons(world: World) -> list[str]:
    return [event.reason for event in world.cluster.events]


@in_virtual_time
async def test_pods_go_where_the_load_is_least() -> None:
    async with world_of(BALANCE, source_of(0.9, 0.1, 0.5)) as world:
        for number in range(3):
            world.add_node(f"n{number}", cpu="10")
        world.add_pod(pod("p"))
        await world.until(world.all_bound)
        assert node_of(world, "p") == "n1"


@in_virtual_time
async def test_a_burst_between_two_samples_is_spread_by_what_it_will_use() -> None:
    """Three nodes of ten cores; with their load, twelve pods of one core bring all three to the same."""
    async with world_of(BALANCE, source_of(0.5, 0.3, 0.1)) as world:
        for number in range(3):
            world.add_node(f"n{number}", cpu="10")
        for number in range(12):
            world.add_pod(pod(f"p{number}"))
        await world.until(world.all_bound)
        assert Counter(placed(world).values()) == {"n0": 2, "n1": 4, "n2": 6}


@in_virtual_time
async def test_a_source_that_dies_costs_no_pod_its_place() -> None:
    source = source_of(0.9, 0.1)
    async with world_of(BALANCE, source) as world:
        for number in range(2):
            world.add_node(f"n{number}", cpu="10")
        await world.sleep(5.0)
        source.fail()
        await world.sleep(300.0)
        for number in range(4):
            world.add_pod(pod(f"p{number}"))
        await world.until(world.all_bound)
        assert Counter(placed(world).values()) == {"n0": 2, "n1": 2}, "nothing is known of either"
        source.failure = None
        await world.sleep(120.0)
        world.add_pod(pod("last"))
        await world.until(world.all_bound)
        assert node_of(world, "last") == "n1"


@in_virtual_time
async def test_a_pod_that_awaits_metrics_is_placed_when_they_come() -> None:
    source = source_of(0.2)
    source.fail()
    policy = BELOW_HALF.replace("0.5}", "0.5, fallback: Requeue}")
    async with world_of(policy, source) as world:
        world.add_node("n0", cpu="10")
        world.add_pod(pod("p"))
        await world.sleep(60.0)
        assert not node_of(world, "p")
        source.failure = None
        await world.until(world.all_bound)


@pytest.mark.parametrize("fallback", ["Requeue", "Exclude"])
def test_a_pod_waits_for_metrics_no_longer_than_its_deadline(fallback: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source = source_of(0.2)
        source.fail()
        policy = BELOW_HALF.replace("0.5}", f"0.5, fallback: {fallback}}}") + ", decisionDeadline: 47s"
        async with world_of(policy, source) as world:
            world.add_node("n0", cpu="10")
            await world.sleep(10.0)
            world.add_pod(pod("p"))
            await world.sleep(46.0)
            assert not node_of(world, "p")
            await world.sleep(2.0)
            assert node_of(world, "p") == "n0"
            assert "MetricPolicyDeadline" in reasons(world)

    scenario()


@in_virtual_time
async def test_relaxation_steps_are_taken_in_their_time_and_nobody_is_evicted_for_a_pod_that_waits_for_one() -> None:
    steps = ", relaxation: [{after: 20s, loosen: [{metric: load, value: 0.7}]}, {after: 40s, dropAll: true}]"
    async with world_of(BELOW_HALF + steps, source_of(0.6, 0.2)) as world:
        world.add_node("n0", cpu="1")
        world.add_node("n1", cpu="1")
        world.add_pod(pod("there").priority(1))
        world.bind_elsewhere("there", "n1")
        await world.sleep(5.0)
        world.add_pod(pod("p").priority(100))
        await world.sleep(19.0)
        assert not node_of(world, "p")
        await world.sleep(3.0)
        assert node_of(world, "p") == "n0"
        assert "there" in placed(world)
        assert reasons(world).count("MetricPolicyRelaxed") == 1


@in_virtual_time
async def test_a_step_that_needs_no_waiting_is_taken_at_once() -> None:
    async with world_of(BELOW_HALF + ", relaxation: [{dropAll: true}]", source_of(0.9)) as world:
        world.add_node("n0", cpu="10")
        await world.sleep(5.0)
        world.add_pod(pod("p"))
        await world.sleep(0.2)
        assert node_of(world, "p") == "n0"


@in_virtual_time
async def test_where_no_step_would_help_preemption_goes_on() -> None:
    async with world_of(BELOW_HALF + ", relaxation: [{after: 600s, dropAll: true}]", source_of(0.2)) as world:
        world.add_node("n0", cpu="1")
        world.run_kubelets()
        world.add_pod(pod("there").priority(1))
        world.bind_elsewhere("there", "n0")
        await world.sleep(5.0)
        world.add_pod(pod("p").priority(100))
        await world.until(lambda: "there" not in placed(world))
        await world.until(world.all_bound)


PLAN_B = BELOW_HALF.replace("0.5}", "0.5, fallback: Exclude}")
OTHER = """
- schedulerName: packing
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}
"""


@pytest.mark.parametrize(
    ("plan", "expected"),
    [("{afterFailures: 3}", "n0"), ("{afterFailures: 3, action: Profile, profile: packing}", "n1")],
)
def test_plan_b_decides_while_the_source_fails(plan: str, expected: str) -> None:
    """n0 is empty, n1 is not: least allocated is the one, most allocated the other."""

    @in_virtual_time
    async def scenario() -> None:
        source = source_of(0.9, 0.9)
        async with world_of(f"{PLAN_B}, planB: {plan}", source, further=OTHER) as world:
            world.add_node("n0", cpu="10")
            world.add_node("n1", cpu="10")
            world.add_pod(pod("there"))
            world.bind_elsewhere("there", "n1")
            await world.sleep(5.0)
            world.add_pod(pod("before"))
            await world.sleep(5.0)
            assert not node_of(world, "before"), "both nodes are too busy"
            source.fail()
            await world.until(world.all_bound)
            assert node_of(world, "before") == expected
            bound = [event for event in world.cluster.events if event.reason == "Scheduled"]
            assert {event.reporting_controller for event in bound} == {"default-scheduler"}
            source.failure = None
            await world.sleep(200.0)
            world.add_pod(pod("after"))
            await world.sleep(5.0)
            assert not node_of(world, "after")

    scenario()


@in_virtual_time
async def test_a_pod_that_was_handed_over_preempts_by_the_other_profiles_plugins() -> None:
    source = source_of(0.9)
    plan = "planB: {afterFailures: 1, action: Profile, profile: packing}"
    async with world_of(f"{PLAN_B}, {plan}", source, further=OTHER) as world:
        world.run_kubelets()
        world.add_node("n0", cpu="1")
        world.add_pod(pod("there").priority(1))
        world.bind_elsewhere("there", "n0")
        source.fail()
        await world.sleep(15.0)
        world.add_pod(pod("p").priority(100))
        await world.until(lambda: "there" not in placed(world))
        await world.until(world.all_bound)
