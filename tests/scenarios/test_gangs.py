"""Gangs with the whole scheduler: placed together or not at all, whatever fails, and only where a door is open."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.pod_groups import (
    POD_GROUP_LABEL,
    PodGroup,
    PodGroupConstraints,
    TopologyConstraint,
)
from kscheduler.client.pod_group_kinds import COSCHEDULING_POD_GROUPS, pod_groups
from kscheduler.config.load import in_release
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.testing.wrappers import make_pod
from tests.scenarios.gang_world import is_binding_of
from tests.scenarios.gangs import BY_LABEL, GATES, add_members, by_field, gang, group, members, notes
from tests.support.changes import set_pod_phase
from tests.support.world import World, in_virtual_time


def placed(world: World, name: str) -> int:
    return sum(
        bool(pod.spec.node_name)
        for pod in world.cluster.pods.values()
        if (pod.metadata.labels or {}).get(POD_GROUP_LABEL) == name
    )


def add_labelled(world: World, name: str, *numbers: int) -> None:
    for number in numbers:
        world.add_pod(make_pod(f"{name}-{number}").label(POD_GROUP_LABEL, name).req(cpu=2))


@in_virtual_time
async def test_no_pod_of_a_gang_is_bound_before_the_last_one_comes() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        world.cluster.create_object(gang("train", 4))
        pods = members("train", 4)
        for pod in pods[:3]:
            world.add_pod(pod)
        await world.sleep(30)
        assert placed(world, "train") == 0
        world.add_pod(pods[3])
        await world.until(world.all_bound)
        assert notes(world, "Scheduled") == ["4 pods of gang default/train have a node, of at least 4"]


@in_virtual_time
async def test_a_gang_that_does_not_fit_holds_nothing_while_another_one_is_bound() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        for name, size in (("large", 5), ("small", 4)):
            world.cluster.create_object(gang(name, size))
            for pod in members(name, size):
                world.add_pod(pod)
        await world.until(lambda: placed(world, "small") == 4)
        assert placed(world, "large") == 0
        (note,) = notes(world, "Unschedulable")
        assert note.startswith("gang default/large needs nodes for 5 pods at once, and 4 would have one: pod large-")
        for index in range(5):
            world.add_node(f"more-{index}")
        await world.until(world.all_bound)


@in_virtual_time
async def test_pods_whose_podgroup_does_not_exist_wait_for_it() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        for pod in members("train", 2):
            world.add_pod(pod)
        await world.sleep(60)
        assert placed(world, "train") == 0
        condition = world.condition("train-0")
        assert condition is not None
        assert condition.message == (
            "gang default/train waits for its PodGroup of scheduling.x-k8s.io, which does not exist"
        )
        world.cluster.create_object(gang("train", 2))
        await world.until(world.all_bound)


@in_virtual_time
async def test_a_binding_that_is_refused_breaks_a_gang_only_until_it_is_tried_again() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        world.cluster.create_object(gang("train", 4))
        for pod in members("train", 4):
            world.add_pod(pod)
        world.faults.add(FaultKind.CONFLICT, Verb.BIND, count=1)
        await world.until(world.all_bound)


@in_virtual_time
async def test_a_gang_that_stays_broken_is_reported_once_and_mended_when_there_is_room() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        world.cluster.create_object(gang("train", 4, schedule_timeout_seconds=20))
        for pod in members("train", 4):
            world.add_pod(pod)
        await world.until(world.all_bound)
        # A pod is deleted, its room is taken, and its replacement does not fit.
        world.cluster.delete_pod("default/train-3")
        world.add_pod(make_pod("other").req(cpu=2).priority(10))
        await world.until(lambda: bool(world.node_of("other")))
        world.add_pod(make_pod("train-4").label(POD_GROUP_LABEL, "train").req(cpu=2))
        await world.sleep(15)
        assert notes(world, "Stale") == []
        await world.sleep(60)
        (note,) = notes(world, "Stale")
        assert note.startswith("only 3 pods of gang default/train have a node, of at least 4, 1 more wait, for ")
        world.add_node("n9")
        await world.until(world.all_bound)


@pytest.mark.parametrize("minimum", [None, 1, 4, 6])
def test_whatever_becomes_of_a_podgroup_while_its_gang_is_bound_each_pod_is_bound_or_waits_for_it(
    minimum: int | None,
) -> None:
    """Its object is deleted (None), or asks for fewer or more pods, before two of four bindings are answered."""

    @in_virtual_time
    async def scenario() -> None:
        async with World(config=BY_LABEL) as world:
            world.add_nodes(4)
            world.cluster.create_object(gang("train", 4))
            # One binding is carried out late. The other has no answer first, and then a refusal.
            world.faults.add(FaultKind.SLOW, Verb.BIND, count=1, delay_s=3.0, matches=is_binding_of("train-2"))
            world.faults.add(FaultKind.TIMEOUT, Verb.BIND, count=1, delay_s=3.0, matches=is_binding_of("train-3"))
            world.faults.add(FaultKind.CONFLICT, Verb.BIND, count=1, matches=is_binding_of("train-3"))
            for pod in members("train", 4):
                world.add_pod(pod)
            await world.until(lambda: placed(world, "train") == 2)
            if minimum is None:
                world.cluster.delete_object(COSCHEDULING_POD_GROUPS, "default/train")
            else:
                world.cluster.update_object(gang("train", minimum))
            world.cluster.delete_pod("default/train-0")
            await world.sleep(10)
            assert placed(world, "train") == 3, "what was decided is carried out"
            add_labelled(world, "train", 4)
            await world.sleep(10)
            world.scheduler.queue.check()
            assert placed(world, "train") == (3 if minimum in (None, 6) else 4)
            if minimum is None:
                world.cluster.create_object(gang("train", 4))
            if minimum == 6:
                add_labelled(world, "train", 5, 6)
            await world.until(world.all_bound)

    scenario()


@in_virtual_time
async def test_a_pod_that_is_replaced_joins_a_gang_of_which_others_have_succeeded() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        world.cluster.create_object(gang("train", 4))
        for pod in members("train", 4):
            world.add_pod(pod)
        await world.until(world.all_bound)
        set_pod_phase(world.cluster, "default/train-0", "Succeeded")
        set_pod_phase(world.cluster, "default/train-1", "Succeeded")
        await world.sleep(5)
        world.cluster.delete_pod("default/train-2", gracefully=True)
        world.cluster.delete_pod("default/train-2")
        world.add_pod(make_pod("train-4").label(POD_GROUP_LABEL, "train").req(cpu=2))
        await world.until(lambda: bool(world.node_of("train-4")))


@in_virtual_time
async def test_another_run_of_a_gang_begins_together_again() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        world.cluster.create_object(gang("train", 3))
        for pod in members("train", 3):
            world.add_pod(pod)
        await world.until(world.all_bound)
        for index in range(3):
            set_pod_phase(world.cluster, f"default/train-{index}", "Succeeded")
        await world.sleep(5)
        again = [make_pod(f"again-{index}").label(POD_GROUP_LABEL, "train").req(cpu=2) for index in range(3)]
        for pod in again[:2]:
            world.add_pod(pod)
        await world.sleep(30)
        assert not world.node_of("again-0")
        world.add_pod(again[2])
        await world.until(world.all_bound)


@in_virtual_time
async def test_pods_that_have_failed_do_not_count_so_that_a_gang_starts_again_together() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        world.cluster.create_object(gang("train", 3))
        for pod in members("train", 3):
            world.add_pod(pod)
        await world.until(world.all_bound)
        for index in range(3):
            set_pod_phase(world.cluster, f"default/train-{index}", "Failed")
        await world.sleep(5)
        world.add_pod(make_pod("train-4").label(POD_GROUP_LABEL, "train").req(cpu=2))
        await world.sleep(30)
        assert not world.node_of("train-4")


def condition_of(world: World, name: str) -> tuple[str, str, str] | None:
    found: PodGroup = world.cluster.store(pod_groups(world.scheduler.release)).objects[f"default/{name}"]
    for condition in found.status.conditions or ():
        return condition.type, condition.status, condition.reason
    return None


@pytest.mark.parametrize(
    ("release", "kind"), [(RELEASE_1_36, "PodGroupScheduled"), (RELEASE_1_37, "PodGroupInitiallyScheduled")]
)
def test_a_podgroup_of_kubernetes_has_a_condition_that_says_whether_it_is_scheduled(
    release: Release, kind: str
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World(config=by_field(release)) as world:
            world.add_nodes(1)
            world.cluster.create_object(group("train", 4))
            add_members(world, "train", 0, 1, 2, 3)
            await world.until(lambda: condition_of(world, "train") is not None)
            assert condition_of(world, "train") == (kind, "False", "Unschedulable")
            world.add_node("n9")
            await world.until(world.all_bound)
            await world.until(lambda: condition_of(world, "train") == (kind, "True", "Scheduled"))

    scenario()


@in_virtual_time
async def test_a_podgroup_that_asks_for_a_topology_is_not_placed_without_it() -> None:
    async with World(config=by_field(RELEASE_1_37)) as world:
        world.add_nodes(2)
        constraints = PodGroupConstraints([TopologyConstraint("rack")])
        world.cluster.create_object(group("train", 2, scheduling_constraints=constraints))
        add_members(world, "train", 0, 1)
        await world.sleep(30)
        assert len(world.pending()) == 2


@in_virtual_time
async def test_a_pod_that_names_a_group_is_scheduled_by_itself_while_the_gate_is_off() -> None:
    async with World() as world:
        world.add_nodes(1)
        add_members(world, "workers", 0)
        await world.until(world.all_bound)
        watched = {informer.resource.path for informer in world.scheduler.informers}
        assert not watched & {COSCHEDULING_POD_GROUPS.path, pod_groups(world.scheduler.release).path}


@in_virtual_time
async def test_a_pod_that_names_gangs_of_two_apis_waits_until_it_names_one() -> None:
    config = in_release(BY_LABEL, RELEASE_1_37.with_gates(GATES), "test")
    async with World(config=config) as world:
        world.add_nodes(1)
        world.cluster.create_object(gang("train", 1))
        world.cluster.create_object(group("train", 1))
        world.add_pod(make_pod("train-0").scheduling_group("train").label(POD_GROUP_LABEL, "train"))
        await world.sleep(30)
        assert len(world.pending()) == 1
        world.change_pod("train-0", lambda pod: replace(pod, metadata=replace(pod.metadata, labels=None)))
        await world.until(world.all_bound)
