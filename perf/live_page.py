"""Measures what the live page costs the scheduler's process while viewers watch, beside the same bursts without them.

    python -m perf.live_page                              # 20 viewers, 5,000 nodes, 6 pairs of bursts of 50,000 pods
    python -m perf.live_page --viewers 100 --rounds 10

The real process (`kscheduler run --ui`) places bursts of pods beside an apiserver stub; every second burst is watched,
in the order A B, B A. The viewers take all views in turn. They prove by client certificate who they are, since the stub
reviews no tokens. CPU time is the kernel's, by thread: the main thread schedules, the page's does all for viewers.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp

from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.probes import unverified_tls
from kscheduler.testing.controlplane.stub_apiserver import StubApiserver
from perf import pod_shapes
from perf.ceiling import OTHER_CORE, SCHEDULER_CORE, burst
from perf.served_objects import served_node

VIEWS = ("overview", "queue", "decisions", "nodes")


class Spent(NamedTuple):
    """CPU time in seconds."""

    main: float
    others: float  # the page's thread; other threads do next to nothing in these bursts

    @classmethod
    def by(cls, pid: int) -> Spent:
        times = {
            int(task.name): int((task / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
            for task in Path(f"/proc/{pid}/task").iterdir()
        }
        return cls(times.pop(pid), sum(times.values()))


class Viewers:
    """Open streams of the page, in a thread of this process."""

    def __init__(self, url: str, certificate: tuple[Path, Path], count: int) -> None:
        self._url = url
        self._tls = unverified_tls()
        self._tls.load_cert_chain(*certificate)
        self._count = count
        self._watching: set[int] = set()  # viewers that were sent something
        self.bytes = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Have all viewers watch, from when each was sent its first document."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        future = asyncio.run_coroutine_threadsafe(self._watch(), loop)
        try:
            eventually(lambda: len(self._watching) == self._count or future.done(), "all viewers watch")
            yield
        finally:
            future.cancel()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.run_until_complete(asyncio.sleep(0.1))  # connections close
            loop.close()
            self._watching.clear()

    async def _watch(self) -> None:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:
            await asyncio.gather(*(self._one(session, number) for number in range(self._count)))

    async def _one(self, session: aiohttp.ClientSession, number: int) -> None:
        async with session.get(f"{self._url}/ui/api/stream?view={VIEWS[number % len(VIEWS)]}") as response:
            response.raise_for_status()
            async for chunk in response.content.iter_any():
                self._watching.add(number)
                self.bytes += len(chunk)


def main(argv: Sequence[str] | None = None) -> int:
    """Run pairs of bursts and print the CPU time per pod of both kinds."""
    parser = argparse.ArgumentParser(prog="perf.live_page", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args(argv)
    spent: dict[bool, list[Spent]] = {False: [], True: []}
    os.sched_setaffinity(0, {int(OTHER_CORE)})
    with StubApiserver(cores=OTHER_CORE) as stub:
        templates = [served_node(node) for node in pod_shapes.zoned_nodes()]
        stub.create_nodes(options.nodes, "node-{index}", templates)
        flags = ("--ui", f"--client-ca-file={stub.directory / 'ca.crt'}")
        scheduler = KScheduler(stub, cores=SCHEDULER_CORE, extra_flags=flags)
        eventually(lambda: stub.state().watches["pods"] and stub.state().watches["nodes"], "the watches are open")
        burst(stub, "plain", 2_000)
        stub.forget_pods()
        certificate = (stub.directory / "admin.crt", stub.directory / "admin.key")
        for number in range(options.rounds):
            for is_watched in (False, True) if number % 2 == 0 else (True, False):
                viewers = Viewers(scheduler.url, certificate, options.viewers if is_watched else 0)
                with viewers.watching():
                    before = Spent.by(scheduler.process.pid)
                    burst(stub, "plain", options.pods)
                    after = Spent.by(scheduler.process.pid)
                stub.forget_pods()
                spent[is_watched].append(Spent(after.main - before.main, after.others - before.others))
                print(_line(is_watched, spent[is_watched][-1], options.pods, viewers.bytes), flush=True)
    print(summary(spent))
    return 0


def _line(is_watched: bool, spent: Spent, pods: int, received: int) -> str:
    name = "watched" if is_watched else "alone"
    rest = f", {received / 1e3:.0f} kB sent" if is_watched else ""
    return f"{name:<8} {spent.main / pods * 1e6:7.1f} us/pod, others {spent.others * 1e3:6.1f} ms{rest}"


def summary(spent: dict[bool, list[Spent]]) -> str:
    """Return what the page's thread took of the process' CPU time, and how the main thread's changed."""
    alone, watched = spent[False], spent[True]
    idle = statistics.median(each.others for each in alone)
    shares = [100 * (each.others - idle) / (each.main + each.others) for each in watched]
    ratios = [mine.main / other.main for mine, other in zip(watched, alone, strict=True)]
    return (
        f"the page's thread took {statistics.median(shares):.2f} % of the process' CPU time"
        f" ({min(shares):.2f} .. {max(shares):.2f})"
        f"\nthe main thread's with viewers, in that without: {statistics.median(ratios):.3f}"
        f" ({min(ratios):.3f} .. {max(ratios):.3f})"
    )


if __name__ == "__main__":
    sys.exit(main())
