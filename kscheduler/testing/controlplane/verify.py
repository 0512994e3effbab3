"""Judges a cluster from the apiserver's own lists: every pod bound, no node overcommitted, one Scheduled event each.

It counts for itself, in exact fractions and with none of the scheduler's code, so that a shared mistake cannot hide.
A pod's request is that of the Pod API: containers and sidecars together, or the largest init step when that is more;
pod-level requests replace the sums they name; overhead comes on top. Finished pods take nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kscheduler.testing.controlplane.api import Api, Object

Amounts = dict[str, Fraction]  # resource -> amount, in cores, bytes or pieces

SUFFIXES = {
    **{"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)},
    **{"k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12)},
    **{"P": Fraction(10**15), "E": Fraction(10**18)},
    **{name: Fraction(1024**power) for power, name in enumerate(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], start=1)},
}


@dataclass(frozen=True, slots=True)
class Placement:
    """What was found. `problems` is empty when all is well."""

    bound: int  # pods with a node that are not finished
    unbound: tuple[str, ...]  # namespace/name
    overcommitted: tuple[str, ...]  # sentences, one for a node and resource
    wrong_events: tuple[str, ...]  # sentences, one for a pod

    @property
    def problems(self) -> list[str]:
        """Every fault as a sentence."""
        return [*(f"{pod} is not bound" for pod in self.unbound), *self.overcommitted, *self.wrong_events]


def verify(api: Api, namespace: str | None = None, *, events: bool = True) -> Placement:
    """Judge the pods of a namespace, or of all; nodes are always judged with every pod on them.

    `events=False` leaves out the Scheduled events, for pods that were bound without a scheduler.
    """
    everywhere = [pod for pod in api.list_all("/api/v1/pods") if not _is_finished(pod)]
    judged = [pod for pod in everywhere if namespace in (None, pod["metadata"]["namespace"])]
    scheduled = api.list_all("/api/v1/events", fieldSelector="reason=Scheduled") if events else []
    return Placement(
        bound=sum(1 for pod in judged if _node_of(pod)),
        unbound=tuple(_key(pod) for pod in judged if not _node_of(pod)),
        overcommitted=tuple(overcommitted(api.list_all("/api/v1/nodes"), everywhere)),
        wrong_events=tuple(wrong_events(judged, scheduled)) if events else (),
    )


def overcommitted(nodes: Iterable[Object], pods: Iterable[Object]) -> list[str]:
    """A sentence for each node and resource whose pods ask for more than is allocatable, and for unknown nodes."""
    taken: dict[str, Amounts] = defaultdict(lambda: defaultdict(Fraction))  # node -> what its pods request
    for pod in pods:
        if node := _node_of(pod):
            for resource, amount in {**pod_request(pod), "pods": Fraction(1)}.items():
                taken[node][resource] += amount
    allocatable = {node["metadata"]["name"]: amounts(node["status"].get("allocatable", {})) for node in nodes}
    problems = [f"pods are bound to node {name}, which does not exist" for name in taken if name not in allocatable]
    for name, room in allocatable.items():
        for resource, amount in taken.get(name, {}).items():
            if amount > room.get(resource, 0):
                problems.append(
                    f"node {name} is overcommitted in {resource}: {float(amount)} requested,"
                    f" {float(room.get(resource, Fraction(0)))} allocatable"
                )
    return problems


def wrong_events(pods: Iterable[Object], scheduled: Iterable[Object]) -> list[str]:
    """A sentence for each bound pod without exactly one Scheduled event of its node, and each unbound one with any."""
    events: dict[str, list[Object]] = defaultdict(list)  # pod uid -> its Scheduled events
    for event in scheduled:
        events[event["involvedObject"].get("uid", "")].append(event)
    problems = []
    for pod in pods:
        about, node = events[pod["metadata"]["uid"]], _node_of(pod)
        expected, found = int(bool(node)), sum(_occurrences(event) for event in about)
        if found != expected:
            problems.append(f"{_key(pod)} has {found} Scheduled events, expected {expected}")
        elif node and not about[0]["message"].endswith(f" to {node}"):
            problems.append(f"{_key(pod)} is on {node}, its event says: {about[0]['message']}")
    return problems


def pod_request(pod: Object) -> Amounts:
    """What a pod takes of a node, by resource."""
    spec = pod["spec"]
    together = _sum(_requests_of(container) for container in spec["containers"])
    sidecars: Amounts = {}
    init_peak: Amounts = {}
    for container in spec.get("initContainers", ()):
        step = _sum([sidecars, _requests_of(container)])
        init_peak = _maximum(init_peak, step)
        if container.get("restartPolicy") == "Always":
            sidecars = step
    request = _maximum(_sum([together, sidecars]), init_peak)
    request |= amounts(spec.get("resources", {}).get("requests", {}))
    return _sum([request, amounts(spec.get("overhead", {}))])


def amounts(quantities: dict[str, Any]) -> Amounts:
    """Quantities of a resource list as exact numbers."""
    return {resource: quantity(str(text)) for resource, text in quantities.items()}


def quantity(text: str) -> Fraction:
    """A Kubernetes quantity, such as 100m, 1.5Gi or 2e3, as an exact number."""
    for suffix in (text[-2:], text[-1:]):
        if suffix in SUFFIXES:
            return Fraction(text[: -len(suffix)]) * SUFFIXES[suffix]
    return Fraction(text)


def _requests_of(container: Object) -> Amounts:
    return amounts(container.get("resources", {}).get("requests", {}))


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = defaultdict(Fraction)
    for part in parts:
        for resource, amount in part.items():
            total[resource] += amount
    return dict(total)


def _maximum(one: Amounts, other: Amounts) -> Amounts:
    zero = Fraction(0)
    return {resource: max(one.get(resource, zero), other.get(resource, zero)) for resource in one.keys() | other.keys()}


def _occurrences(event: Object) -> int:
    """How often an event was reported: a series counts all of it."""
    return max(1, event.get("count") or 1, (event.get("series") or {}).get("count") or 1)


def _is_finished(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
