"""Gangs that find no room: they evict for their whole minimum or nobody, and others in units."""

from __future__ import annotations

import functools
import random

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import Pod
from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.client.kinds import PODS
from kscheduler.client.pod_group_kinds import COSCHEDULING_POD_GROUPS as GROUPS
from kscheduler.config.load import parse_config
from kscheduler.gangs.gang_queue import Outcome
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.testing.wrappers import PodBuilder
from tests.scenarios.evicted import bound, budget, fill, left, low
from tests.scenarios.gangs import BY_LABEL, gang
from tests.scenarios.quotas import CONFIG
from tests.support.world import World, in_virtual_time

HIGH = 1000


def members(name: str, count: int, cpu: int = 2, priority: int = HIGH) -> list[PodBuilder]:
    return [low(f"{name}-{i}", cpu, priority).label(POD_GROUP_LABEL, name) for i in range(count)]


def add_gang(world: World, name: str, count: int, least: int | None = None, **fields: int) -> None:
    world.cluster.create_object(gang(name, count if least is None else least))
    for pod in members(name, count, **fields):
        world.add_pod(pod)


async def add_full_nodes(world: World, count: int, *, grace_s: int = 0, longer_s: int = 0) -> None:
    """Nodes with two pods of low priority each: low-0 takes `grace_s` to end, and every other `longer_s` more."""
    if grace_s:
        world.run_kubelets()
    world.add_nodes(count)
    await fill(world, *(low(f"low-{i}").grace_period(grace_s + longer_s * i) for i in range(2 * count)))


@in_virtual_time
async def test_a_gang_evicts_as_many_pods_as_it_needs_and_takes_their_place() -> None:
    async with World(config=BY_LABEL) as world:
        await add_full_nodes(world, 4)
        add_gang(world, "train", 3)
        await world.until(world.all_bound)
        assert len(bound(world, "train")) == 3
        assert len(left(world, "low")) == 5


@in_virtual_time
async def test_a_gang_that_would_not_fit_even_then_evicts_nobody() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        await fill(world, *(low(f"low-{i}") for i in range(3)), low("high", priority=HIGH))
        add_gang(world, "train", 4)
        await world.sleep(60)
        assert len(left(world, "low")) == 3
        condition = world.condition("train-0")
        assert condition is not None
        assert condition.message.endswith(
            "preemption: even without all pods of lower priority there would be too little room."
        )


@in_virtual_time
async def test_nobody_of_equal_or_higher_priority_is_evicted() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        await fill(world, *(low(f"equal-{i}", priority=HIGH) for i in range(3)), low("higher", priority=HIGH + 1))
        add_gang(world, "train", 1)
        await world.sleep(60)
        assert len(left(world, "equal") + left(world, "higher")) == 4
        assert not bound(world, "train")


@in_virtual_time
async def test_the_least_important_pods_are_evicted() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(4)
        await fill(world, *(low(f"p{i}", priority=i) for i in range(8)))
        add_gang(world, "train", 3)
        await world.until(world.all_bound)
        assert left(world, "p") == ["p3", "p4", "p5", "p6", "p7"]


@in_virtual_time
async def test_while_victims_end_their_room_is_kept_from_pods_of_lower_priority() -> None:
    async with World(config=BY_LABEL) as world:
        await add_full_nodes(world, 2, grace_s=10, longer_s=10)
        add_gang(world, "train", 4)
        await world.until(lambda: not left(world, "low"))
        await world.until(lambda: all(world.pod(name).status.nominated_node_name for name in left(world, "train")))
        nominated = {name: world.pod(name).status.nominated_node_name for name in left(world, "train")}
        world.add_pod(low("late", priority=10))
        world.add_pod(low("equal", cpu=1, priority=HIGH))
        await world.until(lambda: len(bound(world, "train")) == 4)
        assert bound(world, "train") == nominated
        assert not bound(world, "late")
        assert not bound(world, "equal")


