"""Everything about live metrics that runs: sources, samples, and the policies that go by them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from kscheduler.client.concurrency import run_together
from kscheduler.client.protocol import Client
from kscheduler.clock import Clock
from kscheduler.config.types import Profile
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.telemetry.build import source_maker
from kscheduler.telemetry.observer import TelemetryObserver
from kscheduler.telemetry.policy_objects import PolicyObjects
from kscheduler.telemetry.policy_reports import Records
from kscheduler.telemetry.settings import TelemetrySettings
from kscheduler.telemetry.source import MakeSource
from kscheduler.telemetry.telemetry import LiveTelemetry, Tell


class LiveMetrics:
    """Runs on every replica: a standby that takes over has values already."""

    def __init__(self, telemetry: LiveTelemetry, policies: PolicyObjects) -> None:
        self.telemetry = telemetry
        self.policies = policies

    async def run(self, nodes_known: asyncio.Event) -> None:
        """Until cancelled. Sources are asked once the nodes are known: values of unknown nodes are not kept."""
        await run_together(self.policies.run(), self._ask(nodes_known))

    async def wait_for_sync(self) -> None:
        """Until policies are listed and sources have answered, or had their chance; never long."""
        await self.policies.wait_for_sync()
        await self.telemetry.wait_for_first_answers()

    def describe(self) -> dict[str, object]:
        """For a log: what each source said last, and what is known of each metric."""
        pollers = self.telemetry.pollers.values()
        return {
            "sources": {poller.name: poller.describe() for poller in pollers},
            "metrics": self.telemetry.describe(),
            "plansB": self.telemetry.plans_b(),
        }

    async def _ask(self, nodes_known: asyncio.Event) -> None:
        await nodes_known.wait()
        await self.telemetry.run()


def build_live_metrics(
    settings: TelemetrySettings,
    profiles: Sequence[Profile],
    client: Client,
    table: NodeTable,
    *,
    clock: Clock,
    identity: str,
    observer: TelemetryObserver,
    recorder: Callable[[], Records],
    may_write: Callable[[], bool],
    tell: Tell,
    make_source: MakeSource | None = None,
) -> LiveMetrics:
    """`identity` tells replicas apart."""
    # Generators of their own: how often they draw must not move the scheduler's tie-breaks.
    policies = PolicyObjects(
        client,
        profiles,
        clock=clock,
        rng=random.Random(f"policies of {identity}"),
        recorder=recorder,
        may_write=may_write,
    )
    telemetry = LiveTelemetry(
        table,
        settings.sources,
        settings.metrics,
        make_source or source_maker(client, table, clock),
        clock=clock,
        rng=random.Random(f"sources of {identity}"),
        policies=policies.book,
        observer=observer,
        tell=tell,
    )
    observer.show_policies(policies.book.states)
    return LiveMetrics(telemetry, policies)
