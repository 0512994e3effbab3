"""Reads the description of a generated workload from a YAML or JSON file; errors name file, path and value.

    seed: 1
    nodes:
      count: 5000
      zones: [a, b, c]
      shapes:
      - {name: small, weight: 3, capacity: {cpu: 16, memory: 64Gi}}
      - {name: gpu, capacity: {cpu: 96, memory: 768Gi, example.com/gpu: 8}, taints: [{key: gpu, effect: NoSchedule}],
         usage: {cpu: 2},                                     # besides its pods' use
         devices: [{driver: gpu.example.com, count: 4, attributes: {model: large}, capacity: {memory: 80Gi}}]}
    pods:
      count: 50000
      arrival: poisson:500
      duration: exp:3600
      shapes:
      - {name: web, weight: 9, requests: {cpu: 500m, memory: 1Gi}, priority: 1000, duration: forever}
      - {name: job, requests: {cpu: 4, memory: 8Gi}, nodeSelector: {node-shape: small}}
      - {name: training, requests: {cpu: 8}, devices: [{driver: gpu.example.com, count: 2,
         selector: 'device.attributes["gpu.example.com"].model == "large"'}]}
      - {name: train, requests: {cpu: 8}, gang: {size: 16, minimum: 12, within: 30}}   # 16 pods, all within 30 s
      - {name: idle, requests: {cpu: 2}, limits: {cpu: 4}, usage: {cpu: "normal:0.2,0.05", memory: 0.5, ramp: 30}}
    metrics:                                                 # the metrics.k8s.io API
      interval: 15
      outages:
      - {kind: unavailable, from: 600, until: 900}           # or hang; seconds since the first arrival

What is left out has the same defaults as for plain numbers on the command line. `pods: 110` is added to a node's
capacity. `usage` of pods is a share of their requests, and at most their limits; without it they use their requests.
Devices are those of dynamic resource allocation: `workload_devices` says which objects they become. Each arrival of a
shape with `gang` is a gang of `size` pods with a PodGroup of Coscheduling; its `minimum` is the size unless given, and
`required` and `preferred` name the node labels by which its pods are to be near to each other (GANGS.md).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from kscheduler.api.objects import QuantityMap, Taint, Toleration
from kscheduler.api.quantity import parse_milli
from kscheduler.api.tolerations import EFFECTS
from kscheduler.cel.faults import SelectorError
from kscheduler.cel.selectors import selectors_for
from kscheduler.config.decode import decode, describe
from kscheduler.config.document import read_document
from kscheduler.config.releases import DEFAULT_RELEASE
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.names import is_qualified_name
from kscheduler.simulator.metrics_plan import KINDS, MetricsPlan
from kscheduler.simulator.processes import parse_arrival, parse_duration
from kscheduler.simulator.usage import USAGE_CPU, USAGE_MEMORY
from kscheduler.simulator.usage_laws import ShareLaw, UsageLaw, parse_share
from kscheduler.simulator.workload import (
    DEFAULT_NODE_SHAPES,
    DEFAULT_POD_SHAPES,
    DEFAULT_ZONES,
    NodePlan,
    NodeShape,
    PodPlan,
    PodShape,
    WorkloadSpec,
)
from kscheduler.simulator.workload_devices import MAX_DEVICES, NodeDevices, WantedDevices
from kscheduler.simulator.workload_gangs import MAX_MEMBERS, GangShape

MAX_PODS_PER_NODE = "110"  # the kubelet's own default
MAX_WEIGHT = 1e15  # shapes are drawn by the sums of weights, which must be finite and exact
_DRIVER = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")  # in part; a class gets this name


class _Fields(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _Shape(_Fields, frozen=True):
    name: str = ""
    weight: float = 1.0


class _NodeDevices(_Fields, frozen=True):
    driver: str = ""
    count: int = 1
    attributes: dict[str, str | int | bool] = {}
    capacity: dict[str, Any] = {}


class _WantedDevices(_Fields, frozen=True):
    driver: str = ""
    count: int = 1
    selector: str = ""


class _NodeShape(_Shape, frozen=True):
    capacity: dict[str, Any] = {}
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    unschedulable: bool = False
    usage: dict[str, Any] = {}
    devices: list[_NodeDevices] = []


class _Nodes(_Fields, frozen=True):
    count: int = 100
    zones: list[str] = msgspec.field(default_factory=lambda: list(DEFAULT_ZONES))
    shapes: list[_NodeShape] = []


class _Usage(_Fields, frozen=True):
    cpu: str | float | None = None
    memory: str | float | None = None
    ramp: float = 0.0


class _Gang(_Fields, frozen=True):
    size: int = 0
    minimum: int | None = None
    within: float = 0.0
    required: str = ""
    preferred: list[str] = []


class _PodShape(_Shape, frozen=True):
    requests: dict[str, Any] = {}
    priority: int = 0
    labels: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    duration: str = ""
    limits: dict[str, Any] = {}
    usage: _Usage | None = None
    devices: list[_WantedDevices] = []
    gang: _Gang | None = None


class _Pods(_Fields, frozen=True):
    count: int = 1_000
    arrival: str = "now"
    duration: str = "forever"
    namespace: str = "default"
    shapes: list[_PodShape] = []


class _Workload(_Fields, frozen=True):
    seed: int = 0
    nodes: _Nodes = _Nodes()
    pods: _Pods = _Pods()
    metrics: MetricsPlan = MetricsPlan()


def read_workload(path: str) -> WorkloadSpec:
    """Read a workload file. Raises ConfigError that names the file, the path of the field and the value."""
    document = read_document(path, "nodes, pods and seed")
    try:
        workload = decode(_Workload, document)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    assert workload is not None  # decode raises errors, unless a list for them is passed
    _check_metrics(f"{path}: metrics", workload.metrics)
    return WorkloadSpec(_nodes(path, workload.nodes), _pods(path, workload.pods), workload.seed, workload.metrics)


def _nodes(path: str, nodes: _Nodes) -> NodePlan:
    _check_count(f"{path}: nodes.count", nodes.count)
    _check_shapes(f"{path}: nodes.shapes", nodes.shapes)
    shapes = [_node_shape(f"{path}: nodes.shapes[{index}]", shape) for index, shape in enumerate(nodes.shapes)]
    return NodePlan(nodes.count, shapes or DEFAULT_NODE_SHAPES, nodes.zones)


def _node_shape(where: str, shape: _NodeShape) -> NodeShape:
    capacity = {"pods": MAX_PODS_PER_NODE, **_quantities(f"{where}.capacity", shape.capacity)}
    for index, taint in enumerate(shape.taints):
        if taint.effect not in EFFECTS:
            expected = ", ".join(EFFECTS)
            raise ConfigError(f'{where}.taints[{index}].effect: expected one of {expected}, got "{taint.effect}"')
    used = _node_usage(f"{where}.usage", shape.usage)
    devices = [_node_devices(f"{where}.devices[{index}]", each) for index, each in enumerate(shape.devices)]
    _check_totals(f"{where}.devices", devices)
    return NodeShape(shape.name, capacity, shape.weight, shape.labels, shape.taints, shape.unschedulable, used, devices)


def _node_devices(where: str, devices: _NodeDevices) -> NodeDevices:
    _check_devices(where, devices.driver, devices.count)
    capacity = _quantities(f"{where}.capacity", devices.capacity)
    return NodeDevices(devices.driver, devices.count, devices.attributes, capacity)


def _wanted_devices(where: str, wanted: _WantedDevices) -> WantedDevices:
    _check_devices(where, wanted.driver, wanted.count)
    if wanted.selector:
        try:
            selectors_for(DEFAULT_RELEASE).get(wanted.selector)
        except SelectorError as error:
            raise ConfigError(
                f"{where}.selector: expected a CEL expression, got {wanted.selector!r}: {error}"
            ) from None
    return WantedDevices(wanted.driver, wanted.count, wanted.selector)


def _check_devices(where: str, driver: str, count: int) -> None:
    if not _DRIVER.fullmatch(driver):
        raise ConfigError(f'{where}.driver: expected the name of a driver such as gpu.example.com, got "{driver}"')
    if not 1 <= count <= MAX_DEVICES:
        raise ConfigError(f"{where}.count: expected 1 to {MAX_DEVICES} devices, got {count}")


def _check_totals(where: str, devices: Sequence[NodeDevices]) -> None:
    totals: Counter[str] = Counter()
    for each in devices:
        totals[each.driver] += each.count
        if totals[each.driver] > MAX_DEVICES:
            raise ConfigError(f"{where}: expected at most {MAX_DEVICES} devices of {each.driver}, got more")


def _node_usage(where: str, usage: dict[str, Any]) -> dict[str, str]:
    """Return a node's use besides its pods as annotations (see `usage`)."""
    keys = {"cpu": USAGE_CPU, "memory": USAGE_MEMORY}
    for name in usage:
        if name not in keys:
            raise ConfigError(f'{where}: expected cpu or memory, got "{name}"')
    return {keys[name]: str(value) for name, value in _quantities(where, usage).items()}