@pytest.mark.parametrize("lacks", ["its PodGroup", "a pod"])
def test_a_gang_that_cannot_be_tried_any_more_gives_up_the_room_that_was_made_for_it(lacks: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World(config=BY_LABEL) as world:
            await add_full_nodes(world, 2, grace_s=20)
            add_gang(world, "train", 4)
            await world.until(lambda: not left(world, "low"))
            if lacks == "a pod":
                world.cluster.delete_pod("default/train-0")
            else:
                world.cluster.delete_object(GROUPS, "default/train")
            await world.until(lambda: not bound(world, "low"))
            for number in range(4):
                world.add_pod(low(f"late-{number}", priority=10))
            await world.until(lambda: len(bound(world, "late")) == 4)
            assert not any(world.pod(name).status.nominated_node_name for name in left(world, "train"))
            assert not world.scheduler.nominations.by_pod

    scenario()


@in_virtual_time
async def test_a_gang_of_which_a_pod_is_replaced_at_once_keeps_the_room_that_was_made_for_it() -> None:
    async with World(config=BY_LABEL) as world:
        await add_full_nodes(world, 2, grace_s=20)
        add_gang(world, "train", 4)
        await world.until(lambda: not left(world, "low"))
        world.cluster.delete_pod("default/train-0")
        world.add_pod(low("late", priority=10))
        await world.sleep(2)
        world.add_pod(low("train-4", priority=HIGH).label(POD_GROUP_LABEL, "train"))
        await world.until(lambda: len(bound(world, "train")) == 4)
        assert not bound(world, "late")


@in_virtual_time
async def test_pods_of_a_gang_that_are_less_important_than_others_of_it_keep_their_room_as_well() -> None:
    async with World(config=BY_LABEL, latency=Latency(write_s=0.05)) as world:
        await add_full_nodes(world, 4, grace_s=20)
        world.cluster.create_object(gang("train", 8))
        for number in range(8):
            priority = HIGH if number < 4 else HIGH // 2
            world.add_pod(low(f"train-{number}", priority=priority).label(POD_GROUP_LABEL, "train"))
        await world.until(lambda: not left(world, "low"))
        await world.sleep(5)
        assert [name for name in left(world, "train") if not world.pod(name).status.nominated_node_name] == []
        world.add_pod(low("late", priority=10))
        await world.until(lambda: len(bound(world, "train")) == 8)
        assert not bound(world, "late")


def attempts(world: World) -> float:
    """How many attempts of gangs of Coscheduling there were."""
    counted = world.metrics.gang_attempts_total
    return float(sum(counted.labels("scheduling.x-k8s.io", each.value).value for each in Outcome))


@in_virtual_time
async def test_a_gang_is_tried_once_more_when_all_its_victims_are_gone_and_not_for_each_of_them() -> None:
    async with World(config=BY_LABEL) as world:
        await add_full_nodes(world, 4, grace_s=10, longer_s=10)
        add_gang(world, "train", 8)
        await world.until(lambda: len(bound(world, "train")) == 8, within_s=120)
        assert attempts(world) == 2


@in_virtual_time
async def test_pods_above_the_minimum_evict_together_and_at_once_after_the_minimum_was_placed() -> None:
    async with World(config=BY_LABEL) as world:
        await add_full_nodes(world, 8)
        add_gang(world, "train", 16, least=4)
        await world.until(lambda: len(bound(world, "train")) == 16, within_s=15)
        assert not left(world, "low")
        assert attempts(world) <= 6, "for the minimum, and for the others, one that evicts and few that place"


def has_more_than(world: World, number: int) -> bool:
    return len(bound(world, "train")) > number


@in_virtual_time
async def test_pods_above_the_minimum_start_as_soon_as_their_own_room_is_free() -> None:
    async with World(config=BY_LABEL) as world:
        world.run_kubelets()
        world.add_nodes(3)
        ends_after = (20, 30, 90)
        await fill(world, *(low(f"low-{i}", cpu=4, priority=i).grace_period(ends_after[i]) for i in range(3)))
        add_gang(world, "train", 3, least=1, cpu=4)
        # The minimum comes first; then both others preempt together, and one of them has to wait for longer.
        for number, seconds in enumerate(ends_after):
            await world.until(functools.partial(has_more_than, world, number), within_s=seconds + 5)
            assert len(bound(world, "low")) == 2 - number
            world.add_pod(low(f"late-{number}", priority=10))
        await world.sleep(10)
        assert not bound(world, "late"), "the room is kept from pods of lower priority until the last one has come"


@in_virtual_time
async def test_pods_above_the_minimum_that_find_no_victims_wait_for_events() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        await fill(world, low("low"), low("high", cpu=4, priority=HIGH))
        add_gang(world, "train", 4, least=1)
        await world.until(lambda: len(bound(world, "train")) == 2)
        tried = attempts(world)
        await world.sleep(120)
        assert len(bound(world, "train")) == 2
        assert attempts(world) - tried <= 1, "one that finds nobody to evict"
        world.add_node("new", cpu="2")
        await world.until(lambda: len(bound(world, "train")) == 3, within_s=15)


@in_virtual_time
async def test_a_victim_that_does_not_end_keeps_a_gang_neither_from_new_nodes_nor_for_ever_from_other_room() -> None:
    for helps_by_node in (True, False):
        async with World(config=BY_LABEL) as world:
            world.add_nodes(1)
            await fill(world, low("stuck", cpu=4).grace_period(20))
            world.add_node("other")
            await fill(world, low("works", cpu=4, priority=HIGH).grace_period(0))
            add_gang(world, "train", 2)
            await world.until(lambda: not left(world, "stuck"))
            await world.sleep(5 if helps_by_node else 60)
            if helps_by_node:
                world.add_node("new")
            else:
                world.cluster.delete_pod("default/works")
            await world.until(lambda: len(bound(world, "train")) == 2, within_s=15)


@in_virtual_time
async def test_a_gang_that_waits_for_its_victims_evicts_nobody_else() -> None:
    async with World(config=BY_LABEL) as world:
        await add_full_nodes(world, 4, grace_s=60)
        add_gang(world, "train", 2)
        await world.until(lambda: len(left(world, "low")) == 6)
        for name in ("train-0", "train-1"):
            world.change_pod(name, lambda pod: replace(pod, metadata=replace(pod.metadata, annotations={"a": "b"})))
        world.add_node("tiny", cpu="1")
        await world.sleep(30)
        assert len(left(world, "low")) == 6
        await world.until(lambda: len(bound(world, "train")) == 2)


@in_virtual_time
async def test_a_gang_loses_its_surplus_and_keeps_its_minimum() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        add_gang(world, "batch", 4, 2, priority=1)
        await world.until(world.all_bound)
        add_gang(world, "train", 2)
        await world.until(lambda: len(bound(world, "train")) == 2)
        assert len(left(world, "batch")) == 2


@in_virtual_time
async def test_a_gang_goes_whole_rather_than_below_its_minimum() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        add_gang(world, "batch", 4, 3, priority=1)
        await world.until(world.all_bound)
        add_gang(world, "train", 2)
        await world.until(lambda: len(bound(world, "train")) == 2)
        await world.sleep(10)
        assert not left(world, "batch")


@in_virtual_time
async def test_pods_of_no_gang_are_evicted_rather_than_a_whole_gang() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        world.cluster.create_object(gang("batch", 2))
        await fill(world, *members("batch", 2, priority=1), low("one"), low("two"))
        add_gang(world, "train", 2)
        await world.until(world.all_bound)
        assert left(world, "batch") == ["batch-0", "batch-1"]


@in_virtual_time
async def test_pods_that_a_budget_protects_are_spared_if_others_suffice() -> None:
    async with World(config=BY_LABEL) as world:
        world.cluster.create_object(budget("guarded", 0))
        world.add_nodes(4)
        guarded = [low(f"guarded-{i}").label("app", "guarded") for i in range(4)]
        await fill(world, *guarded, *(low(f"other-{i}", priority=5) for i in range(4)))
        add_gang(world, "train", 3)
        await world.until(world.all_bound)
        assert len(left(world, "guarded")) == 4
        assert len(left(world, "other")) == 1


@in_virtual_time
async def test_a_budget_does_not_keep_a_gang_out_for_ever() -> None:
    async with World(config=BY_LABEL) as world:
        world.cluster.create_object(budget("guarded", 1))
        world.add_nodes(2)
        await fill(world, *(low(f"guarded-{i}").label("app", "guarded") for i in range(4)))
        add_gang(world, "train", 2)
        await world.until(world.all_bound)
        assert len(left(world, "guarded")) == 2


@in_virtual_time
async def test_a_gang_that_never_preempts_waits() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(1)
        await fill(world, low("a"), low("b"))
        world.cluster.create_object(gang("train", 2))
        for pod in members("train", 2):
            world.add_pod(pod.preemption_policy("Never"))
        await world.sleep(30)
        assert left(world, "a") + left(world, "b") == ["a", "b"]
        condition = world.condition("train-0")
        assert condition is not None
        assert condition.message.endswith("preemption: not eligible due to preemptionPolicy=Never.")


@in_virtual_time
async def test_events_of_victims_name_the_gang_for_which_they_leave() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(1)
        await fill(world, low("a", cpu=4))
        world.cluster.create_object(gang("train", 2))
        for pod in members("train", 2):
            world.add_pod(pod)
        await world.until(world.all_bound)
        (event,) = world.events("a", "Preempted")
        assert event.related is not None
        assert (event.related.kind, event.related.name) == ("PodGroup", "train")
        assert event.note == f"Preempted by podgroup {event.related.uid} on node cluster"


@pytest.mark.parametrize("verb", [Verb.DELETE_POD, Verb.PATCH_STATUS])
def test_evictions_that_the_apiserver_refuses_are_tried_again(verb: Verb) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World(config=BY_LABEL) as world:
            await add_full_nodes(world, 2)
            world.faults.add(FaultKind.SERVER_ERROR, verb, count=6)
            add_gang(world, "train", 4)
            await world.until(lambda: len(bound(world, "train")) == 4)

    scenario()


@in_virtual_time
async def test_a_gang_of_quotas_evicts_nobody_by_priority_alone() -> None:
    config = parse_config(CONFIG.rstrip() + "\n    permit: {enabled: [{name: Coscheduling}]}\n")
    async with World(config=config) as world:
        world.add_nodes(1)
        await fill(world, low("low", cpu=4))
        add_gang(world, "train", 1)
        await world.sleep(30)
        assert left(world, "low") == ["low"]


class Evicted:
    """Notes what is evicted for whom: (pod, its priority, the gang)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._priorities: dict[str, int] = {}
        world.cluster.store(PODS).subscribe(self._changed)

    def _changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None
        self._priorities[pod.metadata.name] = pod.spec.priority or 0

    def by(self, name: str) -> list[int]:
        """The priorities of the pods that were evicted for a gang."""
        return [
            self._priorities[event.regarding.name]
            for event in self._world.cluster.events
            if event.reason == "Preempted" and event.related is not None and event.related.name == name
        ]


@pytest.mark.parametrize("seed", range(10))
def test_random_gangs_evict_only_for_a_whole_minimum_and_leave_no_gang_broken(seed: int) -> None:
    rng = random.Random(seed)

    @in_virtual_time
    async def scenario() -> None:
        async with World(config=BY_LABEL, seed=seed) as world:
            evicted, names = Evicted(world), ["a", "b", "c", "d"]
            world.run_kubelets()
            world.add_nodes(6, cpu="8")
            world.cluster.create_object(budget("guarded", 1))
            for name in names:
                count = rng.randint(2, 5)
                add_gang(world, name, count, rng.randint(1, count), cpu=rng.randint(1, 3), priority=rng.randint(1, 5))
            for i in range(10):
                single = low(f"single-{i}", rng.randint(1, 3), rng.randint(0, 6)).grace_period(rng.randint(0, 20))
                world.add_pod(single.label("app", "guarded") if i % 3 == 0 else single)
            await world.sleep(60)
            for name in ("v", "w"):
                count, priority = rng.randint(2, 6), rng.randint(3, 9)
                least = rng.randint(1, count)
                others = max((pod.spec.priority or 0 for pod in world.pending()), default=0)  # may take the room
                add_gang(world, name, count, least, cpu=rng.randint(1, 4), priority=priority)
                await world.sleep(120)
                if evicted.by(name):
                    assert max(evicted.by(name)) < priority
                    assert len(bound(world, f"{name}-")) >= least or others > priority
                for other in (*names, name):
                    needed = world.cluster.store(GROUPS).objects[f"default/{other}"].spec.min_member
                    placed = len(bound(world, f"{other}-"))
                    assert placed == 0 or placed >= needed, f"{other}: {placed} of {needed}"
                names.append(name)

    scenario()


@in_virtual_time
async def test_a_single_pod_leaves_a_gang_its_minimum_or_takes_it_whole() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        add_gang(world, "batch", 4, least=3, priority=1)
        await world.until(world.all_bound)
        world.add_pod(low("urgent-0", priority=HIGH))
        await world.until(lambda: bool(bound(world, "urgent-0")))
        assert len(bound(world, "batch")) == 3
        world.add_pod(low("urgent-1", priority=HIGH))
        await world.until(lambda: bool(bound(world, "urgent-1")))
        await world.sleep(1)
        assert not bound(world, "batch"), "with two it could not run"
