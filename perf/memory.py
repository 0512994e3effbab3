"""Measures what a scheduler's cache and informers cost: memory, seconds until synced, and stalls of the event loop.

    python -m perf.memory                                # real-looking pods: 10,000, 50,000 and 150,000 on 5,000 nodes
    python -m perf.memory --pods 50000 --like benchmark  # the small pods that benchmarks create
    python -m perf.memory --pods 50000 --like large      # pods of 10 kB, most of it managedFields
    python -m perf.memory --pods 10000 --types           # what kinds of Python objects use the memory

Lists of nodes and pods are written to files, page by page, as an apiserver would answer them. For each size a separate
process builds a Scheduler whose client reads these pages, decodes them as the real one does, and never has an event.
1,000 more pods are pending. Memory is that of the process: before the first list, afterwards, at its peak, and at its
peak once more when all watches have ended with 410 and everything was listed again in newer versions.
A stall is the CPU time from one turn of the event loop to the next.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from kscheduler.clock import SystemClock
from perf.listed_cluster import LIKE, PAGES, write_cluster

NODES = 5_000
SIZES = (10_000, 50_000, 150_000)
MIB = 1 << 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result:
    """The measurements of one process."""

    pods: int
    before_mib: float  # after building the scheduler, before any list
    after_mib: float  # after everything was listed and garbage was collected
    peak_mib: float
    relist_mib: float  # the peak until everything was listed again
    seconds: float  # until everything is listed
    cpu_s: float
    stall_ms: float  # the longest stall
    collector_ms: float  # the garbage collector's share of the seconds

    def bytes_a_pod(self, without: Result) -> float:
        """`without`: the same nodes and no bound pods."""
        return (self.after_mib - without.after_mib) * MIB / self.pods if self.pods else 0.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.memory", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods", type=int, action="append", help="bound pods, instead of 10,000, 50,000 and 150,000")
    parser.add_argument("--like", choices=list(LIKE), default="real", help="how much a pod says")
    parser.add_argument("--types", action="store_true", help="also show which types and lines hold the memory")
    parser.add_argument("--listed", type=Path, help=argparse.SUPPRESS)  # we are the process that measures
    options = parser.parse_args(argv)
    if options.listed:
        result = asyncio.run(measure(options.listed, options.pods[0], options.types))
        print(json.dumps(asdict(result)))
        return 0
    print(f"{options.nodes:,} nodes, pods like {options.like}")
    print(
        f"{'pods':>8}  {'before':>8}  {'after':>8}  {'peak MiB':>8}  {'relist':>8}  {'bytes/pod':>9}  {'s':>6}  "
        f"{'cpu s':>6}  {'stall ms':>8}  {'gc ms':>6}"
    )
    without: Result | None = None
    for pods in (0, *(options.pods or SIZES)):
        with tempfile.TemporaryDirectory() as directory:
            write_cluster(Path(directory), options.nodes, pods, options.like)
            result = in_a_process(Path(directory), pods, options.types)
        without = without or result
        print(
            f"{result.pods:>8,}  {result.before_mib:8.1f}  {result.after_mib:8.1f}  {result.peak_mib:8.1f}  "
            f"{result.relist_mib:8.1f}  {result.bytes_a_pod(without):9,.0f}  {result.seconds:6.2f}  "
            f"{result.cpu_s:6.2f}  {result.stall_ms:8.1f}  {result.collector_ms:6.0f}",
            flush=True,
        )
    return 0


def in_a_process(directory: Path, pods: int, types: bool) -> Result:
    command = [sys.executable, "-m", "perf.memory", "--listed", str(directory), "--pods", str(pods)]
    done = subprocess.run([*command, *(["--types"] if types else [])], check=True, stdout=subprocess.PIPE, text=True)
    *shown, last = done.stdout.strip().splitlines()
    print("\n".join(shown)) if shown else None
    known = {field.name for field in fields(Result)}
    return Result(**{name: value for name, value in json.loads(last).items() if name in known})


# --- the measured process -----------------------------------------------------------------------------------------


async def measure(directory: Path, pods: int, types: bool) -> Result:
    import kscheduler.client.kube  # a real client's imports count, though its place is taken  # noqa: F401
    from kscheduler.command.memory import Collections
    from kscheduler.config.load import default_config
    from kscheduler.observability.metrics import Metrics
    from kscheduler.scheduler import Scheduler

    client = PagesClient(directory)
    scheduler = Scheduler(
        client,  # type: ignore[arg-type]
        default_config(),
        clock=SystemClock(),
        rng=random.Random(0),
        metrics=Metrics(),
        stopwatch=time.perf_counter,
    )
    collections = Collections()
    collections.start()
    if types:
        tracemalloc.start()
    collector = Collector()
    before = resident_mib()
    stalls = Stalls()
    watching = asyncio.create_task(stalls.watch())
    start, cpu = time.perf_counter(), time.process_time()
    observing = asyncio.create_task(scheduler.observe())
    await collections.while_listing(lambda: scheduler.is_synced)
    await scheduler.wait_for_sync()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    took = collector.seconds
    longest_s = stalls.longest_s
    gc.collect()
    after, peak = resident_mib(), peak_mib()
    await client.expire({informer.resource.plural for informer in scheduler.informers})
    for task in (watching, observing):
        task.cancel()
    await asyncio.gather(watching, observing, return_exceptions=True)
    collections.stop()
    gc.collect()
    if types:
        show_types()
    assert scheduler.cache.sizes()["pods"] == pods, scheduler.cache.sizes()
    return Result(pods, before, after, peak, peak_mib(), seconds, cpu, 1000 * longest_s, 1000 * took)


class PagesClient:
    """A client that answers lists from files, and whose watches report nothing until they have expired."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._expired = asyncio.Event()
        self._ended: set[str] = set()  # kinds whose watch has ended
        self._listed_again: dict[str, asyncio.Event] = defaultdict(asyncio.Event)  # kind -> it is watched again

    async def expire(self, kinds: set[str]) -> None:
        """End all watches with 410, and return once these kinds were listed again, each object in a newer version."""
        self._expired.set()
        for kind in kinds:
            await self._listed_again[kind].wait()

    async def list_page(self, resource: Any, *, limit: int = 500, continue_token: str = "", **_: object) -> Any:
        from kscheduler.client.wire import decode_page

        file = self._directory / PAGES.format(plural=resource.plural, limit=limit, token=continue_token or "0")
        empty = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
        await asyncio.sleep(0)
        text = file.read_bytes() if file.exists() else empty
        if self._expired.is_set():
            text = text.replace(b'"resourceVersion":"', b'"resourceVersion":"9')
        return decode_page(text, resource)

    async def watch(self, resource: Any, **_: object) -> AsyncIterator[list[Any]]:
        from kscheduler.errors import Gone

        if resource.plural not in self._ended:
            await self._expired.wait()
            self._ended.add(resource.plural)
            raise Gone("too old resource version", status=410)
        self._listed_again[resource.plural].set()
        await asyncio.Event().wait()
        yield []


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Stalls:
    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self) -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            self.longest_s = max(self.longest_s, now - last)
            last = now


class Collector:
    """Adds up the time that Python's garbage collector takes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started = 0.0
        gc.callbacks.append(self._tell)

    def _tell(self, phase: str, info: object) -> None:
        if phase == "start":
            self._started = time.perf_counter()
        else:
            self.seconds += time.perf_counter() - self._started


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / MIB


def show_types() -> None:
    """The lines that allocated most of what is alive, and the collector's objects by type."""
    for found in tracemalloc.take_snapshot().statistics("lineno")[:16]:
        line = found.traceback[0]
        print(
            f"    {found.size / MIB:8.2f} MiB {found.count:9,}  {'/'.join(line.filename.split('/')[-2:])}:{line.lineno}"
        )
    tracked = Counter(type(each).__name__ for each in gc.get_objects())
    print("    tracked by the collector:", ", ".join(f"{name} {count:,}" for name, count in tracked.most_common(8)))


if __name__ == "__main__":
    sys.exit(main())
