"""A scheduler that records itself on a cluster in memory, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from kscheduler.client.concurrency import cancel_and_wait, run_together
from kscheduler.config.load import default_config, parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.observability.metrics import Metrics
from kscheduler.record.entries import Decided, Decision, Readable
from kscheduler.replay.recording import RecordedScheduler, RecordingOptions
from kscheduler.replay.replay import RecordedInputs, Replay, replay
from kscheduler.scheduler import Options
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import ClusterClient, Latency
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.testing import make_node, make_pod

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PACKING = parse_config(
    HEAD
    + """
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
)
LATENCY = Latency(watch_s=0.001, bind_s=0.003, write_s=0.002, jitter=0.3)

Play = Callable[[Cluster, ClusterClient], Coroutine[Any, Any, object]]


def recorded(
    path: Path,
    play: Play,
    *,
    config: SchedulerConfig | None = None,
    part_bytes: int = 0,
    keep_parts: int = 0,
    options: Options | None = None,
    stopwatch: Callable[[], float] | None = None,
    clock_type: type[LoopClock] = LoopClock,
) -> RecordedScheduler:
    """Run a scheduler on a cluster while `play` changes it, and for a minute after that; return the scheduler.

    `stopwatch` measures what decisions cost; without one they cost nothing.
    """

    async def run() -> RecordedScheduler:
        clock = clock_type(asyncio.get_running_loop())
        cluster = Cluster(clock)
        client = cluster.client(latency=LATENCY)
        scheduler = RecordedScheduler(
            client,
            config or default_config(),
            recording=RecordingOptions(path, part_bytes, keep_parts),
            clock=clock,
            rng=random.Random(1),
            metrics=Metrics(process=False),
            stopwatch=stopwatch or clock.now,
            options=options or Options(),
        )
        running = asyncio.ensure_future(run_together(scheduler.observe(), scheduler.schedule(), keep_pace(scheduler)))
        try:
            await scheduler.wait_for_sync()
            await play(cluster, client)
            await asyncio.sleep(60.0)
        finally:
            await cancel_and_wait(running)
        return scheduler

    return run_virtual(run())


async def keep_pace(scheduler: RecordedScheduler) -> None:
    """Let the thread that writes keep up with virtual time."""
    while True:
        await asyncio.sleep(0.5)
        scheduler.writer.settle()


async def busy(cluster: Cluster, client: ClusterClient) -> None:
    """More pods than there is room for, of several sizes, priorities and affinities, on nodes that come and change."""
    draw = random.Random(3)
    for number in range(12):
        zone = {"zone": f"z{number % 3}"}
        cluster.create_node(make_node(f"n{number}").capacity(cpu="8", memory="32Gi", pods=20).label(**zone).obj())
    for number in range(200):
        pod = make_pod(f"p{number}").req(cpu=draw.choice(["500m", "1", "2"])).priority(draw.choice([0, 0, 10, 100]))
        pod.label(app=f"a{number % 3}")
        if number % 5 == 0:
            pod.pod_anti_affinity("zone", {"app": "lonely"})
        elif number % 5 == 1:
            pod.preferred_pod_affinity(10, "zone", {"app": "a1"})
        cluster.create_pod(pod.obj())
        if draw.random() < 0.3:
            await asyncio.sleep(draw.random())
        if number % 40 == 0:
            cluster.create_node(make_node(f"late-{number}").capacity(cpu="8", memory="32Gi", pods=20).obj())


def replayed(path: Path, config: SchedulerConfig | None = None, **options: Any) -> Replay:
    """Replay a record; `config`: another configuration than the one that all records here have."""
    options.setdefault("is_same", config is None)
    return asyncio.run(replay(RecordedInputs(path), config or default_config(), **options))


def decisions(path: Path) -> list[Decision]:
    return [each for entry in entries(path) if isinstance(entry, Decided) for each in entry.decisions]


def entries(path: Path) -> list[Readable]:
    return list(RecordedInputs(path))
