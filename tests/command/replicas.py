"""Replicas of a whole scheduler on a cluster in memory, each as its process would hold it."""

from __future__ import annotations

import asyncio
import random
from functools import partial

from kscheduler.client.leaderelection import ElectionConfig, LeaderElector
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.clock import Clock
from kscheduler.command.replica import Replica
from kscheduler.config.load import default_config
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Options, Scheduler
from kscheduler.serving.health import Health
from kscheduler.simulator.cluster_client import ClusterClient

LEASE = "kube-system/kube-scheduler"


class SlowToStop:
    """An endpoint whose end takes until `gate` is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def start(self) -> None: ...

    async def stop(self) -> None:
        await self.gate.wait()


class Process:
    """A replica as its process would hold it."""

    def __init__(
        self,
        client: ClusterClient,
        clock: Clock,
        identity: str,
        *,
        elects: bool = True,
        delay_cache: bool = False,
        release: Release = DEFAULT_RELEASE,
        endpoint: SlowToStop | None = None,
    ) -> None:
        self.client = client
        pauses = RetryPauses(random.Random(identity))
        self.client.on_success = pauses.succeeded
        self.scheduler = Scheduler(
            self.client,
            default_config(release),
            clock=clock,
            rng=random.Random(identity),
            metrics=Metrics(),
            stopwatch=clock.now,
            options=Options(pauses=pauses, prove_silent_watches=True),
        )
        self.ends_at_next_signal = asyncio.Event()
        self.replica = Replica(
            self.scheduler,
            clock=clock,
            make_server=None if endpoint is None else lambda: endpoint,
            delay_cache_until_active=delay_cache,
            end_at_next_signal=self.ends_at_next_signal.set,
        )
        self.elector: LeaderElector | None = None
        if elects:
            config = ElectionConfig(identity)
            draw = random.Random(identity)
            self.elector = self.replica.elect_with(partial(LeaderElector, self.client, clock, draw, config))
        self.health = Health()
        self.replica.add_checks(self.health, "kube-scheduler", 15.0)
        self.task = asyncio.ensure_future(self.replica.run())

    async def kill(self) -> None:
        """As SIGKILL does it: nothing more is written, nothing is released."""
        await self.client.close()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def failing(self, endpoint: str) -> list[str]:
        """Why the endpoint would answer 500."""
        return [name for name, check in self.health._checks[endpoint].items() if check() is not None]
