"""Groups of a composite group have one entry in the queue, whichever of their objects and pods comes first."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kscheduler.gangs.gang import COMPOSITE_API, Gang, GangKey
from kscheduler.gangs.rules import UPSTREAM_1_37
from kscheduler.gangs.texts import lack
from kscheduler.gangs.tracked_gang import Lack, TrackedGang, TrackedTree
from tests.gangs.builders import key_of, pod
from tests.gangs.world import World

RULES = replace(UPSTREAM_1_37, heeds_topology=True, heeds_parents=True)


def key_of_tree(name: str) -> GangKey:
    return GangKey(COMPOSITE_API, "default", name)


def composite(name: str, least: int = 1, parent: str = "") -> Gang:
    return Gang(key=key_of_tree(name), uid=f"uid-{name}", min_members=least, is_composite=True, parent=parent)


class Trees(World):
    def __init__(self) -> None:
        super().__init__(RULES)

    def compose(self, name: str, least: int = 1, parent: str = "") -> None:
        self.registry.set_gang(composite(name, least, parent))
        self.queue.reconsider(key_of_tree(name), self.now)
        self.queue.check()

    def decompose(self, name: str) -> None:
        self.registry.remove_gang(key_of_tree(name))
        self.queue.reconsider(key_of_tree(name), self.now)
        self.queue.check()

    def of(self, name: str) -> TrackedGang:
        tracked = self.registry.get(key_of(name))
        assert tracked is not None
        return tracked

    def tree(self, name: str) -> TrackedTree:
        tracked = self.registry.get(key_of_tree(name))
        assert isinstance(tracked, TrackedTree)
        return tracked

    def why(self, name: str) -> Lack | None:
        return self.of(name).lack


def test_two_groups_of_a_composite_group_are_popped_together() -> None:
    world = Trees()
    world.compose("job", 2)
    world.set("a", 2, parent="job")
    world.set("b", 1, parent="job")
    world.add(pod("a-0", "a"), pod("b-0", "b"))
    assert world.pop() == [], "one of them lacks a pod"
    assert world.tree("job").lack is Lack.GROUPS
    assert lack(world.tree("job")) == "gang default/job waits until 2 of its groups have enough pods"
    world.add(pod("a-1", "a"))
    assert world.pop() == ["job: a-0 a-1 b-0"]


def test_a_composite_group_goes_with_as_many_groups_as_it_needs() -> None:
    world = Trees()
    world.compose("job", 1)
    world.set("a", 1, parent="job")
    world.set("b", 3, parent="job")
    world.add(pod("a-0", "a"), pod("b-0", "b"))
    assert world.pop() == ["job: a-0 b-0"]


STEPS: list[Callable[[Trees], None]] = [
    lambda world: world.compose("job", 1),
    lambda world: world.compose("part", 1, parent="job"),
    lambda world: world.set("a", 1, parent="part"),
    lambda world: world.set("b", 1, parent="job"),
    lambda world: world.add(pod("a-0", "a"), pod("b-0", "b")),
]


@pytest.mark.parametrize("order", list(itertools.permutations(range(5))))
def test_objects_and_pods_may_come_in_any_order(order: tuple[int, ...]) -> None:
    world = Trees()
    for step in order:
        STEPS[step](world)
    popped = world.pop()
    assert popped == ["job: a-0 b-0"]


def test_pods_wait_while_a_composite_group_above_them_is_missing_and_other_groups_go() -> None:
    world = Trees()
    world.compose("part", 1, parent="job")
    world.set("a", 1, parent="part")
    world.set("alone", 1)
    world.add(pod("a-0", "a"), pod("alone-0", "alone"))
    assert world.why("a") is Lack.ROOT
    assert world.pop() == ["alone: alone-0"]
    world.compose("job")
    assert world.pop() == ["job: a-0"]


def test_a_composite_group_that_goes_leaves_its_pods_waiting() -> None:
    world = Trees()
    world.compose("job")
    world.compose("part", parent="job")
    world.set("a", 1, parent="part")
    world.set("b", 1, parent="job")
    world.add(pod("a-0", "a"), pod("b-0", "b"))
    world.decompose("part")
    assert world.why("a") is Lack.ROOT
    assert world.queue.groups().incomplete == 1
    assert world.pop() == ["job: b-0"]


def test_composite_groups_that_form_a_loop_are_refused_until_it_is_broken() -> None:
    world = Trees()
    world.compose("one", parent="two")
    world.compose("two", parent="three")
    world.compose("three", parent="one")
    world.set("a", 1, parent="two")
    world.ready("other", 1)
    world.add(pod("a-0", "a"))
    assert world.why("a") is Lack.LOOP
    assert lack(world.of("a")) == "gang default/a belongs to composite groups that form a loop"
    assert world.pop() == ["other: other-0"]
    world.decompose("three")
    assert world.why("a") is Lack.ROOT
    world.compose("three")
    assert world.pop() == ["three: a-0"]


def test_a_composite_group_that_is_its_own_parent_is_refused() -> None:
    world = Trees()
    world.compose("job", parent="job")
    world.set("a", 1, parent="job")
    world.add(pod("a-0", "a"))
    assert world.why("a") is Lack.LOOP
    assert world.pop() == []


@pytest.mark.parametrize(("levels", "expected"), [(3, None), (4, Lack.DEPTH)])
def test_trees_deeper_than_four_levels_are_refused(levels: int, expected: Lack | None) -> None:
    world = Trees()
    for level in range(levels):
        world.compose(f"c{level}", parent="" if level == 0 else f"c{level - 1}")
    world.set("a", 1, parent=f"c{levels - 1}")
    world.add(pod("a-0", "a"))
    assert world.why("a") is expected
    assert world.pop() == ([] if expected else ["c0: a-0"])


def test_a_gated_pod_holds_all_groups_back() -> None:
    world = Trees()
    world.compose("job", 1)
    world.set("a", 1, parent="job")
    world.set("b", 1, parent="job")
    world.add(pod("a-0", "a"), pod("b-0", "b", gate="wait"))
    assert world.tree("job").lack is Lack.GATES
    assert world.pop() == []
    world.delete("b-0")
    assert world.pop() == ["job: a-0"]


def test_without_the_gate_a_group_with_a_parent_waits() -> None:
    world = World(UPSTREAM_1_37)
    world.set("a", 1, parent="job")
    world.add(pod("a-0", "a"))
    tracked = world.registry.get(key_of("a"))
    assert tracked is not None
    assert tracked.lack is Lack.PARENT
    assert world.pop() == []


NAMES = ("one", "two", "three")
CHANGES = st.one_of(
    st.tuples(st.just("compose"), st.sampled_from(NAMES), st.sampled_from(("", *NAMES))),
    st.tuples(st.just("decompose"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("set"), st.sampled_from(("a", "b")), st.sampled_from(("", *NAMES))),
    st.tuples(st.just("add"), st.sampled_from(("a", "b")), st.sampled_from(("0", "1"))),
    st.tuples(st.just("delete"), st.sampled_from(("a", "b")), st.sampled_from(("0", "1"))),
    st.tuples(st.just("place"), st.just(""), st.just("")),
)


@given(st.lists(CHANGES, max_size=25))
def test_queue_and_registry_agree_whatever_happens(changes: list[tuple[str, str, str]]) -> None:
    world = Trees()
    for change, name, other in changes:
        if change == "compose":
            world.compose(name, parent=other)
        elif change == "decompose":
            world.decompose(name)
        elif change == "set":
            world.set(name, 1, parent=other)
        elif change == "add":
            world.add(pod(f"{name}-{other}", name))
        elif change == "delete":
            world.delete(f"{name}-{other}")
        elif world.queue.counts().active:
            world.place(world.pop_gang())
