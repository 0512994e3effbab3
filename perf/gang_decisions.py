"""Measures how long one gang is decided: from its turn until all its members are assumed, or its verdict is there.

    python -m perf.gang_decisions    # 5,000 nodes, a gang of 1,000 that fits, and two of 500 that do not

In memory, with Kubernetes 1.37's PodGroups. `fits` is one gang of equal pods. `lacks nodes` is one whose pods each need
a node of a label to themselves, of which there are 20 too few: its members are placed, and taken back. `fits nowhere`
asks for more than any node has. Times are CPU time of the thread that decides, for the whole gang, as median (lowest ..
highest). `planned` is the part until it is known where each member goes, `decided` all of it. Each time, the scheduler
is a new one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import enum
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import uvloop
import yaml

from kscheduler.client.kinds import PODS
from kscheduler.config.gate_settings import with_settings
from kscheduler.config.releases import release_of
from kscheduler.gangs.gang_cycle import GangCycle
from kscheduler.gangs.planner import Planner
from perf.gang_rates import GATES, GROUP_PATH, KUBERNETES, POD_PATH, Kind, groups, node, pod
from perf.ratios import spread
from perf.workloads.embedded_cluster import EmbeddedCluster

LABEL = "kind"
LACKING = 20  # nodes


class Gang(enum.StrEnum):
    FITS = "fits"
    LACKS_NODES = "lacks nodes"
    FITS_NOWHERE = "fits nowhere"


@dataclass(slots=True)
class Took:
    """CPU time of one decision, in seconds."""

    planned: float = 0.0
    decided: float = 0.0
    decisions: int = 0


@contextlib.contextmanager
def timed(took: Took) -> Iterator[None]:
    """Add up what gangs take that are decided meanwhile."""

    def adding(function: Callable[..., Any], to: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            began = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                setattr(took, to, getattr(took, to) + time.thread_time() - began)
                took.decisions += to == "decided"

        return call

    run, plan = GangCycle.run, Planner.plan
    GangCycle.run, Planner.plan = adding(run, "decided"), adding(plan, "planned")  # type: ignore[method-assign]
    try:
        yield
    finally:
        GangCycle.run, Planner.plan = run, plan  # type: ignore[method-assign]


async def decide(gang: Gang, nodes: int, pods: int) -> Took:
    """Decide one gang once, and return what it took."""
    embedded, took = EmbeddedCluster(with_settings(release_of(KUBERNETES), GATES)[0]), Took()
    few = {**node(), "metadata": {"name": "few-{index}", "labels": {LABEL: "few"}}}
    await embedded.create("/api/v1/nodes", [few], pods - LACKING)
    await embedded.create("/api/v1/nodes", [node()], nodes - pods + LACKING)
    await embedded.create(GROUP_PATH, groups(Kind.ONE, pods), 1)
    configuration = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    await embedded.call("START", body=yaml.safe_dump(configuration))
    with timed(took):
        await embedded.create(POD_PATH, [member(gang, number, pods) for number in range(pods)], pods)
        while not took.decisions:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    def placed() -> int:
        return sum(bool(each.spec.node_name) for each in embedded.cluster.store(PODS).objects.values())

    while gang is Gang.FITS and placed() < pods:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    if gang is not Gang.FITS and placed():
        raise RuntimeError(f"{gang}: expected no member on a node, found {placed()}")
    await embedded.call("STOP")
    return took


def member(gang: Gang, number: int, pods: int) -> dict[str, Any]:
    """Return one of so many pods of a gang."""
    made = pod(Kind.ONE, number, pods)
    requests = made["spec"]["containers"][0]["resources"]["requests"]
    if gang is Gang.LACKS_NODES:
        made["spec"]["nodeSelector"] = {LABEL: "few"}
        requests["cpu"] = "40"  # of 64
    elif gang is Gang.FITS_NOWHERE:
        requests["cpu"] = "65"
    return made


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m perf.gang_decisions", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=1_000, help="of the gang that fits; half as many of the others")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    print(f"{'':14}{'pods':>6}{'planned, ms':>24}{'decided, ms':>24}")
    for gang in Gang:
        pods = options.pods if gang is Gang.FITS else options.pods // 2
        found = [uvloop.run(decide(gang, options.nodes, pods)) for _ in range(options.rounds)]
        planned = spread([1000 * each.planned for each in found])
        print(f"{gang:14}{pods:6}{planned!s:>24}{spread([1000 * each.decided for each in found])!s:>24}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
