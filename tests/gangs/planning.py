"""Members of gangs, clusters for them, and what a plan has done, for tests of planners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kscheduler.api.objects import Pod
from kscheduler.gangs.planner import Plan
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import PodBuilder, make_node, make_pod
from tests.support.lanes import Side

SHAPES = [
    make_pod("x").req(cpu=1),
    make_pod("x").req(cpu=3),
    make_pod("x").label(app="a").req(cpu=1).pod_anti_affinity("kubernetes.io/hostname", {"app": "a"}),
    make_pod("x").label(app="b").req(cpu="500m").pod_affinity("zone", {"app": "b"}),
]


def racked_cluster(racks: Mapping[str, Sequence[int]]) -> Side:
    """Return a cluster with nodes of so many CPUs in racks called "zone/rack", or in no rack: ""."""
    side = Side(first_on_tie=True)
    for name, cpus in racks.items():
        zone, _, rack = name.rpartition("/")
        for i, cpu in enumerate(cpus):
            host = f"{rack or 'x'}-{zone}{i}"
            node = make_node(host).capacity(cpu=cpu, memory="64Gi", pods=110).label("kubernetes.io/hostname", host)
            if rack:
                node = node.label("example.com/rack", rack)
            if zone:
                node = node.label("zone", zone)
            side.cache.set_node(node.obj())
    return side


def workers(count: int, builder: PodBuilder | None = None, name: str = "w") -> list[QueuedPodInfo]:
    pods = [(builder or make_pod("x").req(cpu=2)).obj() for _ in range(count)]
    return [QueuedPodInfo(PodInfo(_named(each, f"{name}{i}")), 0.0) for i, each in enumerate(pods)]


def _named(pod: Pod, name: str) -> Pod:

    return replace(pod, metadata=replace(pod.metadata, name=name, uid=f"uid-{name}"))


def nodes_of(plan: Plan) -> dict[str, str]:
    return {placed.queued.pod_info.pod.metadata.name: placed.node_name for placed in plan.placed}


def state_of(side: Side) -> dict[str, tuple[object, ...]]:
    columns = side.cache.table.columns
    return {
        info.name: (columns.pod_count(info.row), columns.requested(info.row, 0), columns.non_zero_memory(info.row))
        for info in side.cache.table
    }


def racks_of(plan: Plan) -> set[str]:
    return {name.partition("-")[0] for name in nodes_of(plan).values()}
