"""Worlds whose nodes have measured loads, and a policy that pods name."""

from __future__ import annotations

from kscheduler.config.load import parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.framework.plugins.registry import known_plugins
from kscheduler.testing import PodBuilder, make_pod
from tests.support.world import World
from tests.telemetry.fakes import FakeSource


def config(policy: str, *, further: str = "") -> SchedulerConfig:
    """One default policy over the metric `load`, whose source is asked each ten seconds."""
    return parse_config(
        f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {{multiPoint: {{enabled: [{{name: MetricPolicy, weight: 10}}]}}}}
  pluginConfig:
  - name: MetricPolicy
    args:
      sources: [{{name: fake, prometheus: {{url: "http://127.0.0.1:9"}}, interval: 10s, timeout: 2s}}]
      metrics: [{{name: load, source: fake, query: load}}]
      defaultPolicy: default
      policies:
      - {{name: default, {policy}}}
{further}
""",
        find_plugins=known_plugins,
    )


BELOW_HALF = "filter: [{metric: load, operator: LessThan, value: 0.5}]"


def world_of(policy: str, source: FakeSource, **reported: str) -> World:
    return World(config=config(policy, **reported), metric_source=lambda config: source)


def source_of(*loads: float) -> FakeSource:
    source = FakeSource()
    source.values["load"] = {f"n{number}": load for number, load in enumerate(loads)}
    return source


def pod(name: str) -> PodBuilder:
    return make_pod(name).req(cpu="1")
