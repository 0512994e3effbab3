"""The input of a simulation: nodes, storage and policies that exist from the start, and pods that come and go."""

from __future__ import annotations

from dataclasses import dataclass, field

from kscheduler.api.objects import Node, Pod, PolicyObject
from kscheduler.api.storage import StorageObject
from kscheduler.simulator.metrics_plan import MetricsPlan
from kscheduler.simulator.object_changes import ObjectChange


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod with its time of creation and, as duration or time, its end; with neither it stays."""

    at_s: float
    pod: Pod
    runs_s: float | None = None  # it leaves this long after it was bound: work of a known length
    leaves_at_s: float | None = None  # it leaves at this time, bound or not: as recorded in a trace


@dataclass(frozen=True, slots=True)
class Scenario:
    nodes: list[Node] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)  # in time order
    parameters: dict[str, str] = field(default_factory=dict)  # what it was made from, for the report
    notes: list[str] = field(default_factory=list)  # what is not modelled, for the report
    storage: list[StorageObject] = field(default_factory=list)  # volumes, claims, classes, drivers
    metrics: MetricsPlan = field(default_factory=MetricsPlan)
    policies: list[PolicyObject] = field(default_factory=list)  # over live metrics
    changes: list[ObjectChange] = field(default_factory=list)  # in time order; those at 0 are there from the start
