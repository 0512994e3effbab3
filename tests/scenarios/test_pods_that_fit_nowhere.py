"""Many pods that fit nowhere: each is rejected as if it were the only one, though one search serves all equal ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.testing import PodBuilder, make_node, make_pod
from kscheduler.testing.wrappers import NodeBuilder
from tests.support.world import World, in_virtual_time

PODS = 30
HOURS = 3


def _node(name: str, cpu: str = "4") -> NodeBuilder:
    return make_node(name).label("kubernetes.io/hostname", name).capacity(cpu=cpu, memory="16Gi", pods=50)


def _plain(number: int) -> PodBuilder:
    return make_pod(f"big-{number}").req(cpu="100")


def _of_several_kinds(number: int) -> PodBuilder:
    return make_pod(f"big-{number}").req(cpu=str(100 + number % 3))


def _more_important(number: int) -> PodBuilder:
    """Less important pods are on the nodes, and evicting them does not help."""
    return make_pod(f"big-{number}").req(cpu="100").priority(10)


def _polite(number: int) -> PodBuilder:
    return make_pod(f"big-{number}").req(cpu="100").priority(10).preemption_policy("Never")


def _selecting(number: int) -> PodBuilder:
    return make_pod(f"big-{number}").node_selector(disk="ssd")


def _lonely(number: int) -> PodBuilder:
    return make_pod(f"big-{number}").label(app="a").pod_anti_affinity("kubernetes.io/hostname", {"app": "a"})


KINDS = (_plain, _of_several_kinds, _more_important, _polite, _selecting, _lonely)


class Seen:
    """What users and others see of a scheduler's work, after the cluster has changed in several ways."""

    def __init__(self, world: World) -> None:
        self.conditions = {key: pod.status.conditions for key, pod in world.cluster.pods.items()}
        self.nodes = {key: pod.spec.node_name for key, pod in world.cluster.pods.items()}
        self.events = sorted(
            (each.regarding.name, each.reason, each.note, str(each.series)) for each in world.cluster.events
        )
        # But for the durations of single plugins, which a sample of searches reports.
        shown = (line for line in world.metrics.exposition().decode().splitlines() if line.startswith("scheduler_"))
        self.metrics = {line for line in shown if not line.startswith("scheduler_plugin_execution_duration")}


async def _seen(make: Callable[[int], PodBuilder], *, knows: bool) -> tuple[Seen, int]:
    """Also return how many pods were rejected without a search of their own."""
    async with World() as world:
        one = world.scheduler._schedule_one
        reject_again, repeated = one.reject_again, 0

        def count(queued: object) -> bool:
            nonlocal repeated
            if not knows or not reject_again(queued):  # type: ignore[arg-type]
                return False
            repeated += 1
            return True

        one.reject_again = count  # type: ignore[method-assign]
        for name in ("n1", "n2", "n3"):
            world.cluster.create_node(_node(name).obj())
            world.cluster.create_pod(make_pod(f"on-{name}").req(cpu="1").node(name).obj())
        for number in range(PODS):
            world.cluster.create_pod(make(number).obj())
        await world.sleep(20)
        world.cluster.create_node(_node("n4", cpu="120").label("disk", "ssd").taint("a", "b", "NoSchedule").obj())
        await world.sleep(20)
        world.cluster.delete_pod("default/on-n2")
        await world.sleep(20)
        world.cluster.create_node(_node("n5", cpu="120").label("disk", "ssd").obj())
        await world.sleep(700)
        return Seen(world), repeated


@pytest.mark.parametrize("make", KINDS)
def test_one_search_serves_many_pods_without_a_visible_difference(make: Callable[[int], PodBuilder]) -> None:
    searched, none = run_virtual(_seen(make, knows=False))
    known, some = run_virtual(_seen(make, knows=True))
    assert none == 0
    assert some > PODS / 2
    assert known.nodes == searched.nodes
    assert known.conditions == searched.conditions
    assert known.events == searched.events
    assert known.metrics ^ searched.metrics == set()


@in_virtual_time
async def test_pods_that_fit_nowhere_for_hours_hold_up_nobody_and_back_off_longer_up_to_the_limit() -> None:
    async with World() as world:
        world.add_node("n1")
        for number in range(PODS):
            world.add_pod(_plain(number))
        await world.sleep(1)
        queue = world.scheduler.queue
        delays: dict[int, float] = {}  # number of rejections -> the longest backoff after so many
        for at in range(HOURS * 60):
            world.add_pod(make_pod(f"small-{at}").req(cpu="1"))
            await world.until(lambda at=at: bool(world.node_of(f"small-{at}")), within_s=0.1)  # type: ignore[misc]
            world.cluster.delete_pod(f"default/small-{at}")  # which wakes all others
            await world.sleep(60)
            for queued in queue.pending_pods():
                rejected = queued.unschedulable_count
                delays[rejected] = max(delays.get(rejected, 0.0), queued.backoff_expiration - queued.timestamp)
        # Nothing is kept of hours of attempts.
        assert queue.in_flight_events() == {"PodPopped": 0}
        known = world.scheduler._schedule_one.rejections
        assert known is not None
        assert len(known.known) <= 1
        counts = queue.counts()
        assert counts.unschedulable == len(queue) == PODS
        assert max(delays) > HOURS * 60
        for rejected, delay in delays.items():
            stated = min(2.0 ** (rejected - 1), 10.0)
            assert stated - 1.0 < delay <= stated  # backoffs end in whole seconds