def _pods(path: str, pods: _Pods) -> PodPlan:
    _check_count(f"{path}: pods.count", pods.count)
    _check_shapes(f"{path}: pods.shapes", pods.shapes)
    shapes = [_pod_shape(f"{path}: pods.shapes[{index}]", shape) for index, shape in enumerate(pods.shapes)]
    arrival = parse_arrival(pods.arrival, f"{path}: pods.arrival")
    duration = parse_duration(pods.duration, f"{path}: pods.duration")
    return PodPlan(pods.count, shapes or DEFAULT_POD_SHAPES, arrival, duration, pods.namespace)


def _pod_shape(where: str, shape: _PodShape) -> PodShape:
    return PodShape(
        shape.name,
        _quantities(f"{where}.requests", shape.requests),
        shape.weight,
        shape.priority,
        shape.labels,
        shape.node_selector,
        shape.tolerations,
        parse_duration(shape.duration, f"{where}.duration") if shape.duration else None,
        _quantities(f"{where}.limits", shape.limits),
        None if shape.usage is None else _pod_usage(f"{where}.usage", shape.usage),
        [_wanted_devices(f"{where}.devices[{index}]", each) for index, each in enumerate(shape.devices)],
        None if shape.gang is None else _gang(f"{where}.gang", shape.gang),
    )


