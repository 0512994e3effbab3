"""PodGroups of 1.37 that find no room: kube-scheduler's workload-aware preemption, with its texts."""

from __future__ import annotations

from kscheduler.api.pod_groups import DisruptionMode, Empty, PodGroup
from kscheduler.client.pod_group_kinds import pod_groups
from kscheduler.config.load import default_config
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.testing.wrappers import PodBuilder, make_pod
from tests.scenarios.evicted import bound, budget, fill, left, low
from tests.scenarios.gangs import by_field, group
from tests.support.world import World, in_virtual_time

HIGH = 1000
CONFIG = by_field(RELEASE_1_37)
ALL = DisruptionMode(all=Empty())


def members(name: str, count: int, cpu: int = 2, priority: int = HIGH) -> list[PodBuilder]:
    return [low(f"{name}-{i}", cpu, priority).scheduling_group(name) for i in range(count)]


def add_group(
    world: World, name: str, count: int, least: int | None = None, priority: int = HIGH, **spec: object
) -> None:
    world.cluster.create_object(group(name, count if least is None else least, priority=priority, **spec))
    for pod in members(name, count, priority=priority):
        world.add_pod(pod)


def condition_of(world: World, name: str) -> str:
    found: PodGroup = world.cluster.store(pod_groups(world.scheduler.release)).objects[f"default/{name}"]
    return next((condition.message for condition in found.status.conditions or ()), "")


def says(world: World, name: str) -> str:
    condition = world.condition(name)
    return "" if condition is None else condition.message or ""


@in_virtual_time
async def test_a_group_evicts_for_all_its_pods_and_takes_their_place() -> None:
    async with World(config=CONFIG) as world:
        world.run_kubelets()
        world.add_nodes(2)
        await fill(world, *(low(f"low-{i}", priority=i).grace_period(20) for i in range(4)))
        add_group(world, "train", 3)
        await world.until(lambda: len(left(world, "low")) == 1, within_s=5)
        assert left(world, "low") == ["low-3"]
        await world.until(lambda: bool(condition_of(world, "train")))
        found = "pod group preemption: found a placement for podgroup, preempting 3 victims"
        out_of_reach = "minCount (3) cannot be satisfied: 0 scheduled, 2 remaining"
        assert condition_of(world, "train") == f"{out_of_reach}, {found}"
        await world.until(lambda: all(world.pod(f"train-{i}").status.nominated_node_name for i in range(3)))
        nominated = {f"train-{i}": world.pod(f"train-{i}").status.nominated_node_name for i in range(3)}
        await world.until(lambda: len(bound(world, "train")) == 3)
        assert bound(world, "train") == nominated
        assert left(world, "low") == ["low-3"]
        metrics = world.metrics
        assert metrics.workload_preemption_victims.labels().sum == 3
        assert metrics.workload_preemption_attempts_total.labels("Success").value >= 1
        assert metrics.preemption_workload_disruptions.labels("podgroup").count == 0, "no victim is of a group"
        assert metrics.podgroup_scheduling_attempt_duration_seconds.labels("scheduled", "default-scheduler").count == 1
        assert metrics.podgroup_scheduling_algorithm_duration_seconds.labels().count >= 2
        assert metrics.preemption_victims.sum == 0, "those are of single pods"
        for result, least in (("scheduled", 1), ("waiting_on_preemption", 1)):
            assert metrics.podgroup_schedule_attempts_total.labels(result, "default-scheduler").value >= least


def evaluated(world: World, kind: str, result: str) -> int:
    """How often somebody of a kind has looked for victims with this result."""
    return world.metrics.preemption_evaluation_duration_seconds.labels(kind, result).count


def executed(world: World, kind: str) -> int:
    """For how many of a kind the evictions have succeeded."""
    return world.metrics.preemption_execution_duration_seconds.labels(kind, "success").count


