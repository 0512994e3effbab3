"""A book of metric policies, and pods that name one of it."""

from __future__ import annotations

import yaml

from kscheduler.config.decode import decode
from kscheduler.config.metric_policy import MetricPolicyArgs
from kscheduler.config.types import PluginConfig, Profile
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.telemetry.policy_book import PolicyBook, Verdict
from kscheduler.testing.wrappers import make_pod

ARGS = """
sources: [{name: prom, prometheus: {url: "http://p"}}, {name: custom, customMetrics: {}}]
metrics: [{name: load, source: prom, query: load}, {name: heat, source: prom, query: heat}]
policies:
- {name: cool, score: [{metric: heat}]}
- {name: idle, score: [{metric: load}]}
defaultPolicy: cool
"""


def profile_of(name: str, args: str) -> Profile:
    decoded = decode(MetricPolicyArgs, yaml.safe_load(args))
    return Profile(scheduler_name=name, plugin_config=(PluginConfig(name="MetricPolicy", args=decoded),))


def book_of(further: str = "", args: str = ARGS) -> tuple[PolicyBook, list[Verdict]]:
    verdicts: list[Verdict] = []
    profiles = [profile_of("ours", f"{args}\n{further}"), Profile(scheduler_name="plain")]
    return PolicyBook(profiles, verdicts.append), verdicts


def pod(scheduler: str = "ours", *, annotation: str = "", **labels: str) -> PodInfo:
    keys = {"policy": "kscheduler.io/metric-policy", "tas": "telemetry-policy"}
    made = make_pod("web", "shop").scheduler_name(scheduler)
    for key, value in labels.items():
        made = made.label(keys[key], value)
    if annotation:
        made = made.annotation(keys["policy"], annotation)
    return PodInfo(made.obj())


HOT = "{strategies: {dontschedule: {rules: [{metricname: NAME, operator: GreaterThan, target: 80}]}}}"
