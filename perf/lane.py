"""Measures the compiled lane, by which kernels decide pods, without queue, cache and binding.

    python -m perf.lane                                # 10,000 pods on 5,000 nodes, of 1 and of 150 classes
    python -m perf.lane --nodes 100000 --classes 16

Pods of several classes (a class has equal specs) come one after another, in one call of `CompiledLane.place` or in
calls of 256. Printed are microseconds per pod, medians over rounds and their spread: for computing a pod's signature
(once in its life) and for placing it. In the last lines every pod has a label of its own, as pods of StatefulSets have.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence

from kscheduler._fast import COMPILED
from kscheduler.config.load import default_config
from kscheduler.framework.compiled_lane import CompiledLane
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.runtime import Framework
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod

CALLS = (10_000, 256)  # pods in a call


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.lane", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--classes", type=int, nargs="+", default=[1, 150])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    if not COMPILED:
        print("the extensions are not built: there is nothing to measure", file=sys.stderr)
        return 1
    for classes in options.classes:
        for call in CALLS:
            measure(options.nodes, options.pods, classes, call, options.rounds, has_own_label=False)
    measure(options.nodes, options.pods, 1, CALLS[-1], options.rounds, has_own_label=True)
    return 0


def measure(nodes: int, pods: int, classes: int, call: int, rounds: int, *, has_own_label: bool) -> None:
    signing, placing = [], []
    for _ in range(rounds):
        lane = new_lane(nodes)
        lane.place(new_pods(classes, classes, has_own_label=False))
        waiting = new_pods(pods, classes, has_own_label=has_own_label)
        signing.append(microseconds_to_sign(lane, waiting))
        started, done = time.perf_counter(), 0
        while done < pods:
            placed = len(lane.place(waiting[done : done + call]))
            if not placed:
                raise RuntimeError(f"expected all pods to be placed, got {done} of {pods}")
            done += placed
        placing.append((time.perf_counter() - started) / pods * 1e6)
    what = f"{classes} class{'es' * (classes > 1)}, calls of {min(call, pods)}" + ", own labels" * has_own_label
    for step, took in (("sign", signing), ("place", placing)):
        print(f"{what:<40}{step:<6}{statistics.median(took):8.2f}  {min(took):8.2f} ..{max(took):8.2f}  us/pod")


def microseconds_to_sign(lane: CompiledLane, pods: Sequence[PodInfo]) -> float:
    started = time.perf_counter()
    for pod in pods:
        lane.sign(pod)
    return (time.perf_counter() - started) / len(pods) * 1e6


def new_lane(nodes: int) -> CompiledLane:
    measurements = Measurements()
    handle = Handle(table=NodeTable(), rng=random.Random(1))
    for index in range(nodes):
        node = make_node(f"n{index}").label("kubernetes.io/hostname", f"n{index}").label(zone=f"z{index % 3}")
        handle.table.set_node(node.capacity(cpu="64", memory="256Gi", pods=250).obj())
    (profile,) = default_config().profiles
    name, clock = profile.scheduler_name, time.perf_counter
    framework = Framework(name, build(profile, handle), handle, observer=measurements, stopwatch=clock)
    return CompiledLane({name: framework}, handle, measurements, clock)


def new_pods(pods: int, classes: int, *, has_own_label: bool) -> list[PodInfo]:
    made = []
    for index in range(pods):
        kind = index % classes
        pod = make_pod(f"p{index}").label(app=f"app{kind}").req(cpu=f"{50 + kind}m", memory=f"{100 + kind}Mi")
        made.append(PodInfo((pod.label(index=str(index)) if has_own_label else pod).obj()))
    return made


if __name__ == "__main__":
    sys.exit(main())
