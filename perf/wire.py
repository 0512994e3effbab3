"""Measures the client's CPU time for each binding written, and for each event that a watch delivers.

    python -m perf.wire                       # bindings and events, over TLS, against a server in another process
    python -m perf.wire --binds 20000 --at-once 100 --events 20000

Bindings are written by the scheduler's own client, in two ways: by a task for each, and by the bind lane, which needs
no tasks. Events are counted from the bytes to the call of the informer's handler; "decoding" is the part of it that
decodes a line. Figures are CPU time of this process only; compare them on a quiet machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import random
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from kscheduler.client.bind_lane import BindLane
from kscheduler.client.binder import Binder
from kscheduler.client.credentials import Credentials, Endpoint
from kscheduler.client.informer import Informer
from kscheduler.client.kinds import NODES, PODS, Resource
from kscheduler.client.kube import KubeClient
from kscheduler.client.protocol import Binding
from kscheduler.client.wire import LineDecoder
from kscheduler.clock import SystemClock
from kscheduler.errors import APIError
from kscheduler.testing.controlplane.certificates import CertificateAuthority
from perf import wire_events

OBJECTS = 500  # the events of a kind are about so many


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU and real time for `count` bindings or events."""

    count: int
    cpu_s: float
    wall_s: float

    @property
    def us(self) -> float:
        return self.cpu_s / self.count * 1e6

    @property
    def rate(self) -> float:
        return self.count / self.wall_s


class Stopwatch:
    """Measures CPU and real time from its creation to the call of `cost`."""

    def __init__(self) -> None:
        gc.collect()
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def cost(self, count: int) -> Cost:
        return Cost(count, time.process_time() - self._cpu, time.perf_counter() - self._wall)


@contextmanager
def running_server(*options: str) -> Iterator[Endpoint]:
    """The server in a process of its own, and the credentials to connect to it."""
    with tempfile.TemporaryDirectory() as directory:
        authority = CertificateAuthority(Path(directory))
        authority.server("server")
        command = [sys.executable, "-m", "perf.wire_server", directory, *options]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            if "--plain" in options:
                yield Endpoint(f"http://127.0.0.1:{port}", None)
            else:
                context = ssl.create_default_context(cafile=authority.path)
                context.set_alpn_protocols(["http/1.1"])
                yield Endpoint(f"https://127.0.0.1:{port}", context)
            process.communicate()


@asynccontextmanager
async def connected(endpoint: Endpoint) -> AsyncIterator[KubeClient]:
    token = "Bearer " + "x" * 900  # a service account's is as long
    client = KubeClient(Credentials(endpoint, SystemClock(), header=token), SystemClock(), qps=-1)
    try:
        yield client
    finally:
        await client.close()


# --- bindings ---


def binding(number: int) -> Binding:
    return Binding(
        "shop", f"web-7c5ddbdf54-{number:06d}", f"3f0c8a52-5d0e-4f1d-9a59-{number:012d}", f"node-{number % 5000:05d}"
    )


