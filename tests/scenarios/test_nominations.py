"""Pods that are expected on a node: what the cluster shows of it, and who keeps away from it."""

from __future__ import annotations

import asyncio

from kscheduler.api.objects import Pod
from kscheduler.client.kinds import PODS
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import SKIP, Status
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from tests.support.world import World, in_virtual_time


class Attach:
    """PreBind: takes ten seconds for pods with the label `volume`, and then fails so many times."""

    name = "Attach"

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None if "volume" in (pod.pod.metadata.labels or {}) else SKIP

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        await asyncio.sleep(10)
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not attached")
        return None


def nominated(world: World, name: str) -> str:
    return world.pod(name).status.nominated_node_name


@in_virtual_time
async def test_a_pod_whose_binding_takes_time_says_where_it_is_going_and_others_do_not() -> None:
    async with World(plugins={"preBind": [Attach()]}) as world:
        world.add_node("n1")
        reported: set[str] = set()  # names of pods that were nominated at any time
        world.cluster.store(PODS).subscribe(lambda before, after: reported.update(_nominee(after)))
        world.add_pod(make_pod("slow").label(volume="v"))
        world.add_pod(make_pod("quick"))
        await world.sleep(5)
        assert (nominated(world, "slow"), world.node_of("slow")) == ("n1", "")
        assert world.node_of("quick") == "n1"
        await world.until(world.all_bound)
        assert nominated(world, "slow") == ""
        assert reported == {"slow"}


def _nominee(pod: Pod | None) -> set[str]:
    return {pod.metadata.name} if pod is not None and pod.status.nominated_node_name else set()


@in_virtual_time
async def test_a_pod_whose_binding_failed_says_so_no_longer() -> None:
    async with World(plugins={"preBind": [Attach(failures=1)]}) as world:
        world.add_node("n1")
        world.add_pod(make_pod("p").label(volume="v"))
        await world.sleep(5)
        assert nominated(world, "p") == "n1"
        await world.until(lambda: world.condition("p") is not None)
        await world.sleep(0.5)
        assert nominated(world, "p") == ""
        await world.until(world.all_bound)
    assert len(world.scheduler.nominations) == 0


@in_virtual_time
async def test_a_nomination_that_cannot_be_written_holds_up_no_binding() -> None:
    async with World(plugins={"preBind": [Attach()]}) as world:
        world.add_node("n1")
        world.faults.add(FaultKind.SERVER_ERROR, Verb.PATCH_STATUS, count=1)
        world.add_pod(make_pod("p").label(volume="v"))
        await world.until(world.all_bound)


@in_virtual_time
async def test_a_node_that_somebody_else_nominated_is_taken_first() -> None:
    async with World() as world:
        world.add_nodes(5, cpu="64")
        world.add_node("small", cpu="2")
        world.add_pod(make_pod("p").req(cpu="1").nominated_node("small"))
        await world.until(world.all_bound)
        assert world.node_of("p") == "small"


@in_virtual_time
async def test_room_that_a_pod_waits_for_is_kept_from_lesser_ones_until_it_is_deleted() -> None:
    async with World() as world:
        world.run_kubelets()
        world.add_node("n1", cpu="4")
        world.add_pod(make_pod("victim").req(cpu="4").priority(1).grace_period(30))
        await world.until(world.all_bound)
        world.add_pod(make_pod("heir").req(cpu="4").priority(9))
        await world.until(lambda: nominated(world, "heir") == "n1")
        world.add_pod(make_pod("lesser").req(cpu="1").priority(5))
        await world.sleep(10)
        assert len(world.scheduler.nominations) == 1
        world.cluster.delete_pod("default/heir")
        await world.until(lambda: world.node_of("lesser") == "n1", within_s=60)
    assert len(world.scheduler.nominations) == 0
