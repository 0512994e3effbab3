"""A plugin asks elsewhere about each pod, for seconds: the loop goes on, pods keep their turn, nothing is lost."""

from __future__ import annotations

import asyncio

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.faults import AnswersToCome
from kscheduler.framework.status import Status, unschedulable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from tests.support.world import World, in_virtual_time

ANSWER_S = 2.0


class Oracle:
    """Filter: no node whose name ends with `x`. It knows only after two seconds."""

    name = "Oracle"

    def __init__(self) -> None:
        self.answered: list[str] = []
        self.is_asking = False

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        name = pod.pod.metadata.name
        if state.may_wait and name not in self.answered:
            raise AnswersToCome(lambda: self._ask(name))
        return unschedulable("ends with x") if node.name.endswith("x") else None

    async def _ask(self, name: str) -> None:
        self.is_asking = True
        await asyncio.sleep(ANSWER_S)
        self.answered.append(name)
        self.is_asking = False


@in_virtual_time
async def test_pods_are_decided_in_their_turn_and_the_watch_is_followed_meanwhile() -> None:
    oracle = Oracle()
    async with World(plugins={"filter": [oracle]}) as world:
        world.add_node("nx")
        world.add_pod(make_pod("first").priority(5).req(cpu="1"))
        world.add_pod(make_pod("second").req(cpu="1"))
        await world.until(lambda: oracle.is_asking, within_s=1)
        world.add_node("fits")
        await world.sleep(ANSWER_S / 2)
        assert world.scheduler.cache.table.get("fits") is not None
        await world.until(world.all_bound, within_s=3 * ANSWER_S)
        assert oracle.answered == ["first", "second"]
        assert {world.node_of("first"), world.node_of("second")} == {"fits"}


@in_virtual_time
async def test_a_pod_that_goes_while_its_answers_are_awaited_is_forgotten() -> None:
    oracle = Oracle()
    async with World(plugins={"filter": [oracle]}) as world:
        world.add_node("fits")
        world.add_pod(make_pod("gone").priority(5))
        world.add_pod(make_pod("stays"))
        await world.until(lambda: oracle.is_asking, within_s=1)
        world.cluster.delete_pod("default/gone")
        await world.until(world.all_bound, within_s=3 * ANSWER_S)
        assert world.node_of("stays") == "fits"
