"""Measures a filter guest of kube-scheduler-wasm-extension's interface that has to be called for each pod and node.

    python -m perf.wasm_filter
    python -m perf.wasm_filter --nodes 5000 --pods 5 --images 30 --guest /path/of/another.wasm

The guest is perf/wasm_guests/extension_filter, in Go: like guests made with the interface's SDK, it decodes each node
it is called for, and keeps it until the pod's cycle ends. It is compiled here, which takes minutes the first time. A
seventh of the nodes has a taint. Three ways take turns, pod by pod:

    one by one   every node on one instance, on the thread of the event loop
    divided      every node, in groups on several instances (percentageOfNodesToScore: 100)
    apart        as a scheduler does: as many nodes as kube-scheduler filters, beside the event loop

`CPU` is that of the whole process; `loop` that of the event loop's thread; `lag` the maximum lateness of a timer of the
event loop. It is checked that all ways give the same verdicts.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kscheduler._fast import Verdicts
from kscheduler.cache.cache import Cache
from kscheduler.framework.algorithm import feasible_nodes_to_find
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.faults import AnswersToCome
from kscheduler.framework.interface import Handle
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from kscheduler.wasm.binding_threads import BindingThreads
from kscheduler.wasm.extension.rows import Answer, Ends
from kscheduler.wasm.plugins import GuestPlugins

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "perf" / "wasm_guests" / "extension_filter"
TARGET = ROOT / "build" / "guests" / "extension_filter.wasm"
ONE_BY_ONE, DIVIDED, APART = "one by one", "divided", "apart"
TICK_S = 0.001


@dataclass(slots=True)
class Cost:
    wall_ms: float
    cpu_ms: float
    loop_ms: float
    lag_ms: float
    asked: int
    verdicts: dict[int, bool]  # row -> whether the pod fits, for rows that the guest was called for


def build_guest() -> Path:
    sources = [path for path in SOURCE.iterdir() if path.is_file()]
    if not TARGET.exists() or TARGET.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        TARGET.parent.mkdir(parents=True, exist_ok=True)
        wasi = {**os.environ, "GOOS": "wasip1", "GOARCH": "wasm", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
        command = ["go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", str(TARGET), "."]
        subprocess.run(command, cwd=SOURCE, env=wasi, check=True)
    return TARGET


class Scene:
    def __init__(self, guest: Path, nodes: int, images: int) -> None:
        self.cache = Cache()
        for number in range(nodes):
            node = make_node(f"node-{number:05}").label(zone=f"z{number % 3}", pool=f"p{number % 11}")
            node = node.capacity(cpu=32, memory="64Gi").allocatable(cpu=32, memory="64Gi")
            if number % 7 == 0:
                node = node.taint("dedicated", "x")
            for image in range(images):
                name = f"registry.example.com/team/app-{(number + image) % 97}:v1.{image}"
                node = node.image(name, 10_000_000 + image)
            self.cache.set_node(node.obj())
        args = {"guestURL": f"file://{guest}", "memory": "1Gi", "deadline": "1s", "args": ["guest"]}
        handle = Handle(table=self.cache.table, rng=random.Random(0))
        kind = GuestPlugins(cache_dir=None).class_of("Filter", args, "args")
        self.plugin: Any = kind(args, handle)
        self.threads = BindingThreads(max(1, len(os.sched_getaffinity(0)) - 1))
        self._size = len(self.plugin._world.node("node-00001"))

    @property
    def node_bytes(self) -> int:
        return self._size

    async def ask(self, pod: PodInfo, way: str) -> Cost:
        plugin, table = self.plugin, self.cache.table
        plugin.surroundings.filter_threads = self.threads if way == APART else None
        divided = plugin.is_divided
        if way == ONE_BY_ONE:
            plugin.is_divided = lambda export: False
        asked: set[int] = set()
        verdicts = Verdicts()
        noting = _Noting(plugin, asked)
        lag = _Lag()
        watch = asyncio.create_task(lag.watch())
        await asyncio.sleep(5 * TICK_S)
        lag.worst_s = 0.0
        started, cpu, loop = time.perf_counter(), time.process_time(), time.thread_time()
        try:
            while True:
                state = CycleState()
                state.may_wait = way == APART
                verdicts.reset(table.columns)
                try:
                    plugin.pre_filter(state, pod)
                    if way == APART:
                        plugin.filter_until(state, pod, table, verdicts, 1, 0, _to_find(len(table)) + 1)
                    else:
                        plugin.filter_table(state, pod, table, verdicts, 1)
                    break
                except AnswersToCome as waiting:
                    await waiting.ask()
            wall_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu
            loop_s = time.thread_time() - loop
            await asyncio.sleep(2 * TICK_S)  # until the timer that was held up has been seen
        finally:
            noting.end()
            if way == ONE_BY_ONE:
                plugin.is_divided = divided
            watch.cancel()
        fits = set(verdicts.feasible_rows())
        recorded = {row: row in fits for row in asked}
        return Cost(wall_s * 1e3, cpu_s * 1e3, loop_s * 1e3, lag.worst_s * 1e3, len(asked), recorded)


def _to_find(nodes: int) -> int:
    return feasible_nodes_to_find(max(50 - nodes // 125, 5), nodes)


class _Noting:
    """Records the rows (nodes) for which a plugin calls its guest."""

    def __init__(self, plugin: Any, asked: set[int]) -> None:
        self._plugin = plugin
        here, apart = plugin.answers, plugin.answers_apart

        def answers(export: str, cycle: Any, rows: list[int], ends: Ends) -> list[Answer]:
            asked.update(rows)
            found: list[Answer] = here(export, cycle, rows, ends)
            return found

        async def answers_apart(threads: Any, export: str, cycle: Any, rows: list[int], ends: Ends) -> list[Answer]:
            asked.update(rows)
            found: list[Answer] = await apart(threads, export, cycle, rows, ends)
            return found

        plugin.answers, plugin.answers_apart = answers, answers_apart

    def end(self) -> None:
        del self._plugin.answers, self._plugin.answers_apart


class _Lag:
    worst_s = 0.0

    async def watch(self) -> None:
        while True:
            due = time.perf_counter() + TICK_S
            await asyncio.sleep(TICK_S)
            self.worst_s = max(self.worst_s, time.perf_counter() - due)


async def measure(scene: Scene, pods: int) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {ONE_BY_ONE: [], DIVIDED: [], APART: []}
    for number in range(-1, pods):  # the first one warms up
        for way, found in costs.items():
            pod = PodInfo(make_pod(f"{way.replace(' ', '-')}-{number}").toleration("other", "Equal", "x").obj())
            cost = await scene.ask(pod, way)
            if number >= 0:
                found.append(cost)
    return costs


def differences(costs: dict[str, list[Cost]]) -> int:
    """Nodes about which two ways say something else."""
    truth = costs[ONE_BY_ONE][0].verdicts
    return sum(truth[row] != fits for found in costs.values() for cost in found for row, fits in cost.verdicts.items())


def table(costs: dict[str, list[Cost]]) -> str:
    base = [cost.cpu_ms for cost in costs[ONE_BY_ONE]]
    head = f"{'a pod':12} {'nodes asked':>11} {'CPU ms':>9} {'wall ms':>9} {'loop ms':>9} {'lag ms':>8}"
    lines = [f"{head}   CPU less by"]
    for way, found in costs.items():
        middle = [
            statistics.median(getattr(cost, name) for cost in found)
            for name in ("asked", "cpu_ms", "wall_ms", "loop_ms", "lag_ms")
        ]
        less = statistics.median(one / cost.cpu_ms for one, cost in zip(base, found, strict=True))
        shown = " ".join(f"{value:>{width}.{digits}f}" for value, width, digits in zip(
            middle, (11, 9, 9, 9, 8), (0, 1, 1, 1, 1), strict=True))  # fmt: skip
        lines.append(f"{way:12} {shown}   {less:.1f}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=5)
    parser.add_argument("--images", type=int, default=0, help="on each node; a kubelet tells of up to 50")
    parser.add_argument("--guest", type=Path, default=None, help="in place of the one in Go")
    options = parser.parse_args()
    scene = Scene(options.guest or build_guest(), options.nodes, options.images)
    print(f"{options.nodes} nodes of {scene.node_bytes} bytes, {options.pods} pods")
    costs = asyncio.run(measure(scene, options.pods))
    print(table(costs))
    found = differences(costs)
    print(f"verdicts that differ: {found}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
