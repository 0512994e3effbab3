"""Builds the `MetricSource` for a source of the configuration."""

from __future__ import annotations

from kscheduler.clock import Clock
from kscheduler.config.metric_policy import Source
from kscheduler.errors import ConfigError
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.telemetry.limits import AnswerLimits
from kscheduler.telemetry.source import MakeSource, MetricSource
from kscheduler.telemetry.sources.aggregated import AggregatedAPI
from kscheduler.telemetry.sources.custom_metrics import CustomMetricsSource
from kscheduler.telemetry.sources.external_metrics import ExternalMetricsSource
from kscheduler.telemetry.sources.load_watcher import LoadWatcherSource
from kscheduler.telemetry.sources.node_fields import NodeFieldsSource
from kscheduler.telemetry.sources.prometheus import PrometheusSource
from kscheduler.telemetry.sources.resource_metrics import ResourceMetricsSource


def source_maker(api: AggregatedAPI, table: NodeTable, clock: Clock) -> MakeSource:
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
