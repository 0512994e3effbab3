"""Random trees of PodGroups by the rules of Kubernetes 1.37, with the hands and faults of `gang_world`."""

from __future__ import annotations

import random
from typing import NamedTuple

from kscheduler.api.objects import Pod
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.testing.wrappers import PodBuilder, make_pod
from tests.scenarios.composite_groups import CONFIG, composite, part
from tests.scenarios.gang_world import GANGS, RACK, STEPS, GangWorld, Seen

GROUPS = ("job", "other", "below")  # composite groups; the last one may be part of another


class Tree(NamedTuple):
    """A composite group."""

    parent: str  # "" for a root
    least: int  # of its groups
    near: str  # the label of which all its pods are to be in one domain; "" for none


class CompositeWorld(GangWorld):
    """PodGroups `g0`, `g1`, ... of which some belong to composite groups."""

    def __init__(self, rng: random.Random, *, is_troubled: bool) -> None:
        super().__init__(rng, is_troubled=is_troubled, config=CONFIG)
        parents = {f"g{index}": rng.choice([*GROUPS, ""]) for index in range(GANGS)}
        self.parents: dict[str, str] = {name: parent for name, parent in parents.items() if parent}
        parent_of_last = rng.choice([*GROUPS[:-1], ""])
        used = set(self.parents.values())
        if GROUPS[-1] in used and parent_of_last:
            self.parents[GROUPS[-1]] = parent_of_last
            used.add(parent_of_last)
        self.trees: dict[str, Tree] = {}
        for name in sorted(used):
            children = sum(parent == name for parent in self.parents.values())
            near = RACK if rng.random() < 0.3 else ""
            self.trees[name] = Tree(self.parents.get(name, ""), rng.randint(1, children), near)
        self.objects_to_come += self.trees
        rng.shuffle(self.objects_to_come)

    def member(self, name: str, cpu: int) -> PodBuilder:
        self.number += 1
        return make_pod(f"{name}-{self.number}").scheduling_group(name).req(cpu=cpu)

    def group_of(self, pod: Pod) -> str | None:
        return None if pod.spec.scheduling_group is None else pod.spec.scheduling_group.pod_group_name

    def create_object_of(self, name: str) -> None:
        tree = self.trees.get(name)
        if tree is not None:
            self.cluster.create_object(composite(name, tree.least, near=tree.near, parent=tree.parent))
            return
        near = RACK if name in self.near else ""
        self.cluster.create_object(part(name, self.sizes[name], near=near, parent=self.parents.get(name, "")))

    # --- what must hold -------------------------------------------------------------------------------------------

    def check_stale_gangs_are_reported(self) -> None:
        """By Kubernetes' rules none is."""

    def _check_rack(self, name: str) -> None:
        super()._check_rack(name)
        above = self.parents.get(name, "")
        while above:
            if self.trees[above].near and not self._waits_for_object(above):
                racks = {rack for leaf in self._leaves(above) for rack in self.racks_of(leaf)}
                assert len(racks) <= 1, f"{above} is in {sorted(racks)}"
            above = self.trees[above].parent

    def _waits_for_object(self, name: str) -> bool:
        """Return whether the object of a composite group, or of one above it, does not exist yet."""
        return bool(name) and (name in self.objects_to_come or self._waits_for_object(self.trees[name].parent))

    def _leaves(self, name: str) -> list[str]:
        return (
            [leaf for child in self._children(name) for leaf in self._leaves(child)] if name in self.trees else [name]
        )

    def check_no_gang_is_half_placed(self) -> None:
        """Of a PodGroup its minimum is bound or nothing, of a composite group enough of its groups or nothing."""
        super().check_no_gang_is_half_placed()
        if len(self.scheduler.bindings):
            return
        for name, tree in self.trees.items():
            assert not self._has_any(name) or self._holds(name), f"{name} needs {tree.least} groups, and has fewer"

    def _children(self, name: str) -> list[str]:
        return [child for child, parent in self.parents.items() if parent == name]

    def _has_any(self, name: str) -> bool:
        return any(map(self._has_any, self._children(name))) if name in self.trees else self.bound(name) > 0

    def _holds(self, name: str) -> bool:
        if name not in self.trees:
            return self.bound(name) >= self.sizes[name]
        return sum(map(self._holds, self._children(name))) >= self.trees[name].least

    def check_tracked(self) -> None:
        for tracked in self.registry:
            if tracked.key.name in self.sizes:
                assert tracked.placed == self.bound(tracked.key.name), f"{tracked.key} counts {tracked.placed}"
            assert tracked.missing == 0, f"{tracked.key} lacks {tracked.missing}"


def play_composites(seed: int, *, is_troubled: bool) -> Seen:
    """Play a world with composite groups, and return what was seen."""

    async def scenario() -> None:
        rng = random.Random(seed)
        world = CompositeWorld(rng, is_troubled=is_troubled)
        async with world:
            for number in (-2, -1):
                world.add_node_in_rack(number)
            world.add_faults()
            for _ in range(STEPS):
                await world.step()
            await world.settle()

    run_virtual(scenario())
    return Seen(0, 0)
