"""Configurations whose difference is known, small clusters, and records of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from kscheduler.api.objects import Node, Pod, Taint
from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.compare.sides import SimulatedSide
from kscheduler.config.load import parse_config
from kscheduler.record.recorder import RecorderOptions
from kscheduler.scheduler import Options
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.options import SimulateArguments
from kscheduler.simulator.real_scheduler import RealScheduler
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.simulator.virtual_time import LoopClock
from kscheduler.wasm.plugins import GuestPlugins
from tests.record.recording import record
from tests.simulator.first_fit import make_node
from tests.simulator.objects import pod

_HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
_PROFILE = _HEAD + "profiles:\n- schedulerName: default-scheduler\n"
DEFAULT = _HEAD


def packing(strategy: str) -> str:
    """A configuration in which only NodeResourcesFit scores, by this strategy."""
    arguments = f"scoringStrategy: {{type: {strategy}, resources: [{{name: cpu, weight: 1}}]}}"
    return (
        _PROFILE
        + "  plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit, weight: 2}]}}\n"
        + f"  pluginConfig: [{{name: NodeResourcesFit, args: {{{arguments}}}}}]\n"
    )


LEAST, MOST = packing("LeastAllocated"), packing("MostAllocated")
SAMPLING = _PROFILE + "  percentageOfNodesToScore: 10\n"
WITHOUT_TAINTS = _PROFILE + "  plugins: {multiPoint: {disabled: [{name: TaintToleration}]}}\n"


def nodes(count: int, cpu: str = "4") -> list[Node]:
    return [make_node(f"n{number}", cpu=cpu) for number in range(count)]


def tainted(node: Node) -> Node:
    return replace(node, spec=replace(node.spec, taints=[Taint(key="team", value="a", effect="NoSchedule")]))


def arriving(*pods: Pod) -> list[Arrival]:
    """The pods, one each second."""
    return [Arrival(float(second), each) for second, each in enumerate(pods)]


def simulated(name: str, scenario: Scenario, config: str = DEFAULT, seed: int = 0, **options: object) -> SimulatedSide:
    """A side that takes the first of equal nodes, unless `options` say otherwise."""
    given: dict[str, object] = {"first_on_tie": True, "seed": seed, **options}
    arguments = SimulateArguments(**given)  # type: ignore[arg-type]
    guests = GuestPlugins(cache_dir=None, reloads=False)
    return SimulatedSide(name, scenario, parse_config(config), arguments, guests, parameters={"configuration": name})


def write_record(path: Path, config: str, cluster_nodes: Sequence[Node], pods: Sequence[Pod]) -> None:
    """Record a cluster in which a scheduler of this configuration places the pods, one each second."""

    async def play(cluster: Cluster) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        options = Options(first_on_tie=True)
        scheduler = RealScheduler(cluster.client(), clock, random.Random(1), parse_config(config), options)
        running = asyncio.ensure_future(scheduler.run())
        try:
            await scheduler.wait_for_sync()
            for each in pods:
                cluster.create_pod(each)
                await asyncio.sleep(1.0)
        finally:
            await cancel_and_wait(running)

    record(
        RecorderOptions(path, configuration=config),
        lambda cluster: [cluster.create_node(each) for each in cluster_nodes],
        play,
    )


def small_pods(count: int, cpu: str = "500m") -> list[Pod]:
    return [pod(f"p{number}", cpu=cpu) for number in range(count)]
