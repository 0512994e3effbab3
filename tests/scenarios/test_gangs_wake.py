"""No gang that fits stays asleep: an event wakes it, and not only the timeout of five minutes.

Members of a gang are of several kinds, each for nodes of its own and of one size, so that no two kinds ask for one
room: whether a gang fits does not depend on how ties between nodes are broken.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.objects import Node, Taint
from kscheduler.api.pod_groups import POD_GROUP_LABEL, CoschedulingPodGroup
from kscheduler.client.pod_group_kinds import COSCHEDULING_POD_GROUPS as GROUPS
from kscheduler.gangs.stand_in import StandIn
from kscheduler.queue.pod_info import Pool
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.testing.wrappers import PodBuilder, make_node, make_pod
from tests.scenarios.evicted import bound, fill, left, low
from tests.scenarios.gangs import BY_LABEL, gang, near
from tests.support.seeds import sampled
from tests.support.world import World, in_virtual_time

EXAMPLES = int(os.environ.get("KSCHEDULER_EXAMPLES") or sampled(80))
KIND, KINDS = "example.com/kind", {"red": 1, "green": 2, "blue": 3}  # and the cpus of its pods
RACK = "example.com/rack"
GANGS, ROUNDS, STEPS = 4, 12, 4
QUIET_S = 20.0  # longer than the longest backoff, and than events are worked on


def pod(name: str, kind: str, of: str = "") -> PodBuilder:
    made = make_pod(name).req(cpu=KINDS[kind]).node_selector(KIND, kind)
    return made.label(POD_GROUP_LABEL, of) if of else made


class Waking(World):
    """Gangs that mostly find too little room, and hands that make some."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(config=BY_LABEL, expect_conditions=False)
        self.rng = rng
        self.made = 0
        self.steps: list[Callable[[], None]] = [
            self.new_node, self.relabel, self.taint, self.cordon, self.enlarge, self.end_pod, self.end_pod,
            self.ask_less, self.go_anywhere, self.bind_by_hand, self.fill_up, self.fill_up, self.fill_up, self.join,
        ]  # fmt: skip

    def name(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}-{self.made}"

    def set_up(self) -> None:
        for _ in range(4):
            self.new_node()
        for _ in range(6):
            self.fill_up()
        for number in range(GANGS):
            kinds = self.rng.sample(sorted(KINDS), self.rng.randint(1, 3))
            size = self.rng.randint(2, 6)
            rack = RACK if self.rng.random() < 0.3 else ""
            self.cluster.create_object(near(f"g{number}", self.rng.randint(1, size), required=rack))
            for _ in range(size):
                self.add_pod(pod(self.name(f"g{number}"), self.rng.choice(kinds), f"g{number}"))

    # --- what happens ---

    def new_node(self) -> None:
        made = make_node(self.name("n")).capacity(cpu=self.rng.choice([1, 2, 4, 6]), memory="16Gi", pods=110)
        made = made.label(KIND, self.rng.choice(sorted(KINDS))).label(RACK, f"r{self.rng.randint(0, 1)}")
        self.add_node(made.taint("x") if self.rng.random() < 0.2 else made)

    def any_node(self) -> str:
        return self.rng.choice(sorted(self.cluster.nodes))

    def relabel(self) -> None:
        self.label_node(self.any_node(), self.rng.choice(sorted(KINDS)))

    def label_node(self, name: str, kind: str) -> None:
        def change(node: Node) -> Node:
            return replace(node, metadata=replace(node.metadata, labels={**(node.metadata.labels or {}), KIND: kind}))

        self.change_node(name, change)

    def taint(self) -> None:
        def change(node: Node) -> Node:
            taints = None if node.spec.taints else [Taint("x", "", "NoSchedule")]
            return replace(node, spec=replace(node.spec, taints=taints))

        self.change_node(self.any_node(), change)

    def cordon(self) -> None:
        def change(node: Node) -> Node:
            return replace(node, spec=replace(node.spec, unschedulable=not node.spec.unschedulable))

        self.change_node(self.any_node(), change)

    def enlarge(self) -> None:
        larger = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        self.change_node(
            self.any_node(),
            lambda node: replace(node, status=replace(node.status, capacity=larger, allocatable=larger)),
        )

    def fill_up(self) -> None:
        self.add_pod(pod(self.name("alone"), self.rng.choice(sorted(KINDS))))

    def end_pod(self) -> None:
        alone = sorted(name for name in self.cluster.pods if name.startswith("default/alone"))
        if alone:
            self.cluster.delete_pod(self.rng.choice(alone))

    def join(self) -> None:
        number = self.rng.randrange(GANGS)
        self.add_pod(pod(self.name(f"g{number}"), self.rng.choice(sorted(KINDS)), f"g{number}"))

    def change_gang(self, change: Callable[[CoschedulingPodGroup], CoschedulingPodGroup]) -> None:
        key = f"default/g{self.rng.randrange(GANGS)}"
        self.cluster.update_object(change(self.cluster.store(GROUPS).objects[key]))

    def ask_less(self) -> None:
        self.change_gang(
            lambda group: replace(group, spec=replace(group.spec, min_member=max((group.spec.min_member or 0) - 1, 1)))
        )

    def go_anywhere(self) -> None:
        self.change_gang(lambda group: replace(group, metadata=replace(group.metadata, annotations={})))

    def bind_by_hand(self) -> None:
        """Somebody else binds a pod of a gang where it fits."""
        for each in self.pending():
            kind = (each.spec.node_selector or {})[KIND]
            for node in self.scheduler.cache.table:
                if (node.node.metadata.labels or {}).get(KIND) != kind or node.node.spec.taints:
                    continue
                if each.metadata.name.startswith("g") and node.free_of("cpu") >= 1000 * KINDS[kind]:
                    self.bind_elsewhere(each.metadata.name, node.name)
                    return

    # --- what must hold ---

    def asleep(self) -> Iterator[StandIn]:
        parts = self.scheduler.gangs
        assert parts is not None
        for tracked in parts.registry:
            stand_in = parts.queue.stand_in(tracked.key)
            if stand_in is not None and stand_in.pool is Pool.UNSCHEDULABLE:
                yield stand_in

    async def check(self) -> int:
        """Try all gangs that wait without any event; returns how many there are."""
        await self.sleep(QUIET_S)
        parts = self.scheduler.gangs
        assert parts is not None
        waiting, before = list(self.asleep()), bound(self, "g")
        for stand_in in waiting:
            parts.handle.retry(stand_in.pod_info, 0.0)
        await self.sleep(2.0)
        assert bound(self, "g") == before, f"some were asleep, of {[each.key for each in waiting]}"
        return len(waiting)


