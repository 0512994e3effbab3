from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.config.load import parse_config
from kscheduler.config.trimaran import MetricProvider, TargetLoadPackingArgs, TrimaranArgs, trimaran_metrics
from kscheduler.config.types import Plugin, PluginConfig, Plugins, PluginSet, Profile, SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.input.redaction import Secret, SecretURL
from kscheduler.telemetry.settings import Implied, implied_sources, telemetry_settings

SCORE = Plugins(score=PluginSet(enabled=(Plugin(name="TargetLoadPacking"),)))


def implied_by(*every: TrimaranArgs | None, plugins: Plugins = SCORE) -> Implied:
    """One profile for each of the arguments; None: the plugin is enabled without any."""
    profiles = tuple(
        Profile(
            scheduler_name=f"s{index}",
            plugins=plugins,
            plugin_config=() if args is None else (PluginConfig(name="TargetLoadPacking", args=args),),
        )
        for index, args in enumerate(every)
    )
    return implied_sources(SchedulerConfig(profiles=profiles))


def test_without_arguments_the_metrics_server_is_asked_in_percent() -> None:
    implied = implied_by(None)
    [source] = implied.sources.values()
    assert source.resource_metrics == {"per": 100, "of": "capacity"}
    names = trimaran_metrics(TargetLoadPackingArgs())
    assert {name: metric.resource for name, metric in implied.metrics.items()} == {
        names.cpu: "cpu",
        names.memory: "memory",
    }


def test_a_load_watcher_gives_averages_and_deviations() -> None:
    args = TargetLoadPackingArgs(watcher_address=SecretURL("http://watcher:2020"))
    implied = implied_by(args)
    [source] = implied.sources.values()
    assert source.load_watcher is not None
    assert source.load_watcher.url == SecretURL("http://watcher:2020")
    names = trimaran_metrics(args)
    assert implied.metrics[names.memory_deviation].metric == "Memory"
    assert implied.metrics[names.memory_deviation].operator == "STD"
    assert len(implied.metrics) == 4


def test_prometheus_is_asked_for_the_mixins_rules_with_the_token_given() -> None:
    provider = MetricProvider(type="Prometheus", address=SecretURL("https://prometheus:9090"), token=Secret("secret"))
    args = TargetLoadPackingArgs(metric_provider=provider)
    implied = implied_by(args)
    [source] = implied.sources.values()
    assert source.prometheus is not None
    assert source.prometheus.headers == {"Authorization": Secret("Bearer secret")}
    assert source.prometheus.insecure_skip_verify  # Trimaran's default
    assert "secret" not in source.name
    metric = implied.metrics[trimaran_metrics(args).cpu_deviation]
    assert metric.query == "100 * stddev_over_time(instance:node_cpu:ratio[15m])"
    assert (metric.node_label, metric.window.seconds) == ("instance", 900.0)


def test_a_token_may_stand_in_a_file() -> None:
    provider = MetricProvider(type="Prometheus", address=SecretURL("https://prometheus:9090"), token_file="/run/token")
    args = TargetLoadPackingArgs(metric_provider=provider)
    [source] = implied_by(args).sources.values()
    assert source.prometheus is not None
    assert source.prometheus.bearer_token_file == "/run/token"
    other = replace(args, metric_provider=replace(provider, token_file="/run/other"))
    assert len(implied_by(args, other).sources) == 2  # another token may see other values


def test_profiles_with_one_provider_share_its_source() -> None:
    args = TargetLoadPackingArgs(watcher_address=SecretURL("http://watcher:2020"))
    assert len(implied_by(args, args, None).sources) == 2


def test_a_plugin_that_no_profile_enables_implies_nothing() -> None:
    assert not implied_by(TargetLoadPackingArgs(watcher_address=SecretURL("http://w")), plugins=Plugins()).sources


def test_a_provider_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"metricProvider\.type: expected KubernetesMetricsServer or Prometheus"):
        implied_by(TargetLoadPackingArgs(metric_provider=MetricProvider(type="SignalFx")))


# --- settings ----------------------------------------------------------------------------------------------------

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_live_metrics_are_not_wanted_where_nobody_speaks_of_them() -> None:
    assert not telemetry_settings(parse_config(HEAD)).is_wanted


def test_sources_and_metrics_of_all_profiles_count_once() -> None:
    profile = """
- schedulerName: {}
  pluginConfig:
  - name: MetricPolicy
    args:
      sources: [{{name: cluster, resourceMetrics: {{}}}}]
      metrics: [{{name: {}, source: cluster, resource: cpu}}]
"""
    settings = telemetry_settings(
        parse_config(HEAD + "profiles:" + profile.format("a", "x") + profile.format("b", "z"))
    )
    assert settings.is_wanted
    assert [source.name for source in settings.sources] == ["cluster"]
    assert [metric.name for metric in settings.metrics] == ["x", "z"]
