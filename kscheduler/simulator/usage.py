"""Reads what pods and nodes really use from their annotations; by default a pod uses its requests, and a node nothing.

kscheduler.io/usage-cpu: "250m"      on a pod: its use once it is on a node; on a node: use besides that of its pods
kscheduler.io/usage-memory: 1Gi      likewise
kscheduler.io/usage-ramp: "60"       on a pod: the seconds in which its use rises linearly from nothing
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kscheduler.api.objects import Node, Pod
from kscheduler.api.quantity import parse_milli, parse_units
from kscheduler.api.resources import CPU, MEMORY, pod_resources
from kscheduler.errors import ConfigError, DecodeError

USAGE_CPU = "kscheduler.io/usage-cpu"
USAGE_MEMORY = "kscheduler.io/usage-memory"
USAGE_RAMP = "kscheduler.io/usage-ramp"
KEYS = (USAGE_CPU, USAGE_MEMORY, USAGE_RAMP)

RESOURCES = (CPU, MEMORY)  # the resources whose real use is modelled; `Amounts` are in this order
_PARSERS = {USAGE_CPU: parse_milli, USAGE_MEMORY: parse_units}

Amounts = tuple[int, int]  # thousandths of a core, bytes


class Usage(NamedTuple):
    amounts: Amounts
    ramp_s: float = 0.0


def requested(pod: Pod) -> Amounts:
    total = pod_resources(pod).total
    return total.cpu_milli, total.memory


def pod_usage(pod: Pod) -> Usage:
    """Return what a pod really uses. Raises ConfigError, naming pod and annotation, for an unreadable value."""
    annotations = pod.metadata.annotations
    cpu, memory = requested(pod)
    if not annotations:
        return Usage((cpu, memory))
    where = f'pod "{pod.key}"'
    amounts = _amount(where, annotations, USAGE_CPU, cpu), _amount(where, annotations, USAGE_MEMORY, memory)
    return Usage(amounts, _ramp_s(where, annotations))


def node_usage(node: Node) -> Amounts:
    """Return what a node uses besides its pods.

    Raises ConfigError, naming node and annotation, for an unreadable value.
    """
    annotations = node.metadata.annotations
    if not annotations:
        return 0, 0
    where = f'node "{node.metadata.name}"'
    return _amount(where, annotations, USAGE_CPU, 0), _amount(where, annotations, USAGE_MEMORY, 0)


def declare_usage(items: Iterable[Pod | Node]) -> bool:
    """Return True if any of the objects has one of the annotations above."""
    return any(
        any(key in annotations for key in KEYS)
        for annotations in (item.metadata.annotations for item in items)
        if annotations
    )


def _amount(where: str, annotations: Mapping[str, str], key: str, default: int) -> int:
    written = annotations.get(key)
    if written is None:
        return default
    try:
        amount = _PARSERS[key](written, f"{where}: annotation {key}")
    except DecodeError as error:
        raise ConfigError(str(error)) from error
    if amount < 0:
        raise ConfigError(f'{where}: annotation {key}: expected an amount of 0 or more, got "{written}"')
    return amount


def _ramp_s(where: str, annotations: Mapping[str, str]) -> float:
    written = annotations.get(USAGE_RAMP, "0")
    try:
        ramp_s = float(written)
    except ValueError:
        ramp_s = -1.0
    if not 0 <= ramp_s < math.inf:
        raise ConfigError(f'{where}: annotation {USAGE_RAMP}: expected seconds, 0 or more, got "{written}"')
    return ramp_s