async def bind_in_tasks(client: KubeClient, count: int, at_once: int) -> Cost:
    """A task for each binding, as many at once as allowed."""
    binder = Binder(client, random.Random(0))
    numbers = iter(range(count))
    tasks: set[asyncio.Task[None]] = set()
    done = asyncio.get_running_loop().create_future()

    def start() -> None:
        for number in numbers:
            task = asyncio.get_running_loop().create_task(binder.bind(binding(number)))
            tasks.add(task)
            task.add_done_callback(ended)
            return
        if not tasks and not done.done():
            done.set_result(None)

    def ended(task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        task.result()
        start()

    watch = Stopwatch()
    for _ in range(at_once):
        start()
    await done
    return watch.cost(count)


async def bind_on_lane(client: KubeClient, count: int, at_once: int) -> Cost:
    """Submitted as the scheduler does: as many as there is room for, again whenever some are done."""
    lane = BindLane(client, Binder(client, random.Random(0)), limit=at_once)
    numbers = iter(range(count))
    left = count
    done = asyncio.get_running_loop().create_future()

    def bound(error: APIError | None) -> None:
        nonlocal left
        if error is not None:
            raise error
        left -= 1
        if not left:
            done.set_result(None)
        submit()

    def submit() -> None:
        for number in numbers:
            lane.submit(binding(number), bound)
            if not lane.has_room:
                return

    watch = Stopwatch()
    submit()
    await done
    return watch.cost(count)


# --- events ---


@dataclass(slots=True)
class Counter:
    """An informer's event handler that only counts."""

    calls: int = 0

    def on_add(self, obj: Any) -> None:
        self.calls += 1

    def on_update(self, old: Any, new: Any) -> None:
        self.calls += 1

    def on_delete(self, obj: Any) -> None:
        self.calls += 1


def decode(kind: str, count: int) -> Cost:
    """Taking lines apart."""
    decoder: LineDecoder[Any] = LineDecoder(resource_of(kind))
    lines = [wire_events.line(kind, number, number) for number in range(OBJECTS)]
    watch = Stopwatch()
    for number in range(count):
        decoder(lines[number % OBJECTS])
    return watch.cost(count)


async def follow(client: KubeClient, kind: str, count: int) -> tuple[Cost, int]:
    """From bytes to the handler; and how often it was called."""
    handler = Counter()
    resource = resource_of(kind)
    # New pods and bindings are each about a pod of its own, the others again and again about the same.
    objects = count if kind in (wire_events.PENDING, wire_events.BOUND) else OBJECTS
    selector = f"{kind},{count},{objects}"
    informer = Informer(client, resource, handler, clock=SystemClock(), rng=random.Random(0), field_selector=selector)
    if was := wire_events.before(kind):
        decoder: LineDecoder[Any] = LineDecoder(resource)
        for number in range(objects):
            event = decoder(wire_events.line(was, number, number + 1))
            assert event is not None
            informer._apply(event)
    handler.calls = 0
    informer.resource_version = "1"
    watch = Stopwatch()
    with contextlib.suppress(APIError):
        await informer._watch()
    return watch.cost(count), handler.calls


def resource_of(kind: str) -> Resource[Any]:
    return NODES if kind.startswith("node") else PODS


# --- printing ---


async def measure(endpoint: Endpoint, options: argparse.Namespace) -> None:
    if options.binds:
        print(f"{'bindings':<34}{'CPU us each':>12}{'a second':>12}")
        for title, bind in BINDS.items():
            async with connected(endpoint) as client:
                await bind(client, options.at_once * 4, options.at_once)  # connections are made
                cost = await bind(client, options.binds, options.at_once)
            print(f"{title:<34}{cost.us:>12.1f}{cost.rate:>12,.0f}")
    if options.events:
        print(f"\n{'events':<34}{'CPU us each':>12}{'decoding':>12}{'bytes':>8}{'handled':>9}")
        async with connected(endpoint) as client:
            for kind in wire_events.KINDS:
                alone = decode(kind, options.events)
                cost, handled = await follow(client, kind, options.events)
                size = len(wire_events.line(kind, 1, 1))
                print(f"{kind:<34}{cost.us:>12.1f}{alone.us:>12.1f}{size:>8,}{handled / options.events:>9.0%}")


BINDS: dict[str, Callable[[KubeClient, int, int], Awaitable[Cost]]] = {
    "a task each": bind_in_tasks,
    "on the lane": bind_on_lane,
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.wire", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--binds", type=int, default=20_000, help="bindings to write; 0 for none")
    parser.add_argument("--at-once", type=int, default=100, help="of them under way at the same time")
    parser.add_argument("--events", type=int, default=20_000, help="events of each kind; 0 for none")
    parser.add_argument("--plain", action="store_true", help="without TLS")
    options = parser.parse_args(argv)
    with running_server(*(["--plain"] if options.plain else [])) as endpoint:
        loop = uvloop.new_event_loop()
        try:
            loop.run_until_complete(measure(endpoint, options))
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
