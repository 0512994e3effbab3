"""Defines the input of a simulation: nodes, what else is there from the start, and pods that come and go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kscheduler.api.devices import DeviceObject
from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.objects import APIObject, Node, Pod, PolicyObject
from kscheduler.api.pod_groups import AnyPodGroup
from kscheduler.api.share_queues import ShareQueueObject
from kscheduler.api.storage import StorageObject
from kscheduler.simulator.metrics_plan import MetricsPlan
from kscheduler.simulator.object_changes import ObjectChange


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod and the time it is created. It leaves after `runs_s` or at `leaves_at_s`; if both are None it stays."""

    at_s: float
    pod: Pod
    runs_s: float | None = None  # seconds from its binding until it leaves
    leaves_at_s: float | None = None  # the time at which it leaves, bound or not, as in a trace


@dataclass(frozen=True, slots=True)
class Scenario:
    nodes: list[Node] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)  # by time
    parameters: dict[str, str] = field(default_factory=dict)  # what the scenario was made from, for the report
    notes: list[str] = field(default_factory=list)  # sentences on what is not modelled, for the report
    seed: int = 0  # of its random numbers; the simulation has the same, unless `--seed` names another
    storage: list[StorageObject] = field(default_factory=list)  # volumes, claims, classes, drivers
    metrics: MetricsPlan = field(default_factory=MetricsPlan)
    policies: list[PolicyObject] = field(default_factory=list)  # MetricPolicies and TASPolicies
    devices: list[DeviceObject] = field(default_factory=list)  # slices, classes, taint rules, claims, their templates
    quotas: list[ElasticQuota] = field(default_factory=list)
    pod_groups: list[AnyPodGroup] = field(default_factory=list)
    queues: list[ShareQueueObject] = field(default_factory=list)
    changes: list[ObjectChange] = field(default_factory=list)  # by time; at 0: before the scheduler starts
    groups: list[tuple[str, APIObject]] = field(default_factory=list)  # (kind, Namespace, Service, budget and the like)


def with_warnings(scenario: Scenario, warnings: Iterable[str]) -> Scenario:
    """Return the scenario with a note for each warning, as a sentence."""
    return replace(scenario, notes=[*scenario.notes, *(f"{warning.removesuffix('.')}." for warning in warnings)])
