"""Composite groups of Kubernetes 1.37: trees of PodGroups are placed as one, with a domain of nodes for each part."""

from __future__ import annotations

from kscheduler.api.pod_groups import DisruptionMode, Empty
from kscheduler.client.pod_group_kinds import pod_groups
from kscheduler.testing.wrappers import make_node
from tests.scenarios.composite_groups import CONFIG, composite, part
from tests.scenarios.evicted import bound, fill, left, low
from tests.scenarios.gangs import add_members, group, notes
from tests.support.world import World, in_virtual_time

LOW = 1  # the priority of pods that may be evicted
RACK, ZONE = "example.com/rack", "example.com/zone"


def add_racks(world: World, **racks: int) -> None:
    """Add racks of so many nodes with room for two pods each; a rack is in the zone that its name begins with."""
    for rack, count in racks.items():
        for i in range(count):
            node = make_node(f"{rack}-{i}").capacity(cpu="4", memory="16Gi", pods=110)
            world.add_node(node.label(RACK, rack).label(ZONE, rack[:1]))


def places(world: World, name: str) -> set[str]:
    """The racks that a group is in."""
    return {node.partition("-")[0] for node in bound(world, name).values()}


def conditions(world: World) -> dict[str, tuple[str, str]]:
    """The status and message of each PodGroup's condition."""
    found = world.cluster.store(pod_groups(world.scheduler.release)).objects.values()
    return {
        each.metadata.name: (each.status.conditions[0].status, each.status.conditions[0].message)
        for each in found
        if each.status.conditions
    }


@in_virtual_time
async def test_two_groups_of_a_job_get_a_rack_each_in_one_zone() -> None:
    async with World(config=CONFIG) as world:
        add_racks(world, a1=2, a2=1, b1=2, b2=2)
        for made in (composite("job", 2, near=ZONE), part("left", 4, near=RACK), part("right", 4, near=RACK)):
            world.cluster.create_object(made)
        add_members(world, "left", 0, 1, 2, 3)
        await world.sleep(10)
        assert not bound(world, "left"), "the other group has no pods yet"
        add_members(world, "right", 0, 1, 2, 3)
        await world.until(world.all_bound)
        assert sorted(places(world, "left") | places(world, "right")) == ["b1", "b2"]
        assert len(places(world, "left")) == len(places(world, "right")) == 1
        await world.until(lambda: conditions(world) == {"left": ("True", ""), "right": ("True", "")})


@in_virtual_time
async def test_if_a_part_does_not_fit_none_of_the_job_is_bound_and_each_group_says_why() -> None:
    async with World(config=CONFIG) as world:
        add_racks(world, a1=2)
        for made in (composite("job", 2), part("left", 2), part("right", 4)):
            world.cluster.create_object(made)
        add_members(world, "left", 0, 1)
        add_members(world, "right", 0, 1, 2, 3)
        await world.until(lambda: len(conditions(world)) == 2)
        assert not bound(world, "left")
        assert not bound(world, "right")
        assert conditions(world)["left"][1].startswith(
            "pod group is unschedulable, 0/1 placements are available, first placement status: "
            "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
        )
        assert "minCount (4) cannot be satisfied: 2 scheduled, 1 remaining" in conditions(world)["right"][1]
        world.add_node(make_node("a1-2").capacity(cpu="4", memory="16Gi", pods=110))
        await world.until(world.all_bound)
        (note,) = notes(world, "Scheduled", kind="CompositePodGroup")
        assert note == "6 pods of gang default/job have a node, of at least 2 groups"


@in_virtual_time
async def test_a_part_that_does_not_fit_is_left_out_where_the_job_needs_one_only() -> None:
    async with World(config=CONFIG) as world:
        add_racks(world, a1=2)
        for made in (composite("job", 1), part("left", 3), part("right", 3)):
            world.cluster.create_object(made)
        add_members(world, "left", 0, 1, 2)
        add_members(world, "right", 0, 1, 2)
        await world.until(lambda: len(bound(world, "left")) == 3)
        await world.until(lambda: len(conditions(world)) == 2)
        assert conditions(world)["left"] == ("True", "")
        assert conditions(world)["right"][0] == "False"
        world.add_node(make_node("a1-2").capacity(cpu="4", memory="16Gi", pods=110))
        await world.until(world.all_bound)
        await world.until(lambda: conditions(world)["right"] == ("True", ""))


@in_virtual_time
async def test_a_job_makes_room_for_all_its_groups_and_a_job_that_is_disrupted_whole_goes_whole() -> None:
    async with World(config=CONFIG) as world:
        add_racks(world, a1=2)
        whole = composite("old", 1, disruption_mode=DisruptionMode(all=Empty()), priority=LOW)
        olds = [part(name, 1, parent="old", priority=LOW) for name in ("old-a", "old-b")]
        for made in (whole, *olds):
            world.cluster.create_object(made)
        await fill(world, *(low(f"{name}-0").scheduling_group(name) for name in ("old-a", "old-b")))
        await fill(world, low("low-0"), low("low-1"))
        for made in (composite("job", 2, priority=100), part("left", 1, priority=100), part("right", 1, priority=100)):
            world.cluster.create_object(made)
        for name in ("left", "right"):
            world.add_pod(low(f"{name}-0", priority=100).scheduling_group(name))
        await world.until(world.all_bound)
        notes = [event.note for event in world.cluster.events if event.reason == "Preempted"]
        assert len(notes) == 2
        assert all(note.startswith("Preempted by compositepodgroup ") for note in notes)
        assert not left(world, "low"), "single pods are less important than a job that goes whole"
        assert len(left(world, "old")) == 2
        for number, name in enumerate(("left", "right")):
            world.add_pod(low(f"{name}-1", priority=100).scheduling_group(name))
            await world.until(world.all_bound)
            assert not left(world, "old"), f"after {number + 1} more pods"


@in_virtual_time
async def test_groups_of_groups_that_form_a_loop_are_refused_with_a_reason_and_the_others_go_on() -> None:
    async with World(config=CONFIG) as world:
        world.add_nodes(2)
        for made in (composite("job", 1, parent="other"), composite("other", 1, parent="job"), part("train", 1)):
            world.cluster.create_object(made)
        add_members(world, "train", 0)
        world.cluster.create_object(group("alone", 2))
        add_members(world, "alone", 0, 1)
        await world.until(lambda: len(bound(world, "alone")) == 2)
        await world.sleep(30)
        assert not bound(world, "train")
        notes = {event.note for event in world.cluster.events if event.regarding.name == "train-0"}
        assert notes == {"gang default/train belongs to composite groups that form a loop"}
