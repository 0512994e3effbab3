"""A scheduler with guests, in real time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kscheduler.client.concurrency import cancel_and_wait, run_together
from kscheduler.clock import SystemClock
from kscheduler.config.types import SchedulerConfig
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.cluster import Cluster
from kscheduler.testing import make_node
from kscheduler.wasm.plugins import GuestPlugins


@asynccontextmanager
async def scheduling(
    config: SchedulerConfig, guests: GuestPlugins
) -> AsyncIterator[tuple[Scheduler, Cluster, Metrics]]:
    """A scheduler with one node, in real time: versions are compiled in threads."""
    clock, metrics = SystemClock(), Metrics(process=False)
    cluster = Cluster(clock)
    cluster.create_node(make_node("n1").capacity(cpu="64", memory="256Gi", pods=500).obj())
    scheduler = Scheduler(
        cluster.client(),
        config,
        clock=clock,
        rng=random.Random(1),
        metrics=metrics,
        stopwatch=clock.now,
        options=Options(guests=guests),
    )
    running = asyncio.ensure_future(run_together(scheduler.observe(), scheduler.schedule()))
    try:
        yield scheduler, cluster, metrics
    finally:
        await cancel_and_wait(running)
