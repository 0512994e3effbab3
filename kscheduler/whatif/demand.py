"""Estimates how many nodes are needed from what pods request, without a simulation.

The estimate is where a search begins: the cluster is then about as large as needed. A much smaller one would be
overloaded, and to simulate thousands of pods that wait takes long.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from kscheduler.api.objects import Node, PodSpec
from kscheduler.simulator.amounts import Amounts, node_amounts, pod_amounts
from kscheduler.simulator.scenario import Arrival


def estimated_nodes(arrivals: Sequence[Arrival], nodes: Iterable[Node], further: Node) -> int:
    """Return how many nodes like `further` the pods need besides the nodes, if each pod is bound when it comes.

    Pods that are larger than any node are left out.
    """
    usable = [node_amounts(node) for node in nodes if not node.spec.unschedulable]
    offered = node_amounts(further)
    capacity: Counter[str] = Counter()
    largest: Counter[str] = Counter(offered)
    for amounts in usable:
        capacity.update(amounts)
        largest |= Counter(amounts)
    peak = _peak(arrivals, largest)
    wanted = [math.ceil((peak[name] - capacity[name]) / amount) for name, amount in offered.items() if amount]
    return max([0, *wanted])


def _peak(arrivals: Sequence[Arrival], largest: Counter[str]) -> Counter[str]:
    """Return the most of each resource that pods request at one time."""
    kept: dict[int, tuple[PodSpec, Amounts]] = {}  # id of a spec -> the spec, kept alive, and its requests
    changes: list[tuple[float, int, int]] = []  # (time, +1 or -1, id of the spec); what leaves makes room first
    for arrival in arrivals:
        spec = arrival.pod.spec
        if id(spec) not in kept:
            kept[id(spec)] = spec, pod_amounts(arrival.pod)
        if all(amount <= largest[name] for name, amount in kept[id(spec)][1].items()):
            changes.append((arrival.at_s, 1, id(spec)))
            changes.append((_end_s(arrival), -1, id(spec)))
    used: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for _, sign, spec_id in sorted(changes):
        for name, amount in kept[spec_id][1].items():
            used[name] += sign * amount
            if used[name] > peak[name]:
                peak[name] = used[name]
    return peak


def _end_s(arrival: Arrival) -> float:
    if arrival.leaves_at_s is not None:
        return arrival.leaves_at_s
    return math.inf if arrival.runs_s is None else arrival.at_s + arrival.runs_s
