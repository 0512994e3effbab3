"""Checks a cluster by the apiserver's lists: every pod is bound, no node is overcommitted, one Scheduled event per pod.

It computes in exact fractions and without the scheduler's code, so that an error in that code cannot hide itself. A
pod's request is computed as the Pod API defines it: containers and sidecars together, or the largest init step if that
is more; pod-level requests replace the sums of the resources they name; overhead is added. Finished pods use nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kscheduler.testing.controlplane.api import Api, Object

Amounts = dict[str, Fraction]  # resource -> amount, in cores, bytes or units

SUFFIXES = {
    **{"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)},
    **{"k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12)},
    **{"P": Fraction(10**15), "E": Fraction(10**18)},
    **{name: Fraction(1024**power) for power, name in enumerate(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], start=1)},
}


@dataclass(frozen=True, slots=True)
class Placement:
    """The result of the check. `problems` is empty if all is well."""

    bound: int  # pods with a node that are not finished
    unbound: tuple[str, ...]  # namespace/name of pods without a node
    overcommitted: tuple[str, ...]  # sentences, one for each node and resource
    wrong_events: tuple[str, ...]  # sentences, one for each pod

    @property
    def problems(self) -> list[str]:
        """All problems found, each as a sentence."""
        return [*(f"{pod} is not bound" for pod in self.unbound), *self.overcommitted, *self.wrong_events]


def verify(api: Api, namespace: str | None = None, *, events: bool = True) -> Placement:
    """Check the pods of a namespace, or of all; nodes are always checked with every pod on them.

    `events=False` skips the check of Scheduled events, for pods that were not bound by a scheduler.
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
    """Return a sentence for each node and resource of which pods request more than is allocatable, and each unknown
    node.
    """
    taken: dict[str, Amounts] = defaultdict(lambda: defaultdict(Fraction))  # node -> what its pods request
    for pod in pods:
        if node := _node_of(pod):
            from_claim = _resources_from_claim(pod)
            for resource, amount in {**pod_request(pod), "pods": Fraction(1)}.items():
                if resource not in from_claim:
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


def _resources_from_claim(pod: Object) -> set[str]:
    """Return the extended resources that the pod has as devices of a claim, and not from its node."""
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return {mapping["resourceName"] for mapping in status.get("requestMappings", ())}


def wrong_events(pods: Iterable[Object], scheduled: Iterable[Object]) -> list[str]:
    """Return a sentence for each bound pod without exactly one Scheduled event, and each unbound pod with any."""
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
    """Return what a pod uses of a node, by resource."""
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
    """Return the quantities of a resource list as exact numbers."""
    return {resource: quantity(str(text)) for resource, text in quantities.items()}


def quantity(text: str) -> Fraction:
    """Parse a Kubernetes quantity, such as 100m, 1.5Gi or 2e3, as an exact number."""
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
    """Return how often an event was reported: once, or the count of its series."""
    return max(1, event.get("count") or 1, (event.get("series") or {}).get("count") or 1)


def _is_finished(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
