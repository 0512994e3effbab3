"""The arguments of the plugin MetricPolicy, which places pods by live metrics: sources, metrics and policies.

The arguments hold all three; an object of our kind MetricPolicy (kscheduler.io/v1alpha1)
holds one policy as its `spec`. Numbers are Kubernetes quantities. `metric_policy_validation` checks the values.
Enumerations stay text, so that a wrong one is reported with the allowed values beside all other faults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kscheduler.config.duration import Duration
from kscheduler.config.types import ConfigStruct, Int32, PluginArgs
from kscheduler.input.redaction import Secret, SecretURL

Quantity = str | int | float  # "1500m", "80", 0.6

# --- where values come from ---


class Endpoint(ConfigStruct, frozen=True):
    """An HTTP server and its credentials. Files are read again when they change."""

    url: SecretURL = SecretURL()
    bearer_token_file: str = ""
    username: Secret = Secret()
    password_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    insecure_skip_verify: bool = False
    headers: dict[str, Secret] = msgspec.field(default_factory=dict)  # name -> value
    header_files: dict[str, str] = msgspec.field(default_factory=dict)  # name -> file with a secret value


class Breaker(ConfigStruct, frozen=True):
    """After so many failures in a row the source is not polled for a time, then probed."""

    failures: Int32 = 3
    open_for: Duration = Duration.of_seconds(30)


class Source(ConfigStruct, frozen=True):
    """A source of metrics: exactly one of the kinds. The aggregated APIs are those of the scheduler's own apiserver."""

    name: str = ""
    prometheus: Endpoint | None = None
    load_watcher: Endpoint | None = None
    resource_metrics: dict[str, Any] | None = None  # metrics.k8s.io; {} is all there is to say
    custom_metrics: dict[str, Any] | None = None  # custom.metrics.k8s.io
    external_metrics: dict[str, Any] | None = None  # external.metrics.k8s.io
    node_fields: dict[str, Any] | None = None  # labels and annotations of nodes
    interval: Duration = Duration.of_seconds(15)
    timeout: Duration = Duration.of_seconds(5)
    breaker: Breaker = Breaker()


class Clamp(ConfigStruct, frozen=True):
    """Values outside are replaced by the bound. `outliers`: so many median deviations from the median, on each side."""

    min: Quantity | None = None
    max: Quantity | None = None
    outliers: float | None = None


class Metric(ConfigStruct, frozen=True):
    """A metric with one number for each node. The kind of the source decides which fields apply."""

    name: str = ""
    source: str = ""
    query: str = ""  # prometheus: PromQL whose result has one element for each node
    node_label: str = ""  # prometheus and external: the label that names the node; "": "node", then "instance"
    metric: str = ""  # custom and external: its name; load watcher: CPU, Memory, ...
    selector: str = ""  # custom and external: label selector of the metric
    namespace: str = ""  # external
    operator: str = ""  # load watcher: AVG, STD or Latest
    resource: str = ""  # resource metrics: cpu or memory, as a share of what the node has to give
    label: str = ""  # node fields: the key of a label
    annotation: str = ""  # node fields: the key of an annotation
    is_time: bool = False  # node fields: an RFC 3339 time, of which the age in seconds is the value
    window: Duration = Duration(0)  # the time a value is an average over; zero: as the source reports, or a moment
    clamp: Clamp = Clamp()
    smoothing: float = 0.0  # weight of the past, 0..1, in an exponential average; 0: none


# --- what is made of them ---


class Freshness(ConfigStruct, frozen=True):
    """The maximum age of a sample. Zero `maxAge` adapts: so many times the interval at which values changed."""

    max_age: Duration = Duration(0)
    cadences: float = 3.0
    at_least: Duration = Duration.of_seconds(10)
    at_most: Duration = Duration.of_seconds(600)


class Range(ConfigStruct, frozen=True):
    """The values that mean 0 and 100 points."""

    min: Quantity = 0
    max: Quantity = 1


class Deviation(ConfigStruct, frozen=True):
    """The metric with the standard deviation of a LowRisk rule's metric, and its weight, as in Trimaran."""

    metric: str = ""
    margin: float = 1.0
    sensitivity: float = 1.0