@in_virtual_time
async def test_metrics_distinguish_what_preempts_and_count_budgets_that_are_violated() -> None:
    async with World(config=CONFIG) as world:
        world.run_kubelets()
        world.add_nodes(1)
        world.cluster.create_object(budget("web", 0))
        await fill(world, *(low(f"low-{i}").label("app", "web") for i in range(2)))
        add_group(world, "train", 2)
        await world.until(lambda: len(bound(world, "train")) == 2)
        violations = world.metrics.preemption_pdb_violations_total
        assert violations.labels("podgroup").value == 2
        assert (evaluated(world, "podgroup", "Success"), executed(world, "podgroup")) == (1, 1)
        world.add_pod(low("higher", priority=HIGH + 1).label("app", "web"))
        await world.until(lambda: bool(bound(world, "higher")))
        assert (evaluated(world, "pod", "Success"), executed(world, "pod")) == (1, 1)
        assert violations.labels("pod").value == 0, "no budget is for the victim"
        add_group(world, "vain", 3, priority=HIGH + 2)
        await world.until(lambda: evaluated(world, "podgroup", "Unschedulable") > 0)
        add_group(world, "late", 2, priority=0)
        none = "UnschedulableAndUnresolvable"
        await world.until(lambda: evaluated(world, "podgroup", none) > 0)
        world.add_pod(low("lowest", priority=-1))
        await world.until(lambda: evaluated(world, "pod", "Unschedulable") > 0)


@in_virtual_time
async def test_without_groups_nobody_measures_who_preempts() -> None:
    for release in (RELEASE_1_36, RELEASE_1_37):
        async with World(config=default_config(release)) as world:
            world.run_kubelets()
            world.add_nodes(1)
            await fill(world, *(low(f"low-{i}") for i in range(2)))
            world.add_pod(low("high", priority=HIGH))
            await world.until(lambda: bool(bound(world, "high")))
            assert not any(b"scheduler_preemption_ex" in line for line in world.metrics.exposition().splitlines())


def waits_on_preemption(world: World) -> float:
    """How many attempts of groups ended with that result."""
    counted = world.metrics.podgroup_schedule_attempts_total
    return float(counted.labels("waiting_on_preemption", "default-scheduler").value)


@in_virtual_time
async def test_a_group_is_gated_from_its_evictions_on_until_a_victim_is_gone_and_only_then_tried_in_vain() -> None:
    """As a real kube-scheduler 1.37.2, asked for its metrics while victims ended one after the other."""
    async with World(config=CONFIG) as world:
        world.run_kubelets()
        world.add_nodes(2)
        await fill(world, *(low(f"low-{i}", priority=i).grace_period(60 + 30 * i) for i in range(4)))
        add_group(world, "train", 3)
        await world.until(lambda: len(left(world, "low")) == 1)
        for _ in range(5):
            await world.sleep(10)
            assert waits_on_preemption(world) == 1
            assert world.scheduler.queue.counts().gated == 3
        await world.sleep(30)
        assert waits_on_preemption(world) > 1
        assert "ongoing preemption on nominated nodes" in condition_of(world, "train")
        await world.until(lambda: len(bound(world, "train")) == 3)


@in_virtual_time
async def test_a_group_whose_evictions_fail_is_tried_again() -> None:
    async with World(config=CONFIG) as world:
        world.add_nodes(1)
        await fill(world, low("low", cpu=4))
        world.faults.add(FaultKind.SERVER_ERROR, Verb.DELETE_POD, count=3)
        add_group(world, "train", 2)
        await world.until(lambda: len(bound(world, "train")) == 2)


@in_virtual_time
async def test_pods_that_had_a_node_say_that_their_group_waits_for_evictions() -> None:
    async with World(config=CONFIG) as world:
        world.run_kubelets()
        world.add_nodes(1)
        await fill(world, low("low").grace_period(30))
        add_group(world, "train", 2)
        await world.until(lambda: bool(says(world, "train-0")))
        assert says(world, "train-0") == (
            "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, "
            "pod group preemption: found a placement for podgroup, preempting 1 victims"
        )
        assert says(world, "train-1") == "0/1 nodes are available: 1 Insufficient cpu."
        await world.until(world.all_bound)


@in_virtual_time
async def test_a_group_that_would_not_fit_even_then_evicts_nobody() -> None:
    async with World(config=CONFIG) as world:
        world.add_nodes(1)
        await fill(world, low("low"))
        add_group(world, "train", 3)
        await world.until(lambda: bool(condition_of(world, "train")))
        assert condition_of(world, "train") == (
            "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining, "
            "deallocation and deletion of ResourceClaims completed, "
            "pod group preemption: minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
        )
        await world.sleep(30)
        assert left(world, "low") == ["low"]


