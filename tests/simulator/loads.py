"""Clusters with real load."""

from __future__ import annotations

from kscheduler.api.objects import Node
from kscheduler.config.load import parse_config
from kscheduler.scheduler import Options
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.real_scheduler import real_scheduler
from kscheduler.simulator.report import Report, build_report
from kscheduler.simulator.run import Outcome, RunSettings, simulate_scenario
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.simulator.usage import USAGE_CPU, USAGE_MEMORY, USAGE_RAMP
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.support.clocks import ManualClock

CPU, MEMORY = 0, 1


def two_nodes(clock: ManualClock) -> Cluster:
    """Of 4 cores and 8 GiB; the second uses a core itself."""
    cluster = Cluster(clock)
    cluster.create_node(make_node("n0").capacity(cpu=4, memory="8Gi").obj())
    cluster.create_node(make_node("n1").capacity(cpu=4, memory="8Gi").annotation(USAGE_CPU, "1").obj())
    return cluster


def using(name: str, cpu: str, memory: str = "0", ramp: str = "0") -> PodBuilder:
    usage = (USAGE_CPU, cpu, USAGE_MEMORY, memory, USAGE_RAMP, ramp)
    return make_pod(name).req(cpu="1", memory="1Gi").annotation(*usage)


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{name: MetricPolicy, weight: 10}]
  pluginConfig:
  - name: MetricPolicy
    args:
      sources: [{name: s, resourceMetrics: {}}]
      metrics: [{name: cpu, source: s, resource: cpu}]
      defaultPolicy: p
      policies:
      - name: p
        score: [{metric: cpu, goal: Minimize, range: {min: 0, max: 1}, selfLoad: {resource: cpu}, FALLBACK}]
"""


def cluster(size: int = 6, busy: int = 3) -> list[Node]:
    """`busy` nodes have no pods and yet use most of what they have."""
    return [
        make_node(f"n{index}")
        .capacity(cpu=16, memory="64Gi", pods=110)
        .annotation(USAGE_CPU, "12" if index < busy else "0")
        .obj()
        for index in range(size)
    ]


def arrivals(count: int, every_s: float, runs_s: float | None = None) -> list[Arrival]:
    """Pods that request a tenth of a core; each other one uses a core, the rest hardly anything."""
    return [
        Arrival(
            number * every_s,
            make_pod(f"p{number}").req(cpu="100m").annotation(USAGE_CPU, "1" if number % 2 else "10m").obj(),
            runs_s=runs_s,
        )
        for number in range(count)
    ]


def play(scenario: Scenario, fallback: str = "fallback: Neutral", **settings: float) -> Outcome:
    config = parse_config(CONFIG.replace("FALLBACK", fallback))
    return simulate_scenario(scenario, real_scheduler(config, Options()), RunSettings(**settings))  # type: ignore[arg-type]


def report_of(scenario: Scenario, outcome: Outcome) -> Report:
    return build_report(scenario, outcome, {})
