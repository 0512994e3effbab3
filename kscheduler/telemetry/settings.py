"""The metric sources and metrics of all profiles together."""

from __future__ import annotations

from dataclasses import dataclass

from kscheduler.config.metric_policy import Metric, MetricPolicyArgs, Source
from kscheduler.config.metric_policy_profiles import PLUGIN, metric_policy_args
from kscheduler.config.types import SchedulerConfig
from kscheduler.telemetry.implied import enabled_plugins, implied_sources


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    sources: tuple[Source, ...]
    metrics: tuple[Metric, ...]
    is_wanted: bool  # does a profile enable a plugin that reads metrics?


def telemetry_settings(config: SchedulerConfig) -> TelemetrySettings:
    """Collect the sources and metrics of all profiles. Raises ConfigError for an unknown metric provider.

    Validation guarantees that sources, or metrics, of equal name are equal in all profiles.
    """
    implied = implied_sources(config)
    sources, metrics = dict(implied.sources), dict(implied.metrics)
    is_wanted = bool(sources)
    for profile in config.profiles:
        is_wanted = is_wanted or PLUGIN in enabled_plugins(profile)
        args = metric_policy_args(profile) or MetricPolicyArgs()
        sources |= {source.name: source for source in args.sources}
        metrics |= {metric.name: metric for metric in args.metrics}
    return TelemetrySettings(tuple(sources.values()), tuple(metrics.values()), is_wanted or bool(sources))
