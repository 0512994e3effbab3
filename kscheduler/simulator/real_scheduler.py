"""Runs this program's scheduler in a simulation: without Lease and endpoint, but with the same decisions."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kscheduler.api.objects import Pod
from kscheduler.client.concurrency import run_together
from kscheduler.client.protocol import Client
from kscheduler.clock import Clock
from kscheduler.config.extension_points import KNOWN_PLUGINS
from kscheduler.config.types import Extender, SchedulerConfig
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.run import SchedulerFactory

if TYPE_CHECKING:
    from kscheduler.extenders.extender import Endpoint

BuildScheduler = Callable[..., Scheduler]  # takes the arguments of `Scheduler`


class RealScheduler:
    """Runs a complete `Scheduler` in a simulation: implements `run.SchedulerUnderTest`."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        rng: random.Random,
        config: SchedulerConfig,
        options: Options,
        build: BuildScheduler = Scheduler,
    ) -> None:
        """Build the scheduler with `build`: a `Scheduler`, or a subclass of it."""
        self._metrics = Metrics(process=False)
        # The stopwatch measures real time for metrics only; no decision depends on it. float() is 0.0, at any time.
        self._scheduler = build(
            client,
            config,
            clock=clock,
            rng=rng,
            metrics=self._metrics,
            stopwatch=time.perf_counter if options.measures_steps else float,
            options=options,
            extender_endpoint=_endpoint,
        )

    async def run(self) -> None:
        await run_together(self._scheduler.observe(), self._scheduler.schedule())

    async def wait_for_sync(self) -> None:
        await self._scheduler.wait_for_sync()
        await asyncio.sleep(0)

    def attempts(self) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        for (result, _), counter in self._metrics.schedule_attempts_total.items():
            counts[result] = counts.get(result, 0) + int(counter.value)
        return dict(sorted(counts.items()))

    def next_retry(self) -> float | None:
        return self._scheduler.next_retry()

    def held_back_by(self, uid: str) -> str:
        queued = self._scheduler.queue.get(uid)
        plugin = "" if queued is None else queued.gated_by or ""
        return "" if plugin in KNOWN_PLUGINS else plugin

    def queue_of(self, pod: Pod) -> str | None:
        queues = self._scheduler.share_queues
        return None if queues is None else queues.demands.queue_of(pod)


def _endpoint(config: Extender, path: str) -> Endpoint:
    from kscheduler.simulator.blocking_webhook import BlockingWebhook  # only where there are extenders: it takes long

    return BlockingWebhook(config, path)


def real_scheduler(config: SchedulerConfig, options: Options, build: BuildScheduler = Scheduler) -> SchedulerFactory:
    """Return a factory that builds this program's scheduler for `simulate_scenario`."""
    return lambda client, clock, rng: RealScheduler(client, clock, rng, config, options, build)
