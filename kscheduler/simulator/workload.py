"""Generates nodes and pods: weighted shapes (equal nodes or pods), an arrival process, and durations, from one seed.

Each choice is drawn from a generator seeded with (seed, purpose), so that changing the number of nodes does not change
the pods. Pods of one shape share their spec, so that a million pods cost little more memory than their names.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from typing import TypeVar

from kscheduler.api.devices import DeviceObject
from kscheduler.api.objects import (
    Container,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    QuantityMap,
    ResourceRequirements,
    Taint,
    Toleration,
)
from kscheduler.api.pod_groups import POD_GROUP_LABEL, AnyPodGroup
from kscheduler.api.topology_labels import ZONE
from kscheduler.simulator.metrics_plan import MetricsPlan
from kscheduler.simulator.processes import ArrivalProcess, DurationLaw, parse_arrival, parse_duration
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.simulator.usage_laws import UsageLaw
from kscheduler.simulator.workload_devices import (
    NodeDevices,
    WantedDevices,
    claim_entries,
    classes_of,
    slices_of,
    template_of,
)
from kscheduler.simulator.workload_gangs import GangShape
from kscheduler.snapshot.node_classes import HOSTNAME

SHAPE_LABEL = "node-shape"
GPU = "example.com/gpu"


@dataclass(frozen=True, slots=True)
class NodeShape:
    name: str
    capacity: QuantityMap
    weight: float = 1.0
    labels: dict[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    unschedulable: bool = False
    annotations: dict[str, str] = field(default_factory=dict)
    devices: Sequence[NodeDevices] = ()


@dataclass(frozen=True, slots=True)
class PodShape:
    name: str
    requests: QuantityMap
    weight: float = 1.0
    priority: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: Sequence[Toleration] = ()
    duration: DurationLaw | None = None  # None: the workload's
    limits: QuantityMap = field(default_factory=dict)
    usage: UsageLaw | None = None  # what pods really use; None: what they request
    devices: Sequence[WantedDevices] = ()
    gang: GangShape | None = None  # None: each pod comes by itself


@dataclass(frozen=True, slots=True)
class NodePlan:
    count: int
    shapes: Sequence[NodeShape]
    zones: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class PodPlan:
    count: int  # of pods; the last gang is whole even if it has more
    shapes: Sequence[PodShape]
    arrival: ArrivalProcess
    duration: DurationLaw
    namespace: str = "default"


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    nodes: NodePlan
    pods: PodPlan
    seed: int = 0
    metrics: MetricsPlan = field(default_factory=MetricsPlan)


_TAINTED = (Taint(key=GPU, value="present", effect="NoSchedule"),)
_TOLERATES = (Toleration(key=GPU, operator="Exists", effect="NoSchedule"),)

# A cluster of mixed machines; one in twenty has GPUs, and a taint that keeps other pods off.
DEFAULT_NODE_SHAPES = (
    NodeShape("general-16", {"cpu": "16", "memory": "64Gi", "pods": "110"}, weight=55),
    NodeShape("general-32", {"cpu": "32", "memory": "128Gi", "pods": "110"}, weight=30),
    NodeShape("general-64", {"cpu": "64", "memory": "256Gi", "pods": "110"}, weight=10),
    NodeShape("gpu-8", {"cpu": "96", "memory": "768Gi", "pods": "110", GPU: "8"}, weight=5, taints=_TAINTED),
)
DEFAULT_ZONES = ("zone-a", "zone-b", "zone-c")
# Many small services and few large ones; 1.6 cores per pod on average.
DEFAULT_POD_SHAPES = (
    PodShape("tiny", {"cpu": "250m", "memory": "512Mi"}, weight=20),
    PodShape("small", {"cpu": "500m", "memory": "2Gi"}, weight=20),
    PodShape("medium", {"cpu": "1", "memory": "4Gi"}, weight=20),
    PodShape("service", {"cpu": "1", "memory": "4Gi"}, weight=5, priority=1000),
    PodShape("large", {"cpu": "2", "memory": "8Gi"}, weight=20),
    PodShape("xlarge", {"cpu": "4", "memory": "16Gi"}, weight=10),
    PodShape("huge", {"cpu": "8", "memory": "32Gi"}, weight=4),
    PodShape("training", {"cpu": "8", "memory": "64Gi", GPU: "1"}, weight=1, priority=100, tolerations=_TOLERATES),
)


def default_workload(
    nodes: int = 100, pods: int = 1_000, arrival: str = "now", duration: str = "forever", seed: int = 0
) -> WorkloadSpec:
    """Return the workload for plain numbers on the command line, as in `--nodes 100 --pods 1000`."""
    return WorkloadSpec(
        NodePlan(nodes, DEFAULT_NODE_SHAPES, DEFAULT_ZONES),
        PodPlan(pods, DEFAULT_POD_SHAPES, parse_arrival(arrival, "--arrival"), parse_duration(duration, "--duration")),
        seed,
    )


def generate(spec: WorkloadSpec) -> Scenario:
    """Return the scenario that a workload describes; equal for equal workloads."""
    nodes, pods = generate_nodes(spec.nodes, spec.seed), generate_pods(spec.pods, spec.seed)
    devices = [*node_devices(nodes, spec.nodes), *pods.devices]
    united = list({(type(item), item.key): item for item in devices}.values())
    parameters = {**describe_nodes(spec.nodes), **pods.parameters, "seed": str(spec.seed)}
    return replace(pods, nodes=nodes, parameters=parameters, seed=spec.seed, metrics=spec.metrics, devices=united)


def describe_nodes(plan: NodePlan) -> dict[str, str]:
    return {"nodes": f"{plan.count:,} generated", "node shapes": ", ".join(shape.name for shape in plan.shapes)}


def _describe_pods(plan: PodPlan) -> dict[str, str]:
    return {
        "pods": f"{plan.count:,} generated",
        "pod shapes": ", ".join(shape.name for shape in plan.shapes),
        "arrival": plan.arrival.text,
        "duration": plan.duration.text,
    }


def generate_nodes(plan: NodePlan, seed: int) -> list[Node]:
    source = random.Random(f"{seed} nodes")
    chosen = islice(_choices(plan.shapes, [shape.weight for shape in plan.shapes], source), plan.count)
    width = len(str(max(plan.count - 1, 0)))
    nodes = []
    for index, shape in enumerate(chosen):
        zone = plan.zones[index % len(plan.zones)] if plan.zones else ""
        nodes.append(node_of(f"node-{index:0{width}}", shape, zone))
    return nodes


def node_devices(nodes: Iterable[Node], plan: NodePlan) -> list[DeviceObject]:
    """Return the slices of generated nodes, and the classes of their drivers; none if no shape has devices."""
    shapes = {shape.name: shape.devices for shape in plan.shapes if shape.devices}
    if not shapes:
        return []
    found: list[DeviceObject] = [*classes_of(each.driver for devices in shapes.values() for each in devices)]
    for node in nodes:
        found += slices_of(node.metadata.name, shapes.get((node.metadata.labels or {})[SHAPE_LABEL], ()))
    return found


def _pod_devices(plan: PodPlan) -> list[DeviceObject]:
    """Return the templates of the claims of generated pods, and the classes that they name."""
    shapes = [shape for shape in plan.shapes if shape.devices]
    templates = [template_of(shape.name, plan.namespace, shape.devices) for shape in shapes]
    return [*classes_of(each.driver for shape in shapes for each in shape.devices), *templates]


def generate_pods(plan: PodPlan, seed: int) -> Scenario:
    """Return a scenario that has the pods, and what belongs to them, but no nodes."""
    times = plan.arrival.times(random.Random(f"{seed} arrivals"))
    durations, usages = random.Random(f"{seed} durations"), random.Random(f"{seed} usage")
    chosen = _choices(plan.shapes, [shape.weight for shape in plan.shapes], random.Random(f"{seed} pods"))
    specs = {shape.name: _spec(shape) for shape in plan.shapes}
    labels = {shape.name: {"app": shape.name, **shape.labels} for shape in plan.shapes}
    width = len(str(max(plan.count - 1, 0)))
    arrivals: list[Arrival] = []
    pod_groups: list[AnyPodGroup] = []

    def add(name: str, shape: PodShape, of_shape: dict[str, str], at_s: float, runs_s: float | None) -> None:
        metadata = ObjectMeta(
            name=name, namespace=plan.namespace, labels=of_shape, annotations=_annotations(shape, usages)
        )
        arrivals.append(Arrival(at_s, Pod(metadata=metadata, spec=specs[shape.name]), runs_s))

    for at_s, shape in zip(times, chosen, strict=False):
        if len(arrivals) >= plan.count:
            break
        name, runs_s = f"{shape.name}-{len(arrivals):0{width}}", (shape.duration or plan.duration).draw(durations)
        if shape.gang is None:
            add(name, shape, labels[shape.name], at_s, runs_s)
            continue
        pod_groups.append(shape.gang.pod_group(plan.namespace, name))
        of_gang = {**labels[shape.name], POD_GROUP_LABEL: name}
        for member, arrives_s in enumerate(shape.gang.times(at_s)):
            add(f"{name}-{member}", shape, of_gang, arrives_s, runs_s)
    if pod_groups:
        arrivals.sort(key=lambda arrival: arrival.at_s)
    return Scenario(
        arrivals=arrivals, parameters=_describe_pods(plan), devices=_pod_devices(plan), pod_groups=pod_groups
    )


def _annotations(shape: PodShape, source: random.Random) -> dict[str, str] | None:
    return None if shape.usage is None else shape.usage.annotations(shape.requests, shape.limits, source)


T = TypeVar("T")


def _choices(items: Sequence[T], weights: Sequence[float], source: random.Random) -> Iterator[T]:
    sums = list(accumulate(weights))
    while True:
        yield from source.choices(items, cum_weights=sums, k=256)


def node_of(name: str, shape: NodeShape, zone: str) -> Node:
    """Return a node of a shape; `zone`: its zone, "" for none."""
    labels = {HOSTNAME: name, SHAPE_LABEL: shape.name, **shape.labels}
    if zone:
        labels[ZONE] = zone
    return Node(
        metadata=ObjectMeta(name=name, labels=labels, annotations=shape.annotations or None),
        spec=NodeSpec(unschedulable=shape.unschedulable, taints=list(shape.taints) or None),
        status=NodeStatus(
            capacity=shape.capacity, allocatable=shape.capacity, conditions=[NodeCondition("Ready", "True")]
        ),
    )


def _spec(shape: PodShape) -> PodSpec:
    resources = ResourceRequirements(requests=shape.requests, limits=shape.limits or None)
    container = Container(name="main", image=shape.name, resources=resources)
    return PodSpec(
        containers=[container],
        priority=shape.priority,
        node_selector=shape.node_selector or None,
        tolerations=list(shape.tolerations) or None,
        resource_claims=claim_entries(shape.name, shape.devices),
    )
