"""This program's scheduler under a simulation: no lease, no endpoint, the same decisions."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from typing import Any

from kscheduler.client.concurrency import run_together
from kscheduler.client.protocol import Client
from kscheduler.clock import Clock
from kscheduler.config.types import SchedulerConfig
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.blocking_webhook import BlockingWebhook
from kscheduler.simulator.run import SchedulerFactory
from kscheduler.telemetry.source import MakeSource


class RealScheduler:
    """`run.SchedulerUnderTest` around a `Scheduler`."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        rng: random.Random,
        config: SchedulerConfig,
        options: Options,
        metric_source: MakeSource | None = None,
    ) -> None:
        self._metrics = Metrics(process=False)
        # The stopwatch is for metrics alone: what a decision costs this machine, which no decision depends on.
        self._scheduler = Scheduler(
            client,
            config,
            clock=clock,
            rng=rng,
            metrics=self._metrics,
            stopwatch=time.perf_counter,
            options=options,
            extender_endpoint=BlockingWebhook,
            metric_source=metric_source,
        )

    async def run(self) -> None:
        await run_together(self._scheduler.observe(), self._scheduler.schedule())

    async def wait_for_sync(self) -> None:
        await self._scheduler.wait_for_sync()
        await asyncio.sleep(0)

    def attempts(self) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        for sample in _samples(self._metrics.schedule_attempts_total):
            result = sample.labels["result"]
            counts[result] = counts.get(result, 0) + int(sample.value)
        return dict(sorted(counts.items()))


def _samples(family: Any) -> list[Any]:
    return [sample for sample in family.export().samples if sample.name.endswith("_total")]


def real_scheduler(
    config: SchedulerConfig, options: Options, metric_source: MakeSource | None = None
) -> SchedulerFactory:
    """Return the factory with which `simulate_scenario` makes this program's scheduler.

    `metric_source` makes the sources of live metrics, in virtual time.
    """

    def make(client: Client, clock: Clock, rng: random.Random) -> RealScheduler:
        return RealScheduler(client, clock, rng, config, options, metric_source)

    return make