class SelfLoad(ConfigStruct, frozen=True):
    """The load that pods placed since the sample add to the value, before any sample can show it.

    `resource`: their request of it, times `factor`, as a share of the node's allocatable (times `per`, 100 for
    a metric in percent). `perPod`: a fixed amount for each pod. Exactly one of the two.
    """

    resource: str = ""
    factor: float = 1.0
    per: float = 1.0
    per_pod: Quantity | None = None


class ScoreRule(ConfigStruct, frozen=True):
    """Points from 0 to 100 for a node; a policy's score is the mean of its rules, by weight."""

    metric: str = ""
    goal: str = "Minimize"  # Minimize, Maximize, Target, LowRisk
    target: Quantity | None = None  # for Target: up to it more is better, past it less
    deviation: Deviation | None = None  # for LowRisk
    range: Range | None = None  # None: the least and most of all nodes that have a fresh value
    weight: Int32 = 1
    freshness: Freshness = Freshness()
    fallback: str = "Neutral"  # Neutral, Exclude, LastGood, Requeue
    neutral_score: Int32 = 50
    self_load: SelfLoad | None = None


class FilterRule(ConfigStruct, frozen=True):
    """A condition on a node's value; or, with `anyOf` alone, conditions of which one must hold."""

    metric: str = ""
    operator: str = ""  # LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual, Equals, NotEquals
    value: Quantity | None = None
    freshness: Freshness = Freshness()
    fallback: str = "Neutral"  # Neutral: the rule holds
    self_load: SelfLoad | None = None
    any_of: tuple[FilterRule, ...] = ()

    @property
    def conditions(self) -> tuple[FilterRule, ...]:
        """The conditions of which one must hold: the rule itself, if it is one."""
        return self.any_of or (self,)


class Loosening(ConfigStruct, frozen=True):
    metric: str = ""
    value: Quantity = 0  # the new bound, in all rules on this metric


class Relaxation(ConfigStruct, frozen=True):
    """One step, taken when no node is left to a pod and it has waited so long. Steps add up, in their order."""

    after: Duration = Duration(0)
    loosen: tuple[Loosening, ...] = ()
    drop: tuple[str, ...] = ()  # metrics whose filter rules are left out
    drop_all: bool = False


class PlanB(ConfigStruct, frozen=True):
    """The fallback while a source that the policy needs has failed so often in a row: no policy, or another profile."""

    after_failures: Int32 = 5
    action: str = "Drop"  # Drop: as if there were no policy; Profile: decide as `profile` would
    profile: str = ""  # a scheduler name of this configuration


class PolicySpec(ConfigStruct, frozen=True):
    score: tuple[ScoreRule, ...] = ()
    filter: tuple[FilterRule, ...] = ()  # all must hold
    relaxation: tuple[Relaxation, ...] = ()
    decision_deadline: Duration = Duration(0)  # so long a pod waits for metrics (Requeue, Exclude); zero: no limit
    plan_b: PlanB | None = None

    def metrics(self) -> list[str]:
        """Return the metrics that the rules read, each once: those of score rules, then those of filter rules."""
        names = [rule.metric for rule in self.score]
        names += [rule.deviation.metric for rule in self.score if rule.deviation is not None]
        names += [one.metric for rule in self.filter for one in rule.conditions]
        return list(dict.fromkeys(names))

    def is_in_plan_b(self, failures: Callable[[str], int]) -> bool:
        """Return True if plan B is in force. `failures` returns the number of consecutive failures of a metric."""
        plan = self.plan_b
        return plan is not None and any(failures(metric) >= plan.after_failures for metric in self.metrics())


class NamedPolicy(PolicySpec, frozen=True):
    name: str = ""


class MetricPolicyArgs(PluginArgs, frozen=True):
    """A pod names its policy in the label or annotation kscheduler.io/metric-policy, or gets the default.

    An object MetricPolicy in the pod's namespace comes before a policy of that name here. A label telemetry-policy
    names a TASPolicy in the pod's namespace.
    """

    sources: tuple[Source, ...] = ()
    metrics: tuple[Metric, ...] = ()
    policies: tuple[NamedPolicy, ...] = ()
    default_policy: str = ""
    policy_objects: bool = False  # follow objects MetricPolicy of all namespaces
    tas_policies: bool = False  # follow objects TASPolicy; their metrics come from the first customMetrics source
