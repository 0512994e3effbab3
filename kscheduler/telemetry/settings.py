"""Collects the metric sources and metrics of all profiles, and those implied by the arguments of Trimaran's plugins.

The implied ones are those of load-watcher's own library: averages and deviations over 15 minutes from recording rules
of the node exporter's mixin, or the latest usage from the metrics server, polled every 30 seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kscheduler.config.duration import Duration
from kscheduler.config.live_metrics import METRIC_POLICY
from kscheduler.config.metric_policy import Clamp, Endpoint, Metric, MetricPolicyArgs, Source
from kscheduler.config.metric_policy_profiles import metric_policy_args
from kscheduler.config.plugin_args import OWN_ARGS
from kscheduler.config.trimaran import (
    METRICS_SERVER,
    PROMETHEUS,
    TrimaranArgs,
    TrimaranMetrics,
    default_trimaran_args,
    trimaran_metrics,
)
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.input.redaction import Secret, SecretURL

INTERVAL = Duration.of_seconds(30)
WINDOW = Duration.of_seconds(900)
DEFAULT_PROMETHEUS = SecretURL("http://prometheus-k8s:9090")
CPU_RULE = "instance:node_cpu:ratio"
MEMORY_RULE = "instance:node_memory_utilisation:ratio"
PERCENT = Clamp(min=0)


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    sources: tuple[Source, ...]
    metrics: tuple[Metric, ...]
    is_wanted: bool  # whether a profile enables a plugin that reads live metrics


def telemetry_settings(config: SchedulerConfig) -> TelemetrySettings:
    """Collect the sources and metrics of all profiles. Raises ConfigError for an unknown metric provider.

    Validation guarantees that sources, or metrics, of equal name are equal in all profiles.
    """
    implied = implied_sources(config)
    sources, metrics = dict(implied.sources), dict(implied.metrics)
    is_wanted = bool(sources)
    for profile in config.profiles:
        is_wanted = is_wanted or METRIC_POLICY in profile.plugins.enabled_names()
        args = metric_policy_args(profile) or MetricPolicyArgs()
        sources |= {source.name: source for source in args.sources}
        metrics |= {metric.name: metric for metric in args.metrics}
    return TelemetrySettings(tuple(sources.values()), tuple(metrics.values()), is_wanted or bool(sources))


@dataclass(slots=True)
class Implied:
    sources: dict[str, Source] = field(default_factory=dict)  # name -> source
    metrics: dict[str, Metric] = field(default_factory=dict)  # name -> metric


def implied_sources(config: SchedulerConfig) -> Implied:
    """Return the sources and metrics that Trimaran's plugins imply.

    Raises ConfigError for an unknown metric provider.
    """
    implied = Implied()
    for profile in config.profiles:
        for plugin, kind in OWN_ARGS.items():
            if issubclass(kind, TrimaranArgs) and plugin in profile.plugins.enabled_names():
                _add(implied, default_trimaran_args(profile.args(plugin, kind)))
    return implied


def _add(implied: Implied, args: TrimaranArgs) -> None:
    names, provider = trimaran_metrics(args), args.metric_provider
    if names.source in implied.sources:
        return
    if args.watcher_address:
        source = Source(name=names.source, load_watcher=Endpoint(url=args.watcher_address), interval=INTERVAL)
        metrics = _of_load_watcher(names)
    elif provider.type == PROMETHEUS:
        source = Source(
            name=names.source,
            prometheus=Endpoint(
                url=provider.address or DEFAULT_PROMETHEUS,
                headers={"Authorization": Secret(f"Bearer {provider.token.reveal()}")} if provider.token else {},
                bearer_token_file=provider.token_file,
                insecure_skip_verify=bool(provider.insecure_skip_verify),
            ),
            interval=INTERVAL,
        )
        metrics = _of_prometheus(names)
    elif provider.type == METRICS_SERVER:
        source = Source(name=names.source, resource_metrics={"per": 100, "of": "capacity"}, interval=INTERVAL)
        metrics = _of_metrics_server(names)
    else:
        raise ConfigError(f"metricProvider.type: expected {METRICS_SERVER} or {PROMETHEUS}, got {provider.type!r}")
    implied.sources[source.name] = source
    implied.metrics |= {metric.name: metric for metric in metrics}


def _of_load_watcher(names: TrimaranMetrics) -> list[Metric]:
    return [
        Metric(name=name, source=names.source, metric=metric, operator=operator, clamp=PERCENT)
        for name, metric, operator in (
            (names.cpu, "CPU", ""),
            (names.cpu_deviation, "CPU", "STD"),
            (names.memory, "Memory", ""),
            (names.memory_deviation, "Memory", "STD"),
        )
    ]


def _of_prometheus(names: TrimaranMetrics) -> list[Metric]:
    return [
        Metric(
            name=name,
            source=names.source,
            query=f"100 * {function}({rule}[15m])",
            node_label="instance",
            window=WINDOW,
            clamp=PERCENT,
        )
        for name, function, rule in (
            (names.cpu, "avg_over_time", CPU_RULE),
            (names.cpu_deviation, "stddev_over_time", CPU_RULE),
            (names.memory, "avg_over_time", MEMORY_RULE),
            (names.memory_deviation, "stddev_over_time", MEMORY_RULE),
        )
    ]


def _of_metrics_server(names: TrimaranMetrics) -> list[Metric]:
    """Return the metrics of the metrics server, which provides no standard deviations."""
    return [
        Metric(name=names.cpu, source=names.source, resource="cpu", clamp=PERCENT),
        Metric(name=names.memory, source=names.source, resource="memory", clamp=PERCENT),
    ]