@in_virtual_time
async def test_a_group_that_is_disrupted_as_one_leaves_whole() -> None:
    async with World(config=CONFIG) as world:
        world.add_nodes(2)
        add_group(world, "batch", 4, 1, priority=1, disruption_mode=ALL)
        await world.until(world.all_bound)
        add_group(world, "train", 1)
        await world.until(lambda: len(bound(world, "train")) == 1)
        assert not left(world, "batch")
        evicted = world.metrics.preemption_workload_disruptions.labels("podgroup")
        assert (evicted.count, evicted.sum) == (1, 1), "four pods, one group"


@in_virtual_time
async def test_pods_of_other_groups_leave_one_by_one() -> None:
    async with World(config=CONFIG) as world:
        world.add_nodes(2)
        add_group(world, "batch", 4, priority=1)
        await world.until(world.all_bound)
        add_group(world, "train", 1)
        await world.until(lambda: len(bound(world, "train")) == 1)
        assert len(left(world, "batch")) == 3


@in_virtual_time
async def test_single_pods_leave_rather_than_those_of_groups_of_their_priority() -> None:
    async with World(config=CONFIG) as world:
        world.add_nodes(1)
        world.cluster.create_object(group("batch", 1, priority=1))
        await fill(world, *members("batch", 1, priority=1), low("single"))
        add_group(world, "train", 1)
        await world.until(lambda: len(bound(world, "train")) == 1)
        assert left(world, "batch") == ["batch-0"]


@in_virtual_time
async def test_the_priority_of_a_group_protects_its_pods() -> None:
    async with World(config=CONFIG) as world:
        world.add_nodes(1)
        await fill(world, low("a", priority=HIGH), low("b", priority=HIGH + 1))
        add_group(world, "train", 1)
        await world.sleep(30)
        assert left(world, "a") + left(world, "b") == ["a", "b"]
        assert condition_of(world, "train").endswith(
            "pod group preemption: No preemption victims found for incoming preemptor"
        )


@in_virtual_time
async def test_pods_that_a_budget_protects_are_spared_first() -> None:
    async with World(config=CONFIG) as world:
        world.cluster.create_object(budget("guarded", 0))
        world.add_nodes(2)
        guarded = [low(f"guarded-{i}").label("app", "guarded") for i in range(2)]
        await fill(world, *guarded, *(low(f"other-{i}", priority=5) for i in range(2)))
        add_group(world, "train", 1)
        await world.until(lambda: len(bound(world, "train")) == 1)
        assert len(left(world, "guarded")) == 2


@in_virtual_time
async def test_a_group_that_never_preempts_says_so() -> None:
    async with World(config=CONFIG) as world:
        world.add_nodes(1)
        await fill(world, low("low", cpu=4))
        world.cluster.create_object(group("train", 1, priority=HIGH))
        world.add_pod(members("train", 1)[0].preemption_policy("Never"))
        await world.until(lambda: bool(condition_of(world, "train")))
        assert condition_of(world, "train").endswith(
            "pod group preemption: not eligible due to preemptionPolicy=Never."
        )
        assert left(world, "low") == ["low"]


@in_virtual_time
async def test_pods_of_lower_priority_leave_the_room_to_the_group() -> None:
    async with World(config=CONFIG) as world:
        world.run_kubelets()
        world.add_nodes(1)
        await fill(world, low("low", cpu=4).grace_period(30))
        add_group(world, "train", 2)
        await world.until(lambda: not left(world, "low"))
        world.add_pod(make_pod("late").req(cpu=2).priority(10).preemption_policy("Never"))
        await world.until(lambda: len(bound(world, "train")) == 2)
        assert not bound(world, "late")


@in_virtual_time
async def test_events_of_victims_name_the_group_for_which_they_leave() -> None:
    async with World(config=CONFIG) as world:
        world.run_kubelets()
        world.add_nodes(1)
        await fill(world, low("a", cpu=4).grace_period(30))
        add_group(world, "train", 2)
        await world.until(lambda: bool(world.events("a", "Preempted")))
        (event,) = world.events("a", "Preempted")
        assert event.related is not None
        assert (event.related.kind, event.related.name) == ("PodGroup", "train")
        assert event.note == f"Preempted by podgroup {event.related.uid} on node cluster"
        conditions = {each.type: each for each in world.pod("a").status.conditions or ()}
        assert conditions["DisruptionTarget"].message == (
            "default-scheduler: preempting to accommodate a higher priority podgroup"
        )
        await world.until(world.all_bound)
