"""What is read of a whole scheduler, in virtual time."""

from __future__ import annotations

from array import array
from typing import Any

import msgspec

from kscheduler.explain.explainer import Leadership
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.scheduler import Options
from kscheduler.serving.live.readings import VIEWS, Reading
from kscheduler.serving.live.scheduler_reader import MOST_ROWS, RENEW_S, SchedulerReader
from kscheduler.testing import make_node, make_pod
from tests.support.world import World, in_virtual_time

LEADS = Leadership("here_1", True, "here_1")
ZONE = "topology.kubernetes.io/zone"


def observed(**options: Any) -> tuple[World, SchedulerReader]:
    world = World(options=Options(explain=DecisionLogOptions(**options), first_on_tie=True))
    scheduler = world.scheduler
    return world, SchedulerReader(scheduler, scheduler.explainer(lambda: LEADS), world.clock, 300.0)


def taken(reader: SchedulerReader) -> Reading:
    return reader.take(VIEWS, LEADS)


def waits(world: World, pods: int) -> Any:
    return lambda: world.scheduler.queue.counts().unschedulable == pods


@in_virtual_time
async def test_the_queue_is_read_with_reasons_and_times() -> None:
    world, reader = observed()
    async with world:
        world.add_node(make_node("n").capacity(cpu="4", memory="4Gi"))
        world.add_pod(make_pod("low").req(cpu="9"))
        world.add_pod(make_pod("high").req(cpu="9").priority(7))
        world.add_pod(make_pod("gated").scheduling_gate("wait"))
        await world.until(waits(world, 2))
        found = taken(reader)
        assert found.queue is not None
        rows = {row.pod: row for row in found.queue.pods}
        low = rows["default/low"]
        assert (low.pool, low.position, low.attempts, low.plugins) == ("unschedulable", None, 1, ("NodeResourcesFit",))
        assert low.reason.startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert low.retry_at == low.since + 300.0
        assert (rows["default/high"].priority, rows["default/gated"].pool) == (7, "gated")
        assert rows["default/gated"].retry_at is None
        assert found.queue.rejected_by == {"NodeResourcesFit": 2}
        assert (found.numbers.unschedulable, found.numbers.gated, found.numbers.nodes) == (2, 1, 1)
        assert found.numbers.rejected >= 2
        assert msgspec.json.encode(found.queue.pods)


@in_virtual_time
async def test_decisions_are_read_newest_first() -> None:
    world, reader = observed()
    async with world:
        world.add_node(make_node("n").capacity(cpu="4", memory="4Gi"))
        for name in ("first", "second"):
            world.add_pod(make_pod(name).req(cpu="1"))
            await world.until(world.all_bound)
        found = taken(reader).decisions
        assert found is not None
        assert [(row.pod, row.outcome, row.node, row.feasible) for row in found] == [
            ("default/second", "bound", "n", 1),
            ("default/first", "bound", "n", 1),
        ]


@in_virtual_time
async def test_without_decisions_the_page_has_the_rest() -> None:
    world, _ = observed()
    world = World(options=Options(explain=None, first_on_tie=True))
    reader = SchedulerReader(world.scheduler, None, world.clock, 300.0)
    async with world:
        world.add_node(make_node("n").capacity(cpu="4", memory="4Gi"))
        found = taken(reader)
        assert found.decisions == []
        assert reader.explain("default/p")[1] == "this scheduler keeps no decisions: it runs with --explain-decisions=0"


@in_virtual_time
async def test_nodes_are_read_once_and_then_their_changes() -> None:
    world, reader = observed()
    async with world:
        for name in ("a", "b"):
            world.add_node(make_node(name).capacity(cpu="4", memory="4Gi").label(ZONE, f"z-{name}"))
        await world.until(lambda: len(world.scheduler.cache.table) == 2)
        first = taken(reader).nodes
        assert first is not None
        assert (first.rows, first.resources[0], first.resources[-1]) == (None, "cpu", "pods")
        assert first.names is not None
        assert first.labels is not None
        assert sorted(zip(first.names, (labels[ZONE] for labels in first.labels), strict=True)) == [
            ("a", "z-a"),
            ("b", "z-b"),
        ]
        assert array("q", first.allocatable[0]).tolist() == [4_000, 4_000]
        assert taken(reader).nodes is None, "nothing has changed"
        world.add_pod(make_pod("p").req(cpu="1"))
        await world.until(world.all_bound)
        change = taken(reader).nodes
        assert change is not None
        assert change.rows is not None
        assert len(array("i", change.rows)) == 1
        assert (array("q", change.requested[0]).tolist(), change.names) == ([1_000], None)


@in_virtual_time
async def test_new_nodes_are_shown_but_not_each_second() -> None:
    world, reader = observed()
    async with world:
        world.add_node(make_node("a").capacity(cpu="4", memory="4Gi"))
        await world.until(lambda: len(world.scheduler.cache.table) == 1)
        assert taken(reader).nodes is not None
        world.add_node(make_node("b").capacity(cpu="4", memory="4Gi"))
        await world.until(lambda: len(world.scheduler.cache.table) == 2)
        assert taken(reader).nodes is None
        await world.sleep(RENEW_S)
        later = taken(reader).nodes
        assert later is not None
        assert later.names is not None
        assert sorted(later.names) == ["a", "b"]
        reader.forget()
        again = taken(reader).nodes
        assert again is not None
        assert again.rows is None


@in_virtual_time
async def test_a_waiting_pod_is_explained_with_what_nodes_have_free() -> None:
    world, reader = observed()
    async with world:
        world.add_node(make_node("n").capacity(cpu="4", memory="4Gi"))
        world.add_pod(make_pod("big").req(cpu="9"))
        await world.until(waits(world, 1))
        found, words, free = reader.explain("default/big")
        assert found is not None
        assert (found["state"], words) == ("unschedulable", "")
        assert free is not None
        assert (dict(free.asked), free.names) == ({"cpu": 9_000, "pods": 1}, ["n"])
        assert array("q", free.allocatable["cpu"]).tolist() == [4_000]
        gone, why, nothing = reader.explain("default/gone")
        assert (gone, nothing) == (None, None)
        assert "no unfinished pod has this name" in why


@in_virtual_time
async def test_a_node_is_described_with_its_pods() -> None:
    world, reader = observed()
    async with world:
        world.add_node(make_node("n").capacity(cpu="4", memory="4Gi").label("a", "b").taint("k", "v", "NoSchedule"))
        world.add_pod(make_pod("p").req(cpu="1").toleration("k", "Equal", "v", "NoSchedule"))
        await world.until(world.all_bound)
        found = reader.node("n")
        assert found is not None
        assert found["taints"] == [{"key": "k", "value": "v", "effect": "NoSchedule"}]
        assert found["amounts"]["cpu"] == {"requested": 1_000, "allocatable": 4_000}
        assert found["amounts"]["pods"]["requested"] == 1
        assert found["pods"] == [{"pod": "default/p", "priority": 0}]
        assert reader.node("absent") is None


@in_virtual_time
async def test_however_long_the_queue_is_the_rows_are_bounded() -> None:
    world, reader = observed()
    async with world:
        world.add_node(make_node("n").capacity(cpu="4", memory="4Gi"))
        for number in range(3 * MOST_ROWS):
            world.add_pod(make_pod(f"big-{number}").req(cpu="9"))
        await world.until(waits(world, 3 * MOST_ROWS))
        found = taken(reader)
        assert found.queue is not None
        assert len(found.queue.pods) == MOST_ROWS
        assert found.queue.rejected_by == {"NodeResourcesFit": 3 * MOST_ROWS}
