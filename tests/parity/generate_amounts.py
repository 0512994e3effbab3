"""Amounts that no machine has, and that the apiserver lets through all the same: up to 2^54, where ours end.

Beyond, sums and products of kube-scheduler's wrap around; see DIFFERENCES.md. What nodes offer may lie beyond in a
resource that is not scored, as devices have it that are never used up.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from kscheduler.api.quantity import parse_milli, parse_units
from tests.parity.case import Object
from tests.parity.words import GPU, HUGE, often, pick

PLENTY = "example.com/plenty"  # on no list of scored resources
OFFERED = {  # resource -> what a node may have of it
    "cpu": ("1m", "18014398509481983m", "9007199254740993m", "18T", "1E-3"),
    "memory": ("1", "18014398509481983", "16383Ti", "9007199254740993", "1Pi", "1.5Pi", "12345678901234567"),
    "ephemeral-storage": ("18014398509481983", "10P", "9007199254740991", "1e16"),
    GPU: ("18014398509481983", "9007199254740993", "10P", "1Ki"),
    HUGE: ("16383Ti", "8Pi"),
    PLENTY: ("9223372036854775807", "4611686018427387904", "8E", "7Ei", "18014398509481984", "3"),
}
ASKED = {  # resource -> what a container may ask for, one in a pod: with the others it is to stay an int64
    "cpu": ("1m", "9007199254740993m", "9T", "123456789012345678m", "9P"),
    "memory": ("1", "9007199254740993", "8191Ti", "1Pi", "12345678901234567", "18014398509481983", "100Pi", "8E"),
    "ephemeral-storage": ("1", "9007199254740991", "5P", "7Ei"),
    GPU: ("1", "9007199254740993", "9007199254740992"),  # no more: a configuration may ignore it
    HUGE: ("8Pi", "8388608Gi"),
    PLENTY: ("1", "1T", "999999999999"),
}
MOST_IN_USE = 1 << 53  # of a pod that runs already, whether it fits or not: the sum of many is to stay an int64


def exaggerate(rng: random.Random, nodes: Sequence[Object], pods: Sequence[Object]) -> None:
    """Give some nodes and containers such amounts, in one or two of the resources."""
    for node in nodes:
        for name in _some(rng, OFFERED, 0.6):
            amount = pick(rng, OFFERED[name])
            for where in ("capacity", "allocatable"):
                if where in node["status"]:
                    node["status"][where][name] = amount
    for pod in pods:
        container = pick(rng, [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())])
        for name in _some(rng, ASKED, 0.3):
            amount = pick(rng, ASKED[name])
            if "nodeName" in pod["spec"] and _size(name, amount) > MOST_IN_USE:
                continue
            resources = container.setdefault("resources", {})
            resources.pop("limits", None)  # no request may be above its limit
            resources.setdefault("requests", {})[name] = amount


def _size(name: str, amount: str) -> int:
    return parse_milli(amount, name) if name == "cpu" else parse_units(amount, name)


def _some(rng: random.Random, amounts: dict[str, tuple[str, ...]], probability: float) -> Iterator[str]:
    if often(rng, probability):
        yield from rng.sample(list(amounts), rng.randint(1, 3))
