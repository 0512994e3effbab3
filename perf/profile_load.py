"""Runs the load for perf.profile: a scheduler and its cluster in one process.

Each step waits for a line of input. The process prints `ready` when nodes are listed and pods are prepared, and starts
when it reads a line: pods are created, seen,
queued, decided, bound and seen bound. Then it prints an `Outcome` as JSON, and ends when it reads another line.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import linecache
import random
import sys
import time
import tracemalloc
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kscheduler.api.objects import Pod
from kscheduler.clock import SystemClock
from kscheduler.command.memory import Collections
from kscheduler.config.load import default_config
from kscheduler.observability.logs import configure
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.cluster import Cluster
from kscheduler.testing import make_node
from perf.decisions import SHAPES, ZONE, ZONES
from perf.profile_sampler import Sampler
from perf.profile_stacks import fold

TICK_S = 0.001  # the watcher of the event loop sleeps so long
WAVE = 500  # pods are created so many at a time, between which the loop turns
LINES_SHOWN = 40
MIB = 1 << 20
# From Linux's prctl.h: a process of the same user may trace us, though it is not our parent.
PR_SET_PTRACER, PR_SET_PTRACER_ANY = 0x59616D61, ctypes.c_ulong(-1)


@dataclass(frozen=True, slots=True)
class Outcome:
    pods: int  # pods that were bound and seen bound
    seconds: float
    cpu_s: float
    lags_ms: list[float]  # how late a periodic task ran, each time


class Load:
    def __init__(self, shape: str, nodes: int, pods: int, seconds: float) -> None:
        self._seconds = seconds
        rng = random.Random(1)
        self._pods = [SHAPES[shape](number, rng).obj() for number in range(pods)]
        clock = SystemClock()
        self._cluster = Cluster(clock, seed=1, history_limit=10 * pods + 1000)
        for number in range(nodes):
            capacity = {"cpu": "32", "memory": "256Gi", "pods": "110"}
            node = make_node(f"n{number}").capacity(**capacity).label(ZONE, f"z{number % ZONES}")
            self._cluster.create_node(node.obj())
        self._scheduler = Scheduler(
            self._cluster.client(),
            default_config(),
            clock=clock,
            rng=random.Random(1),
            metrics=Metrics(),
            stopwatch=time.perf_counter,
            options=Options(),
        )

    async def run(self, begin: Steps) -> Outcome:
        observing = asyncio.ensure_future(self._scheduler.observe())
        await self._scheduler.wait_for_sync()
        collections = Collections()
        collections.start()
        begin.ready()
        lags: list[float] = []
        watching = asyncio.ensure_future(_lags_in_profile(lags))
        started, cpu = time.perf_counter(), time.process_time()
        await self._create_in_profile(self._pods)
        scheduling = asyncio.ensure_future(self._scheduler.schedule())
        while self._is_busy() and time.perf_counter() - started < self._seconds:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        outcome = Outcome(self._placed(), time.perf_counter() - started, time.process_time() - cpu, lags)
        collections.stop()
        begin.done(outcome)
        for task in (watching, scheduling, observing):
            task.cancel()
        await asyncio.gather(watching, scheduling, observing, return_exceptions=True)
        return outcome

    async def _create_in_profile(self, pods: Iterable[Pod]) -> None:
        for number, pod in enumerate(pods, 1):
            self._cluster.create_pod(pod)
            if number % WAVE == 0:
                await asyncio.sleep(0)
        while len(self._scheduler.queue) < len(self._pods):  # noqa: ASYNC110 -- nobody tells
            await asyncio.sleep(0.005)

    def _placed(self) -> int:
        sizes = self._scheduler.cache.sizes()
        return sizes["pods"] - sizes["assumed_pods"]

    def _is_busy(self) -> bool:
        return self._placed() < len(self._pods)


async def _lags_in_profile(lags: list[float]) -> None:
    while True:
        asked = time.perf_counter()
        await asyncio.sleep(TICK_S)
        lags.append(1e3 * max(0.0, time.perf_counter() - asked - TICK_S))


# --- steps ------------------------------------------------------------------------------------------------------


class Steps:
    """What is done before and after the load: this class only talks to the parent process."""

    def ready(self) -> None:
        print("ready", flush=True)
        sys.stdin.readline()

    def done(self, outcome: Outcome) -> None:
        print(json.dumps(asdict(outcome)), flush=True)
        sys.stdin.readline()


class Sampled(Steps):
    """Takes stacks with our own sampler during the load."""

    def __init__(self, path: Path, rate: int) -> None:
        self._path = path
        self._sampler = Sampler(rate)

    def ready(self) -> None:
        super().ready()
        self._sampler.start()

    def done(self, outcome: Outcome) -> None:
        self._path.write_text(fold(self._sampler.stop()), encoding="utf-8")
        super().done(outcome)


class Traced(Steps):
    """Records, with tracemalloc, the memory that the load allocates and keeps."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def ready(self) -> None:
        super().ready()
        tracemalloc.start()

    def done(self, outcome: Outcome) -> None:
        _, peak = tracemalloc.get_traced_memory()
        gc.collect()
        snapshot = tracemalloc.take_snapshot()
        tracemalloc.stop()
        self._path.write_text(allocations(snapshot, outcome.pods, peak), encoding="utf-8")
        super().done(outcome)


