"""The metrics API has what nodes used between two looks, never more than they have, at the time of the last look."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kscheduler.api.objects import Node
from kscheduler.errors import APIError, NotFound, Unreachable
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.faults import Faults
from kscheduler.simulator.metrics_plan import HANG, UNAVAILABLE, MetricsPlan, Outage
from kscheduler.simulator.metrics_server import API, NODES, serve_metrics
from kscheduler.simulator.real_load import RealLoad
from kscheduler.simulator.usage import USAGE_CPU, USAGE_MEMORY, USAGE_RAMP
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.testing import make_node, make_pod
from tests.support.clocks import ManualClock


def node(name: str, **usage: str) -> Node:
    built = make_node(name).capacity(cpu=4, memory="8Gi", pods=10)
    return built.annotation(USAGE_CPU, usage.get("cpu", "0")).obj()


class Bench:
    """A cluster of one node with 4 cores, asked every now and then."""

    def __init__(self, interval_s: float = 15.0) -> None:
        self.clock = ManualClock(1_000.0)
        self.cluster = Cluster(self.clock)
        self.loads: list[RealLoad] = []
        self.cluster.create_node(node("n0"))
        serve_metrics(self.cluster, self._load, MetricsPlan(interval_s), Faults(), self.clock.now)

    def _load(self) -> RealLoad:
        self.loads.append(RealLoad(self.cluster))
        return self.loads[-1]

    def run(self, name: str, cpu: str, memory: str = "0", ramp: str = "0", on: str = "n0") -> None:
        usage = (USAGE_CPU, cpu, USAGE_MEMORY, memory, USAGE_RAMP, ramp)
        self.cluster.create_pod(make_pod(name).annotation(*usage).node(on).obj())

    def items(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.cluster.get_aggregated(NODES))["items"]
        return found

    def cpu(self) -> float:
        """Cores, of the first node."""
        text = self.items()[0]["usage"]["cpu"]
        assert text.endswith("n")
        return int(text[:-1]) / 1e9


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_nodes_that_were_there_are_known_at_once(bench: Bench) -> None:
    bench.run("a", "1500m", "2Gi")
    (item,) = bench.items()
    assert item["metadata"]["name"] == "n0"
    assert item["usage"] == {"cpu": "1500000000n", "memory": f"{2 << 20}Ki"}
    assert item["window"] == "15s"


def test_cpu_is_the_mean_between_two_looks_and_memory_the_last_one(bench: Bench) -> None:
    bench.items()
    bench.clock.advance(5.0)
    bench.run("a", "3", "1Gi")
    assert bench.cpu() == 0.0  # the next look is at 15 s
    bench.clock.advance(10.0)
    assert bench.cpu() == pytest.approx(2.0)
    assert bench.items()[0]["usage"]["memory"] == f"{1 << 20}Ki"
    bench.cluster.delete_pod("default/a")
    assert bench.cpu() == pytest.approx(2.0)
    bench.clock.advance(15.0)
    assert bench.cpu() == 0.0


def test_the_timestamp_is_that_of_the_last_look(bench: Bench) -> None:
    first = bench.items()[0]["timestamp"]
    bench.clock.advance(14.9)
    assert bench.items()[0]["timestamp"] == first
    bench.clock.advance(20.0)
    later = bench.items()[0]["timestamp"]
    assert int(later[-3:-1]) - int(first[-3:-1]) in (30, -30)


def test_looks_that_nobody_asked_for_are_those_that_would_have_been_taken(bench: Bench) -> None:
    """Asked only at the end, it says the same as when asked all the time."""
    diligent = Bench()
    for each in (bench, diligent):
        each.items()
    for step in range(40):
        for each in (bench, diligent):
            each.clock.advance(3.7)
            if step % 7 == 2:
                each.run(f"p{step}", f"{step * 20}m", ramp="11")
        diligent.items()
    assert bench.items() == diligent.items()
    assert bench.cpu() > 0


def test_a_node_cannot_give_more_than_it_has(bench: Bench) -> None:
    bench.run("a", "9", "16Gi")
    assert bench.items()[0]["usage"] == {"cpu": "4000000000n", "memory": f"{8 << 20}Ki"}


def test_a_node_that_comes_later_is_shown_after_two_looks(bench: Bench) -> None:
    bench.items()
    bench.clock.advance(1.0)
    bench.cluster.create_node(node("n1", cpu="2"))
    bench.clock.advance(14.0)
    assert len(bench.items()) == 1
    bench.clock.advance(15.0)
    assert [item["usage"]["cpu"] for item in bench.items()] == ["0n", "2000000000n"]


def test_a_node_that_is_gone_is_not_shown(bench: Bench) -> None:
    bench.items()
    bench.cluster.delete_node("n0")
    bench.clock.advance(15.0)
    assert bench.items() == []


def test_nothing_is_counted_until_somebody_asks(bench: Bench) -> None:
    bench.run("a", "1")
    assert bench.loads == []
    bench.items()
    bench.items()
    assert len(bench.loads) == 1


def test_other_paths_are_not_served(bench: Bench) -> None:
    for path in (f"{API}/pods", f"{API}/nodes/n0"):
        with pytest.raises(NotFound):
            bench.cluster.get_aggregated(path)


def test_an_outage_is_met_by_clients_between_its_times_only() -> None:
    outages = [Outage(UNAVAILABLE, 10.0, 20.0), Outage(HANG, 30.0, 50.0)]

    async def play() -> list[tuple[float, str]]:
        loop = asyncio.get_running_loop()
        cluster = Cluster(LoopClock(loop))
        cluster.create_node(node("n0"))
        faults = Faults()
        serve_metrics(cluster, lambda: RealLoad(cluster), MetricsPlan(outages=outages), faults, loop.time)
        client, met = cluster.client(faults=faults), []
        for at in (5.0, 10.0, 19.9, 20.0, 31.0, 52.0):
            await asyncio.sleep(max(0.0, at - loop.time()))
            try:
                await client.get_aggregated(NODES, limit_bytes=10_000)
                met.append((loop.time(), "answered"))
            except Unreachable:
                met.append((loop.time(), "no answer"))
            except APIError as error:
                met.append((loop.time(), str(error.status)))
        return met

    assert run_virtual(play()) == [
        (5.0, "answered"),
        (10.0, "503"),
        (19.9, "503"),
        (20.0, "answered"),
        (51.0, "no answer"),
        (52.0, "answered"),
    ]
