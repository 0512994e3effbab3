"""Trimaran's prediction of how much CPU and memory a pod will use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kscheduler.api.objects import Container, Pod
from kscheduler.api.quantity import parse_milli, parse_units
from kscheduler.errors import DecodeError


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicts a container's CPU usage: its limit, else `multiplier` times its request, else `default_milli`."""

    default_milli: int
    multiplier: float

    def cpu_milli(self, pod: Pod) -> int:
        overhead = _amount(pod.spec.overhead, "cpu")
        return sum(self._of_container(container) for container in pod.spec.containers) + (overhead or 0)

    def _of_container(self, container: Container) -> int:
        resources = container.resources
        limit = None if resources is None else _amount(resources.limits, "cpu")
        if limit is not None:
            return limit
        request = None if resources is None else _amount(resources.requests, "cpu")
        return self.default_milli if request is None else _rounded(request * self.multiplier)


def requested(pod: Pod) -> tuple[int, int]:
    """Return (milli-cores, bytes) requested by all containers, or the largest init container, plus overhead."""
    cpu = sum(_of(container, "cpu") for container in pod.spec.containers)
    memory = sum(_of(container, "memory") for container in pod.spec.containers)
    for container in pod.spec.init_containers or ():
        cpu = max(cpu, _of(container, "cpu"))
        memory = max(memory, _of(container, "memory"))
    return cpu + (_amount(pod.spec.overhead, "cpu") or 0), memory + (_amount(pod.spec.overhead, "memory") or 0)


def _of(container: Container, resource: str) -> int:
    return 0 if container.resources is None else _amount(container.resources.requests, resource) or 0


def _amount(amounts: Mapping[str, str | int | float] | None, resource: str) -> int | None:
    """Return an amount in milli-cores or bytes, at least 0; None if it is absent or unreadable."""
    written = (amounts or {}).get(resource)
    if written is None:
        return None
    try:
        return max(parse_milli(written, resource) if resource == "cpu" else parse_units(written, resource), 0)
    except DecodeError:  # such a pod is not decided at all; this one may be on a node already
        return None


def _rounded(value: float) -> int:
    """Round halves away from zero."""
    whole = math.trunc(value)
    return whole + (value - whole >= 0.5)