def _gang(where: str, gang: _Gang) -> GangShape:
    if not 1 <= gang.size <= MAX_MEMBERS:
        raise ConfigError(f"{where}.size: expected 1 to {MAX_MEMBERS} pods, got {gang.size}")
    minimum = gang.size if gang.minimum is None else gang.minimum
    if not 1 <= minimum <= gang.size:
        raise ConfigError(f"{where}.minimum: expected 1 to {gang.size}, the gang's size, got {minimum}")
    if not 0 <= gang.within < math.inf:
        raise ConfigError(f"{where}.within: expected seconds, 0 or more, got {gang.within:g}")
    for field, keys in (("required", [gang.required] if gang.required else []), ("preferred", gang.preferred)):
        for key in keys:
            if not is_qualified_name(key):
                raise ConfigError(f'{where}.{field}: expected the key of a node label, got "{key}"')
    if len(set(gang.preferred)) < len(gang.preferred):
        raise ConfigError(f"{where}.preferred: expected each key once, got {', '.join(gang.preferred)}")
    return GangShape(gang.size, minimum, gang.within, gang.required, gang.preferred)


def _pod_usage(where: str, usage: _Usage) -> UsageLaw:
    def share(name: str, written: str | float | None) -> ShareLaw | None:
        return None if written is None else parse_share(written, f"{where}.{name}")

    if not 0 <= usage.ramp < math.inf:
        raise ConfigError(f"{where}.ramp: expected seconds, 0 or more, got {usage.ramp:g}")
    return UsageLaw(share("cpu", usage.cpu), share("memory", usage.memory), usage.ramp)


def _check_metrics(where: str, metrics: MetricsPlan) -> None:
    if not 0 < metrics.interval_s < math.inf:
        raise ConfigError(f"{where}.interval: expected seconds above zero, got {metrics.interval_s:g}")
    for index, outage in enumerate(metrics.outages):
        place, start, end = f"{where}.outages[{index}]", outage.from_s, outage.until_s
        if outage.kind not in KINDS:
            raise ConfigError(f'{place}.kind: expected one of {", ".join(KINDS)}, got "{outage.kind}"')
        if not 0 <= start < end < math.inf:
            raise ConfigError(f"{place}: expected until after from, got from {start:g} until {end:g}")


def _check_count(where: str, count: int) -> None:
    if count < 0:
        raise ConfigError(f"{where}: expected zero or more, got {count}")


def _check_shapes(where: str, shapes: Sequence[_Shape]) -> None:
    names: set[str] = set()
    for index, shape in enumerate(shapes):
        if not shape.name:
            raise ConfigError(f"{where}[{index}].name: expected a name")
        if shape.name in names:
            raise ConfigError(f'{where}[{index}].name: "{shape.name}" is taken by an earlier shape')
        if not 0 < shape.weight <= MAX_WEIGHT:
            expected = f"a number above zero, of at most {MAX_WEIGHT:g}"
            raise ConfigError(f"{where}[{index}].weight: expected {expected}, got {shape.weight:g}")
        names.add(shape.name)


def _quantities(where: str, quantities: dict[str, Any]) -> QuantityMap:
    for name, value in quantities.items():
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ConfigError(f'{where}[{name}]: expected a quantity such as "500m" or "2Gi", got {describe(value)}')
        try:
            amount = parse_milli(value, f"{where}[{name}]")
        except DecodeError as error:
            raise ConfigError(str(error)) from error
        if amount < 0:
            raise ConfigError(f'{where}[{name}]: expected an amount of 0 or more, got "{value}"')
    return quantities
