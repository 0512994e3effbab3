"""Compares how fast gangs are bound with how fast the same pods in no group are, by kscheduler, in turns.

    python -m perf.gang_rates --nodes 5000 --pods 1000 --rounds 3    # on a real control plane (needs Go)
    python -m perf.gang_rates --count                                # calls of Python functions, in memory

`plain` are pods in no group, `one` is one gang of all pods, `tens` are gangs of ten pods. On the control plane, each of
them gets a fresh cluster of Kubernetes 1.37, and each round begins with another one. The pods are created while the
scheduler is stopped (SIGSTOP), and time and CPU count from when it goes on until the last binding: a gang can be placed
only once its last pod has come, so that pods in no group would be ahead else. Ratios are taken within a round, and
printed as median (lowest .. highest).

`--count` counts the calls for a pod from its watch event to the confirmed binding, without the cluster in memory, and
prints the functions that differ most from `plain`; and what the scheduler writes: bindings, Events, statuses.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import cProfile
import enum
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import uvloop
import yaml

from kscheduler.client.kinds import PODS
from kscheduler.config.gate_settings import with_settings
from kscheduler.config.releases import release_of
from kscheduler.testing.controlplane.load import Batch
from perf.counted import name_of
from perf.ratios import spread
from perf.workloads.control_plane_site import ControlPlaneSite, start_kscheduler
from perf.workloads.embedded_cluster import EmbeddedCluster
from perf.workloads.suite import Plan

KUBERNETES = "1.37"
GATES = {"GenericWorkload": True}
NAMESPACE = "measured"
POD_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
GROUP_PATH = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups"
FEW = 10  # members of a gang of `tens`
QPS = 10_000
TIMEOUT_S = 600.0
_AMOUNTS = {"cpu": "64", "memory": "256Gi", "pods": "110"}
_OTHERS = ("simulator/", "workloads/", "perf/", "client/merge_patch.py", "api/decode.py", "input/", "api/defaults.py")


class Kind(enum.StrEnum):
    PLAIN = "plain"
    ONE = "one"
    TENS = "tens"


@dataclass(frozen=True, slots=True)
class Result:
    """What binding all pods took."""

    pods_per_s: float
    cpu_ms: float  # of the scheduler, for a pod
    apiserver_cpu_ms: float


def node() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-{index}"},
        "status": {"capacity": _AMOUNTS, "allocatable": _AMOUNTS},
    }


def groups(kind: Kind, pods: int) -> list[dict[str, Any]]:
    """Return the PodGroups of as many pods."""
    members = {Kind.PLAIN: pods + 1, Kind.ONE: pods, Kind.TENS: FEW}[kind]
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": f"group-{number}"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": members}}},
        }
        for number in range(pods // members)
    ]


def pod(kind: Kind, number: int, pods: int) -> dict[str, Any]:
    """Return one of so many pods."""
    requests = {"cpu": "100m", "memory": "100Mi"}
    spec: dict[str, Any] = {
        "containers": [{"name": "pause", "image": "pause:3.10", "resources": {"requests": requests}}]
    }
    if kind is not Kind.PLAIN:
        members = pods if kind is Kind.ONE else FEW
        spec["schedulingGroup"] = {"podGroupName": f"group-{number // members}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}"}, "spec": spec}


# --- on a control plane ---


def measure(kind: Kind, nodes: int, pods: int) -> Result:
    """Bind all pods once, on a cluster of their own."""
    plan = Plan("gang_rates", kind, (), {}, GATES, KUBERNETES)
    with ControlPlaneSite(start_kscheduler(QPS), plan) as site:
        with contextlib.closing(site.connect()) as api:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            api.create("/api/v1/namespaces", namespace)
            site.create(Batch("/api/v1/nodes", [node()], nodes))
            if made := groups(kind, pods):
                site.create(Batch(GROUP_PATH, made, len(made)))
        warm_up = [{**pod(Kind.PLAIN, number, pods), "metadata": {"name": f"first-{number}"}} for number in range(FEW)]
        site.create(Batch(POD_PATH, warm_up, FEW))
        site.pods.wait_bound([f"{NAMESPACE}/first-{number}" for number in range(FEW)], TIMEOUT_S, site.check)
        process = site.process("kscheduler")
        process.signal(signal.SIGSTOP)
        site.create(Batch(POD_PATH, [pod(kind, number, pods) for number in range(pods)], pods))
        before, started = site.usage(), time.monotonic()
        process.signal(signal.SIGCONT)
        keys = [f"{NAMESPACE}/pod-{number}" for number in range(pods)]
        site.pods.wait_bound(keys, TIMEOUT_S, site.check)
        after = site.usage()
        ended = max(at for key in keys if (at := site.pods.bound_s(key)) is not None)
    return Result(
        pods / (ended - started),
        1000 * (after.scheduler_cpu_s - before.scheduler_cpu_s) / pods,
        1000 * (after.apiserver_cpu_s - before.apiserver_cpu_s) / pods,
    )


# --- in memory ---


@dataclass(frozen=True, slots=True)
class Counts:
    """What all pods took, for each of them."""

    calls: dict[str, float]  # of functions
    writes: dict[str, float]


def count(kind: Kind, nodes: int, pods: int) -> Counts:
    """Count calls and writes for a pod."""
    profile = cProfile.Profile(builtins=False)
    writes = uvloop.run(_bind_in_memory(kind, nodes, pods, profile))
    found: Counter[str] = Counter()
    for entry in profile.getstats():
        if isinstance(entry.code, CodeType) and not (name := name_of(entry.code)).startswith(_OTHERS):
            found[name] += entry.callcount
    return Counts(
        {name: calls / pods for name, calls in found.most_common()},
        {name: number / pods for name, number in writes.most_common()},
    )


async def _bind_in_memory(kind: Kind, nodes: int, pods: int, profile: cProfile.Profile) -> Counter[str]:
    """Bind all pods, and return how much was written of what. `profile`: enabled from their creation on."""
    embedded = EmbeddedCluster(with_settings(release_of(KUBERNETES), GATES)[0])
    cluster, writes = embedded.cluster, Counter[str]()
    await embedded.create("/api/v1/nodes", [node()], nodes)
    if made := groups(kind, pods):
        await embedded.create(GROUP_PATH, made, len(made))
    configuration = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    await embedded.call("START", body=yaml.safe_dump(configuration))
    version = cluster.version
    profile.enable()
    await embedded.create(POD_PATH, [pod(kind, number, pods) for number in range(pods)], pods)
    while any(not each.spec.node_name for each in cluster.store(PODS).objects.values()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)  # until the bindings are confirmed, and Events and statuses written
    profile.disable()
    writes["all but Events"] = cluster.version - version - pods
    writes["Events"] = len(cluster.scheduled)
    await embedded.call("STOP")
    return writes


# --- the command ---


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m perf.gang_rates", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", type=Kind, nargs="+", choices=[*Kind], default=[*Kind])
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", action="store_true", help="count calls and writes instead, in memory")
    parser.add_argument("--most", type=int, default=20, help="functions to print")
    options = parser.parse_args(argv)
    kinds: list[Kind] = list(dict.fromkeys([Kind.PLAIN, *options.kinds]))
    if options.count:
        _print_counts({kind: count(kind, options.nodes, options.pods) for kind in kinds}, options.most)
        return 0
    found: dict[Kind, list[Result]] = {kind: [] for kind in kinds}
    for number in range(options.rounds):
        first = number % len(kinds)
        for kind in kinds[first:] + kinds[:first]:
            found[kind].append(result := measure(kind, options.nodes, options.pods))
            print(f"round {number + 1}: {kind}: {result.pods_per_s:.0f} pods/s", file=sys.stderr, flush=True)
    _print_rates(found)
    return 0


def _print_counts(counted: dict[Kind, Counts], most: int) -> None:
    plain = counted[Kind.PLAIN].calls
    for kind, counts in counted.items():
        written = ", ".join(f"{number:.2f} {what}" for what, number in counts.writes.items())
        print(f"{kind}: {sum(counts.calls.values()):.0f} calls a pod, written: {written}")
        if kind is not Kind.PLAIN:
            names = sorted(counts.calls, key=lambda name: plain.get(name, 0.0) - counts.calls[name])
            for name in names[:most]:
                print(f"{counts.calls[name] - plain.get(name, 0.0):10.2f} {name}")


def _print_rates(found: dict[Kind, list[Result]]) -> None:
    print(f"{'':10}{'pods/s':>24}{'CPU of a pod, ms':>28}{'that of kube-apiserver, ms':>28}")
    for kind, results in found.items():
        rates = spread([each.pods_per_s for each in results])
        cpu, apiserver = spread([each.cpu_ms for each in results]), spread([each.apiserver_cpu_ms for each in results])
        print(f"{kind:10}{rates!s:>24}{cpu!s:>28}{apiserver!s:>28}")
        if kind is not Kind.PLAIN:
            pairs = list(zip(results, found[Kind.PLAIN], strict=True))
            ratio = spread([each.pods_per_s / other.pods_per_s for each, other in pairs])
            of_cpu = spread([each.cpu_ms / other.cpu_ms for each, other in pairs])
            print(f"{'  of plain':10}{ratio!s:>24}{of_cpu!s:>28}")


if __name__ == "__main__":
    sys.exit(main())