def allocations(snapshot: tracemalloc.Snapshot, pods: int, peak: int) -> str:
    """A page: bytes a pod in all, then by file, then by line."""
    ours = snapshot.filter_traces(
        (tracemalloc.Filter(False, tracemalloc.__file__), tracemalloc.Filter(False, __file__))
    )
    by_line, by_file = ours.statistics("lineno"), ours.statistics("filename")
    kept = sum(each.size for each in by_file)
    blocks = sum(each.count for each in by_file)
    lines = [
        f"{pods:,} pods placed, with their cluster in this process",
        f"kept: {kept / MIB:.1f} MiB in {blocks:,} blocks; {kept / max(1, pods):,.0f} bytes, "
        f"{blocks / max(1, pods):.1f} blocks a pod",
        f"peak: {peak / MIB:.1f} MiB, {peak / max(1, pods):,.0f} bytes a pod",
        "",
    ]
    for title, statistics in (("file", by_file), ("line", by_line)):
        lines.append(f"{'bytes/pod':>10} {'blocks/pod':>11} {'share':>7}  {title}")
        for each in statistics[:LINES_SHOWN]:
            frame = each.traceback[0]
            where = _short(frame.filename) + (f":{frame.lineno}" if title == "line" else "")
            text = linecache.getline(frame.filename, frame.lineno).strip() if title == "line" else ""
            lines.append(
                f"{each.size / max(1, pods):10,.1f} {each.count / max(1, pods):11.2f} {100 * each.size / kept:6.1f}%"
                f"  {where}{'  ' * bool(text)}{text}"
            )
        lines.append("")
    return "\n".join(lines)


def _short(path: str) -> str:
    """Without the folder we are in, or the one that packages are in."""
    _, found, rest = path.rpartition("/site-packages/")
    return rest if found else path.removeprefix(f"{Path.cwd()}/")


# --- the command ------------------------------------------------------------------------------------------------


def let_be_traced() -> None:
    """Where the kernel lets only parents trace, let a profiler of the same user. Elsewhere this is no request."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.profile_load", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="basic")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=40_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--sample", type=Path, help="take stacks into this file")
    parser.add_argument("--rate", type=int, default=300, help="stacks a second of CPU time")
    parser.add_argument("--allocations", type=Path, help="trace allocations into this file")
    options = parser.parse_args(argv)
    configure(verbosity=0)
    let_be_traced()
    steps = Steps()
    if options.sample:
        steps = Sampled(options.sample, options.rate)
    elif options.allocations:
        steps = Traced(options.allocations)
    asyncio.run(Load(options.shape, options.nodes, options.pods, options.seconds).run(steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
