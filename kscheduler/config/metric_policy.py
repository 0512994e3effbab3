"""The arguments of the plugin MetricPolicy, which places pods by live metrics: sources, metrics and policies.

An object of the kind MetricPolicy (kscheduler.io/v1alpha1) has one such policy as its `spec`. Numbers are Kubernetes
quantities. `metric_policy_validation` checks the values. Enumerations are decoded as text, so that a wrong one is
reported with the allowed values, together with all other errors.
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

    url: SecretURL = SecretURL()  # of the server
    bearer_token_file: str = ""  # file with a token
    username: Secret = Secret()  # for basic authentication
    password_file: str = ""  # file with its password
    ca_file: str = ""  # authorities that vouch for the server, PEM
    cert_file: str = ""  # client certificate, PEM
    key_file: str = ""  # its private key, PEM
    server_name: str = ""  # expected in the certificate, in place of the URL's host
    insecure_skip_verify: bool = False  # do not verify the server's certificate
    headers: dict[str, Secret] = msgspec.field(default_factory=dict)  # name -> value
    header_files: dict[str, str] = msgspec.field(default_factory=dict)  # name -> file with a secret value


class Breaker(ConfigStruct, frozen=True):
    """After `failures` failures in a row, the source is not polled for the time `open_for`, and then probed."""

    failures: Int32 = 3  # in a row
    open_for: Duration = Duration.of_seconds(30)  # pause before the source is probed


class Source(ConfigStruct, frozen=True):
    """A source of metrics, with exactly one of the kinds set.

    Aggregated APIs are read from the scheduler's own apiserver.
    """

    name: str = ""  # by which metrics name it
    prometheus: Endpoint | None = None  # a Prometheus server
    load_watcher: Endpoint | None = None  # Trimaran's load watcher
    resource_metrics: dict[str, Any] | None = None  # metrics.k8s.io; {}, as it has no settings
    custom_metrics: dict[str, Any] | None = None  # custom.metrics.k8s.io
    external_metrics: dict[str, Any] | None = None  # external.metrics.k8s.io
    node_fields: dict[str, Any] | None = None  # labels and annotations of nodes
    interval: Duration = Duration.of_seconds(15)  # between two polls
    timeout: Duration = Duration.of_seconds(5)  # of a poll
    breaker: Breaker = Breaker()  # when a failing source is left alone


class Clamp(ConfigStruct, frozen=True):
    """Bounds for values; a value outside is replaced by the bound.

    `outliers` adds bounds at so many median absolute deviations from the median, on each side.
    """

    min: Quantity | None = None  # the lowest value
    max: Quantity | None = None  # the highest value
    outliers: float | None = None  # in median absolute deviations


class Metric(ConfigStruct, frozen=True):
    """A metric with one number per node. The kind of its source decides which fields apply."""

    name: str = ""  # by which rules name it
    source: str = ""  # the name of a source
    query: str = ""  # prometheus: PromQL whose result has one element for each node
    node_label: str = ""  # prometheus and external: the label that names the node; "": "node", then "instance"
    metric: str = ""  # custom and external: its name; load watcher: CPU, Memory, ...
    selector: str = ""  # custom and external: label selector of the metric
    namespace: str = ""  # external
    operator: str = ""  # load watcher: AVG, STD or Latest
    resource: str = ""  # resource metrics: cpu or memory, as a share of the node's allocatable or capacity
    label: str = ""  # node fields: the key of a label
    annotation: str = ""  # node fields: the key of an annotation
    is_time: bool = False  # node fields: an RFC 3339 time, of which the age in seconds is the value
    window: Duration = Duration(0)  # the time over which a value is an average; zero: as reported, or no average
    clamp: Clamp = Clamp()  # bounds for its values
    smoothing: float = 0.0  # weight of the past, 0..1, in an exponential average; 0: none


# --- what is made of them ---


class Freshness(ConfigStruct, frozen=True):
    """The maximum age of a sample.

    A zero `maxAge` means `cadences` times the interval at which values were seen to change.
    """

    max_age: Duration = Duration(0)  # zero: by cadences
    cadences: float = 3.0  # intervals
    at_least: Duration = Duration.of_seconds(10)  # lower bound of what cadences gives
    at_most: Duration = Duration.of_seconds(600)  # upper bound of what cadences gives


class Range(ConfigStruct, frozen=True):
    """The metric values that correspond to 0 and to 100 points."""

    min: Quantity = 0  # the value at one end
    max: Quantity = 1  # the value at the other end


class Deviation(ConfigStruct, frozen=True):
    """The standard deviation of a LowRisk rule's metric: which metric it is, and its weight, as in Trimaran."""

    metric: str = ""  # with the standard deviation
    margin: float = 1.0  # factor, Trimaran's safeVarianceMargin
    sensitivity: float = 1.0  # Trimaran's safeVarianceSensitivity


