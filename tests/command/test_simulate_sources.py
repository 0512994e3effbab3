"""A simulation asks its own cluster for metrics and nobody else; it says so before it runs."""

from __future__ import annotations

import pytest

from kscheduler.config.load import default_config, parse_config
from kscheduler.errors import ConfigError
from kscheduler.simulator.configuration import check_metric_sources

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{multiPoint: {{enabled: [{{name: {plugin}, weight: 1}}]}}}}
  pluginConfig: [{{name: {plugin}, args: {{{args}}}}}]
"""


def check(plugin: str, args: str) -> None:
    check_metric_sources(parse_config(CONFIG.format(plugin=plugin, args=args)))


@pytest.mark.parametrize("source", ["resourceMetrics: {}", "nodeFields: {}"])
def test_sources_in_the_cluster_itself_can_be_simulated(source: str) -> None:
    check("MetricPolicy", f"sources: [{{name: s, {source}}}]")


def test_trimaran_uses_the_metrics_server_by_default() -> None:
    check_metric_sources(default_config())
    check("TargetLoadPacking", "targetUtilization: 50")


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("prometheus", 'prometheus: {url: "http://prometheus"}'),
        ("loadWatcher", 'loadWatcher: {url: "http://watcher"}'),
        ("customMetrics", "customMetrics: {}"),
        ("externalMetrics", "externalMetrics: {}"),
    ],
)
def test_what_is_outside_is_refused_by_name(kind: str, fields: str) -> None:
    message = f'metric source "s": a simulated cluster has resourceMetrics and nodeFields; {kind} cannot be asked'
    with pytest.raises(ConfigError, match=message):
        check("MetricPolicy", f"sources: [{{name: s, {fields}}}]")


def test_a_source_that_follows_from_arguments_is_refused_too() -> None:
    with pytest.raises(ConfigError, match="loadWatcher cannot be asked"):
        check("TargetLoadPacking", 'watcherAddress: "http://watcher:2020"')