async def wake(seed: int) -> int:
    waiting = 0
    world = Waking(random.Random(seed))
    async with world:
        world.set_up()
        for _ in range(ROUNDS):
            waiting += await world.check()
            for _ in range(world.rng.randint(1, STEPS)):
                world.rng.choice(world.steps)()
                await world.sleep(world.rng.choice([0.0, 0.0, 0.5, 12.0]))
    return waiting


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, (1 << 32) - 1))
def test_no_gang_that_fits_waits_for_its_timeout(seed: int) -> None:
    run_virtual(wake(seed))


def test_gangs_do_wait_in_these_worlds() -> None:
    assert sum(run_virtual(wake(seed)) for seed in range(3)) > 0


@in_virtual_time
async def test_a_gang_is_woken_by_what_helps_any_of_its_pods_that_failed() -> None:
    async with World(config=BY_LABEL) as world:
        for name, kind in (("n0", "red"), ("n1", "none"), ("n2", "none")):
            world.add_node(make_node(name).capacity(cpu=1, memory="16Gi").label(KIND, kind))
        world.cluster.create_object(gang("train", 2))
        # Any two of the three kinds are enough; the first one that fails is green.
        for name, kind in (("train-0", "red"), ("train-1", "green"), ("train-2", "blue")):
            world.add_pod(make_pod(name).req(cpu=1).node_selector(KIND, kind).label(POD_GROUP_LABEL, "train"))
        await world.sleep(30.0)
        assert not bound(world, "train")
        world.change_node("n2", lambda node: replace(node, metadata=replace(node.metadata, labels={KIND: "blue"})))
        await world.until(lambda: sorted(bound(world, "train")) == ["train-0", "train-2"], within_s=15.0)


@in_virtual_time
async def test_a_gang_is_woken_by_what_lets_a_pod_that_fitted_go_elsewhere() -> None:
    async with World(config=BY_LABEL) as world:
        # The pod that is tried first takes the node that the other one needs.
        world.add_node(make_node("n0").capacity(cpu=1, memory="16Gi").label(KIND, "red").label("disk", "ssd"))
        world.add_node(make_node("n1").capacity(cpu=8, memory="16Gi"))
        world.cluster.create_object(gang("train", 2))
        for name, needed in (("train-0", ("disk", "ssd")), ("train-1", (KIND, "red"))):
            world.add_pod(make_pod(name).req(cpu=1).node_selector(*needed).label(POD_GROUP_LABEL, "train"))
        await world.sleep(30.0)
        assert not bound(world, "train")
        world.change_node("n1", lambda node: replace(node, metadata=replace(node.metadata, labels={"disk": "ssd"})))
        await world.until(lambda: len(bound(world, "train")) == 2, within_s=15.0)


@in_virtual_time
async def test_a_gang_that_needs_fewer_pods_than_before_is_tried_again() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(1)
        world.cluster.create_object(gang("train", 4))
        for number in range(4):
            world.add_pod(low(f"train-{number}").label(POD_GROUP_LABEL, "train"))
        await world.sleep(30.0)
        assert not bound(world, "train")
        world.cluster.update_object(gang("train", 2))
        await world.until(lambda: len(bound(world, "train")) == 2, within_s=15.0)


@in_virtual_time
async def test_a_gang_is_tried_when_its_victims_should_be_gone_although_one_of_them_does_not_end() -> None:
    async with World(config=BY_LABEL) as world:
        world.add_nodes(1)
        await fill(world, low("stuck", cpu=4).grace_period(20))
        world.add_node("other")
        await fill(world, low("works", cpu=4, priority=1000).grace_period(0))
        world.cluster.create_object(gang("train", 1))
        world.add_pod(low("train-0", priority=1000).label(POD_GROUP_LABEL, "train"))
        await world.until(lambda: not left(world, "stuck"))
        await world.sleep(1.0)
        world.cluster.delete_pod("default/works")  # its event comes while the gang waits for the victim
        await world.until(lambda: bool(bound(world, "train")), within_s=45.0)