class SelfLoad(ConfigStruct, frozen=True):
    """The load added to a node's value for pods placed since its sample was taken, which the sample cannot contain.

    Exactly one of `resource` and `perPod` is set. With `resource` it is the pods' request of that resource times
    `factor`, as a share of the node's allocatable, times `per` (100 for a metric in percent). `perPod` is a fixed
    amount for each pod.
    """

    resource: str = ""  # cpu or memory, or another that pods request
    factor: float = 1.0  # share of the request that pods are expected to use
    per: float = 1.0  # 100 for a metric in percent
    per_pod: Quantity | None = None  # a fixed amount for each pod


class ScoreRule(ConfigStruct, frozen=True):
    """A rule that gives a node 0 to 100 points; a policy's score is the weighted mean of its rules."""

    metric: str = ""  # the name of a metric
    goal: str = "Minimize"  # Minimize, Maximize, Target, LowRisk
    target: Quantity | None = None  # for Target: below it a higher value is better, above it a lower one
    deviation: Deviation | None = None  # for LowRisk
    range: Range | None = None  # None: from the lowest to the highest fresh value of all nodes
    weight: Int32 = 1  # in the mean of the policy's rules
    freshness: Freshness = Freshness()  # when a value is too old
    fallback: str = "Neutral"  # Neutral, Exclude, LastGood, Requeue
    neutral_score: Int32 = 50  # points of a node without a fresh value, with Neutral
    self_load: SelfLoad | None = None  # what pods placed since the sample add


class FilterRule(ConfigStruct, frozen=True):
    """A condition on a node's value; or, if only `anyOf` is set, conditions of which at least one must hold."""

    metric: str = ""  # the name of a metric
    operator: str = ""  # LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual, Equals, NotEquals
    value: Quantity | None = None  # that the node's value is compared with
    freshness: Freshness = Freshness()  # when a value is too old
    fallback: str = "Neutral"  # Neutral: the rule holds
    self_load: SelfLoad | None = None  # what pods placed since the sample add
    any_of: tuple[FilterRule, ...] = ()  # conditions of which one must hold, in place of the fields above

    @property
    def conditions(self) -> tuple[FilterRule, ...]:
        """The conditions of which at least one must hold; for a single condition, the rule itself."""
        return self.any_of or (self,)


class Loosening(ConfigStruct, frozen=True):
    metric: str = ""  # the name of a metric
    value: Quantity = 0  # the new bound, in all rules on this metric


class Relaxation(ConfigStruct, frozen=True):
    """A step that weakens a policy for a pod that has waited for the time `after` and has no feasible node.

    Later steps apply in addition to earlier ones.
    """

    after: Duration = Duration(0)  # waiting time of the pod
    loosen: tuple[Loosening, ...] = ()  # bounds that are replaced
    drop: tuple[str, ...] = ()  # metrics whose filter rules are left out
    drop_all: bool = False  # leave out all filter rules


class PlanB(ConfigStruct, frozen=True):
    """What replaces a policy while a source that it needs keeps failing: no policy, or another profile."""

    after_failures: Int32 = 5  # in a row, of a source that the policy needs
    action: str = "Drop"  # Drop: as if there were no policy; Profile: decide as `profile` would
    profile: str = ""  # a scheduler name of this configuration


class PolicySpec(ConfigStruct, frozen=True):
    score: tuple[ScoreRule, ...] = ()  # which nodes are better; the weighted mean of all rules
    filter: tuple[FilterRule, ...] = ()  # all must hold
    relaxation: tuple[Relaxation, ...] = ()  # steps that weaken the filter for pods that wait
    decision_deadline: Duration = Duration(0)  # how long a pod may wait for metrics (Requeue, Exclude); zero: no limit
    plan_b: PlanB | None = None  # what replaces the policy while a source fails

    def metrics(self) -> list[str]:
        """Return the metrics that the rules read, without duplicates: of score rules first, then of filter rules."""
        names = [rule.metric for rule in self.score]
        names += [rule.deviation.metric for rule in self.score if rule.deviation is not None]
        names += [one.metric for rule in self.filter for one in rule.conditions]
        return list(dict.fromkeys(names))

    def is_in_plan_b(self, failures: Callable[[str], int]) -> bool:
        """Return True if the policy is replaced by its plan B because a source that it needs keeps failing.

        `failures` returns the number of consecutive failures of a metric.
        """
        plan = self.plan_b
        return plan is not None and any(failures(metric) >= plan.after_failures for metric in self.metrics())


class NamedPolicy(PolicySpec, frozen=True):
    name: str = ""  # by which pods name it


class MetricPolicyArgs(PluginArgs, frozen=True):
    """The arguments of the plugin MetricPolicy.

    A pod names its policy in the label or annotation kscheduler.io/metric-policy, or gets the default. A MetricPolicy
    object in the pod's namespace takes precedence over a policy of that name here. A label telemetry-policy names a
    TASPolicy in the pod's namespace.
    """

    sources: tuple[Source, ...] = ()  # where values come from
    metrics: tuple[Metric, ...] = ()  # which values
    policies: tuple[NamedPolicy, ...] = ()  # what is made of them
    default_policy: str = ""  # of pods that name none
    policy_objects: bool = False  # watch MetricPolicy objects in all namespaces
    tas_policies: bool = False  # watch TASPolicy objects; their metrics come from the first customMetrics source
