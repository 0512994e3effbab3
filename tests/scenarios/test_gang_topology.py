"""Gangs that ask for one domain of nodes, with the whole scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from kscheduler.api.pod_groups import CoschedulingPodGroup, PodGroupConstraints, TopologyConstraint
from kscheduler.config.load import default_config, in_release
from kscheduler.config.releases import RELEASE_1_37
from kscheduler.testing.wrappers import make_node
from tests.scenarios.evicted import bound, fill, left, low
from tests.scenarios.gangs import BY_LABEL, GATES, add_members, gang, group, members, near, notes
from tests.support.world import World, in_virtual_time

RACK = "example.com/rack"
ZONE = "topology.kubernetes.io/zone"
GUIDE = Path(__file__).parents[2] / "GANGS.md"
HIGH = 1000


def add_racks(world: World, **racks: int) -> None:
    """Racks with so many nodes of 4 CPUs each."""
    for rack, nodes in racks.items():
        for index in range(nodes):
            node = make_node(f"{rack}-{index}").capacity(cpu="4", memory="16Gi", pods=110)
            world.add_node(node.label(RACK, rack))


def add_gang(world: World, asked: CoschedulingPodGroup, count: int, priority: int = 0) -> None:
    world.cluster.create_object(asked)
    for pod in members(asked.metadata.name, count):
        world.add_pod(pod.priority(priority))


def delete(world: World, name: str) -> None:
    world.cluster.delete_pod(world.pod(name).key)


def racks_of(world: World, prefix: str) -> set[str]:
    return {node.partition("-")[0] for node in bound(world, prefix).values()}


@in_virtual_time
async def test_a_gang_is_bound_in_the_tightest_rack_and_its_later_pods_as_well() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(3)
        add_racks(world, r1=4, r2=3, r3=2)
        add_gang(world, near("train", 5, required=RACK), 5)
        await world.until(world.all_bound)
        assert racks_of(world, "train") == {"r2"}
        world.add_pod(members("train", 6)[5])
        await world.until(world.all_bound)
        assert racks_of(world, "train") == {"r2"}
        world.add_pod(members("train", 7)[6])
        await world.sleep(10)
        condition = world.condition("train-6")
        assert condition is not None
        assert condition.message.startswith(
            "gang default/train: rack r2, where 6 of its pods are, does not hold 1 more, but 0: pod train-6: 0/3 nodes"
        )


@in_virtual_time
async def test_a_gang_that_no_rack_holds_waits_for_one_and_others_go_on() -> None:
    async with World(config=BY_LABEL) as world:
        add_racks(world, r1=2, r2=1)
        add_gang(world, near("train", 6, required=RACK), 6)
        await world.sleep(5)
        add_gang(world, gang("free", 4), 4)
        await world.until(lambda: len(bound(world, "free")) == 4)
        assert not bound(world, "train")
        note = notes(world, "Unschedulable")[0]
        assert note.startswith(
            "gang default/train: no rack holds 6 pods; the best of 2, r1, holds 4: pod train-4: 0/2 n"
        )
        for index in range(2):
            world.add_node(make_node(f"r2-{index + 1}").capacity(cpu="4", memory="16Gi", pods=110).label(RACK, "r2"))
        for name in bound(world, "free"):
            delete(world, name)
        await world.until(world.all_bound)
        assert racks_of(world, "train") == {"r2"}


@in_virtual_time
async def test_the_message_in_the_guide_is_what_a_gang_says() -> None:
    async with World(config=BY_LABEL) as world:
        for index in range(9):
            node = make_node(f"node-{index}").capacity(cpu="16", memory="64Gi", pods=110)
            world.add_node(node.label(ZONE, "abc"[index % 3]))
        world.cluster.create_object(near("train-00", 8, required=ZONE))
        for pod in members("train-00", 8, cpu=6):
            world.add_pod(pod)
        await world.sleep(5)
        (note,) = notes(world, "Unschedulable")
        assert f"\n    {note.partition(' preemption:')[0]}\n" in GUIDE.read_text(encoding="utf-8")


@in_virtual_time
async def test_a_label_that_comes_to_nodes_helps_a_gang_that_waits_for_it() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(2)
        add_gang(world, near("train", 2, required=RACK), 2)
        await world.sleep(30)
        (note,) = notes(world, "Unschedulable")
        assert note == f'gang default/train: no node has the label "{RACK}", which its topology requires'
        world.change_node("n1", lambda node: replace(node, metadata=replace(node.metadata, labels={RACK: "r1"})))
        await world.until(world.all_bound)
        assert set(bound(world, "train").values()) == {"n1"}


@in_virtual_time
async def test_a_gang_that_asks_for_less_than_before_is_tried_again() -> None:
    async with World(config=BY_LABEL) as world:
        add_racks(world, r1=1, r2=1)
        add_gang(world, near("train", 4, required=RACK), 4)
        await world.sleep(60)
        assert not bound(world, "train")
        world.cluster.update_object(near("train", 4, preferred=RACK))
        await world.until(world.all_bound)


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ({"required": "a rack"}, 'topology-required]: expected the key of a node label, got "a rack"'),
        ({"preferred": "rack,,zone"}, 'topology-preferred]: expected the key of a node label, got ""'),
        ({"preferred": "rack, rack"}, 'topology-preferred]: expected each key once, got "rack" again'),
    ],
)
@in_virtual_time
async def test_annotations_that_make_no_sense_park_the_gang_until_they_are_mended(
    asked: dict[str, str], fault: str
) -> None:
    async with World(config=BY_LABEL) as world:
        add_racks(world, r1=2)
        add_gang(world, near("train", 2, **asked), 2)
        add_gang(world, gang("free", 2), 2)
        await world.sleep(10)
        assert len(bound(world, "free")) == 2
        assert not bound(world, "train")
        condition = world.condition("train-0")
        assert condition is not None
        assert fault in condition.message
        world.cluster.update_object(near("train", 2, required=RACK))
        await world.until(world.all_bound)


@in_virtual_time
async def test_a_gang_evicts_only_in_a_domain_that_will_hold_it() -> None:
    async with World(config=BY_LABEL) as world:
        add_racks(world, r1=1, r2=2, r3=2)
        await fill(world, low("keep", priority=HIGH).node_selector(RACK, "r3"), *(low(f"low-{i}") for i in range(9)))
        world.add_nodes(1)
        await fill(world, *(low(f"apart-{i}", priority=0) for i in range(2)))
        add_gang(world, near("train", 4, required=RACK), 4, priority=HIGH)
        await world.until(lambda: len(bound(world, "train")) == 4)
        assert racks_of(world, "train") == {"r2"}
        assert len(left(world, "low")) == 5
        assert len(left(world, "apart")) == 2, "they are cheaper, and would not help"


@in_virtual_time
async def test_a_gang_for_which_no_domain_would_hold_it_evicts_nobody() -> None:
    async with World(config=BY_LABEL) as world:
        add_racks(world, r1=1, r2=1)
        await fill(world, *(low(f"low-{i}") for i in range(4)))
        add_gang(world, near("train", 3, required=RACK), 3, priority=HIGH)
        await world.sleep(60)
        assert len(left(world, "low")) == 4
        condition = world.condition("train-0")
        assert condition is not None
        assert condition.message.startswith(
            "gang default/train: no rack holds 3 pods; none of 2 holds any; in r1: pod "
        )
        assert condition.message.endswith(
            "preemption: even without all pods of lower priority there would be too little room."
        )


@in_virtual_time
async def test_a_gang_waits_in_its_domain_for_its_victims_to_end() -> None:
    async with World(config=BY_LABEL) as world:
        world.run_kubelets()
        add_racks(world, r1=1, r2=1)
        await fill(world, *(low(f"low-{i}").grace_period(30) for i in range(4)))
        add_gang(world, near("train", 2, required=RACK), 2, priority=HIGH)
        await world.until(lambda: len(left(world, "low")) == 2)
        await world.sleep(10)
        assert len(left(world, "low")) == 2
        await world.until(lambda: len(bound(world, "train")) == 2)
        assert len(racks_of(world, "train")) == 1
        assert len(left(world, "low")) == 2


@in_virtual_time
async def test_what_is_left_of_a_broken_gang_is_joined_in_its_domain() -> None:
    async with World(config=BY_LABEL) as world:
        add_racks(world, r1=2, r2=3)
        add_gang(world, near("train", 4, required=RACK), 4)
        await world.until(world.all_bound)
        assert racks_of(world, "train") == {"r1"}
        delete(world, "train-0")
        world.add_pod(members("train", 5)[4])
        await world.until(world.all_bound)
        assert racks_of(world, "train") == {"r1"}


@in_virtual_time
async def test_constraints_of_kubernetes_podgroups_are_heeded_with_their_gate() -> None:
    release = RELEASE_1_37.with_gates({**GATES, "TopologyAwareWorkloadScheduling": True})
    async with World(config=default_config(release)) as world:
        add_racks(world, r1=1, r2=2, r3=3)
        constraints = PodGroupConstraints([TopologyConstraint(RACK)])
        world.cluster.create_object(group("train", 3, scheduling_constraints=constraints))
        add_members(world, "train", 0, 1, 2)
        await world.until(world.all_bound)
        assert racks_of(world, "train") == {"r2"}, "of two that hold all the fuller one"
        metrics = world.metrics
        assert metrics.generated_placements_total.labels("default-scheduler").value == 3
        for result, count in (("feasible", 2), ("infeasible", 1)):
            assert metrics.placement_evaluations_total.labels(result, "default-scheduler").value == count
            assert metrics.placement_evaluation_duration_seconds.labels(result, "default-scheduler").count == count
        world.cluster.create_object(group("large", 7, scheduling_constraints=constraints))
        add_members(world, "large", *range(7))
        await world.sleep(5)
        assert not bound(world, "large")
        (note,) = notes(world, "Unschedulable")
        assert note.startswith(
            "pod group is unschedulable, 0/3 placements are available, first placement status: "
            "minCount (7) cannot be satisfied: 2 scheduled, 4 remaining"
        )
        world.add_node(make_node("r3-3").capacity(cpu="4", memory="16Gi", pods=110).label(RACK, "r3"))
        await world.until(world.all_bound)
        assert racks_of(world, "large") == {"r3"}


@in_virtual_time
async def test_with_coscheduling_constraints_of_kubernetes_podgroups_are_heeded_as_required() -> None:
    config = in_release(BY_LABEL, RELEASE_1_37.with_gates(GATES), "test")
    async with World(config=config) as world:
        add_racks(world, r1=3, r2=2)
        constraints = PodGroupConstraints([TopologyConstraint(RACK)])
        world.cluster.create_object(group("train", 4, scheduling_constraints=constraints))
        add_members(world, "train", 0, 1, 2, 3)
        await world.until(world.all_bound)
        assert racks_of(world, "train") == {"r2"}
