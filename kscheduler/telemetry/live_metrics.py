"""Runs live metrics: the sources, the samples, and the policies that use them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from kscheduler.client.concurrency import run_together
from kscheduler.client.outages import Outages
from kscheduler.client.protocol import Client
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.client.write_permission import WritePermission
from kscheduler.clock import Clock
from kscheduler.config.metric_policy import Source
from kscheduler.config.types import Profile
from kscheduler.errors import ConfigError
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.telemetry.limits import AnswerLimits
from kscheduler.telemetry.policy_objects import PolicyObjects
from kscheduler.telemetry.policy_reports import Records
from kscheduler.telemetry.settings import TelemetrySettings
from kscheduler.telemetry.source import MakeSource, MetricSource
from kscheduler.telemetry.sources.aggregated import AggregatedAPI
from kscheduler.telemetry.sources.custom_metrics import CustomMetricsSource
from kscheduler.telemetry.sources.external_metrics import ExternalMetricsSource
from kscheduler.telemetry.sources.load_watcher import LoadWatcherSource
from kscheduler.telemetry.sources.node_fields import NodeFieldsSource
from kscheduler.telemetry.sources.prometheus import PrometheusSource
from kscheduler.telemetry.sources.resource_metrics import ResourceMetricsSource
from kscheduler.telemetry.telemetry import LiveTelemetry, RecordForPod


class LiveMetrics:
    """Live metrics and policy objects.

    It runs on every replica, so that a standby that becomes leader has values already.
    """

    def __init__(self, telemetry: LiveTelemetry, policies: PolicyObjects) -> None:
        self.telemetry = telemetry
        self.policies = policies

    async def run(self, nodes_known: asyncio.Event) -> None:
        """Run until cancelled.

        Polling starts when `nodes_known` is set, because values of unknown nodes are dropped.
        """
        await run_together(self.policies.run(), self._ask(nodes_known))

    async def wait_for_sync(self) -> None:
        """Wait until policies are listed and each source has answered or failed once, but only for a few seconds."""
        await self.policies.wait_for_sync()
        await self.telemetry.wait_for_first_answers()

    def describe(self) -> dict[str, object]:
        """Return the state of each source, of each metric and of each plan B (a policy's fallback), for a log."""
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
    observer: Measurements,
    recorder: Records,
    permission: WritePermission,
    record_for_pod: RecordForPod,
    make_source: MakeSource | None,
    pauses: RetryPauses | None,
    outages: Outages | None,
) -> LiveMetrics:
    """Build live metrics. `identity` is the name of this replica, which also seeds its random numbers.

    `pauses`: retry pauses, shared by all clients of the apiserver; `outages` by its informers.
    """
    # Separate random generators: their draws must not affect the scheduler's tie-breaks.
    policies = PolicyObjects(
        client,
        profiles,
        clock=clock,
        rng=random.Random(f"policies of {identity}"),
        recorder=recorder,
        permission=permission,
        pauses=pauses,
        outages=outages,
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
        record_for_pod=record_for_pod,
    )
    observer.show_policies(policies.book.states)
    return LiveMetrics(telemetry, policies)


def source_maker(api: AggregatedAPI, table: NodeTable, clock: Clock) -> MakeSource:
    """Return the function that builds the `MetricSource` for a source of the configuration."""
    limits = AnswerLimits(table.__len__)

    def make(config: Source) -> MetricSource:
        if config.prometheus is not None:
            return PrometheusSource(config, limits)
        if config.load_watcher is not None:
            return LoadWatcherSource(config, limits)
        if config.resource_metrics is not None:
            return ResourceMetricsSource(config, api, table, limits)
        if config.custom_metrics is not None:
            return CustomMetricsSource(api, limits)
        if config.external_metrics is not None:
            return ExternalMetricsSource(api, limits)
        if config.node_fields is not None:
            return NodeFieldsSource(table, clock)
        raise ConfigError(f"metric source {config.name}: expected one of its kinds, got none")

    return make
