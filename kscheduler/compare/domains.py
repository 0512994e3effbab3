"""How the domains of nodes, such as zones and racks, differ between two runs: their pods, and how full they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from kscheduler.api.resources import PODS
from kscheduler.compare.sides import Run
from kscheduler.simulator.report_history import FULL, NO_CAPACITY, NodeHistory

MAX_DOMAINS = 10  # of one label, that are listed


class DomainDifference(msgspec.Struct, frozen=True):
    """One domain in both runs: its nodes at the end, the pods placed on them, and how full they were on average."""

    name: str  # the value of the label
    nodes_a: int
    nodes_b: int
    pods_a: int | None  # None: the run does not say where pods were placed
    pods_b: int | None
    used_a: dict[str, float]  # resource -> share of the capacity, on average over the run
    used_b: dict[str, float]

    @property
    def size(self) -> tuple[int, float]:
        """How large the difference is: in pods, then in the share of any resource."""
        pods = 0 if self.pods_a is None or self.pods_b is None else abs(self.pods_b - self.pods_a)
        shares = {*self.used_a, *self.used_b}
        return pods, max((abs(self.used_b.get(name, 0.0) - self.used_a.get(name, 0.0)) for name in shares), default=0.0)


class DomainDifferences(msgspec.Struct, frozen=True):
    """The domains that a label of nodes makes: the largest differences first, then by name."""

    label: str
    domains: list[DomainDifference]
    not_listed: int
    equal: int  # of all, those with the same figures in both runs


def domain_differences(a: Run, b: Run) -> list[DomainDifferences]:
    """Return the differences for each label that the reports group nodes by, in the order of the reports.

    A label by which no domain differs is there without domains.
    """
    of_a, of_b = _History.of(a), _History.of(b)
    labels = dict.fromkeys([*of_a.values, *of_b.values])
    return [_of_label(label, of_a, of_b) for label in labels]


def _of_label(label: str, a: _History, b: _History) -> DomainDifferences:
    in_a, in_b = a.domains(label), b.domains(label)
    every = []
    for name in sorted({*in_a, *in_b}):
        of_a, of_b = in_a.get(name, a.nothing), in_b.get(name, b.nothing)
        every.append(
            DomainDifference(name, of_a.nodes, of_b.nodes, of_a.pods, of_b.pods, of_a.used, of_b.used),
        )
    differing = [each for each in every if each.nodes_a != each.nodes_b or any(each.size)]
    differing.sort(key=lambda each: (-each.size[0], -each.size[1], each.name))
    listed = differing[:MAX_DOMAINS]
    return DomainDifferences(label, listed, len(differing) - len(listed), len(every) - len(differing))


@dataclass(frozen=True, slots=True)
class _Domain:
    nodes: int
    pods: int | None
    used: dict[str, float]


@dataclass(frozen=True, slots=True)
class _History:
    """What a report has of its nodes, by their index."""

    values: Mapping[str, Sequence[str]]  # label -> of each node, "" without it
    pods: Sequence[int] | None  # of each node; None: not known
    capacity: Mapping[str, Sequence[float]]
    used: Mapping[str, Sequence[float]]  # resource -> of each node, in the unit of the capacity, on average

    @staticmethod
    def of(run: Run) -> _History:
        history = run.report.node_history
        if history is None:
            return _History({}, None, {}, {})
        values = {label.key: ["" if at < 0 else label.values[at] for at in label.of_node] for label in history.labels}
        names = [name for name in history.used if name != PODS]
        used = {name: _average(history, name) for name in names}
        return _History(values, _pods_of(run, history.names), {name: history.capacity[name] for name in names}, used)

    @property
    def nothing(self) -> _Domain:
        """A domain that the run does not have."""
        return _Domain(0, None if self.pods is None else 0, {})

    def domains(self, label: str) -> dict[str, _Domain]:
        nodes: dict[str, list[int]] = {}
        for at, value in enumerate(self.values.get(label, ())):
            if value:
                nodes.setdefault(value, []).append(at)
        return {name: self._domain(of_domain) for name, of_domain in nodes.items()}

    def _domain(self, nodes: Sequence[int]) -> _Domain:
        pods = None if self.pods is None else sum(self.pods[at] for at in nodes)
        shares = {}
        for name, amounts in self.used.items():
            capacity = sum(self.capacity[name][at] for at in nodes)
            if capacity:
                shares[name] = round(sum(amounts[at] for at in nodes) / capacity, 6)
        return _Domain(len(nodes), pods, shares)


def _average(history: NodeHistory, resource: str) -> list[float]:
    """Return how much of a resource each node used on average over the frames, in the unit of its capacity."""
    nodes, used = len(history.names), history.used[resource]
    frames = len(used) // nodes
    return [
        0.0 if used[at] == NO_CAPACITY else sum(used[at::nodes]) / (FULL * frames) * capacity
        for at, capacity in enumerate(history.capacity[resource])
    ]


def _pods_of(run: Run, names: Sequence[str]) -> list[int] | None:
    """Return how many pods were placed on each of these nodes; None if the run does not say."""
    if run.pods is None or not run.pods.has_nodes:
        return None
    counts: Counter[str] = Counter(run.pods.node(row) for row in range(len(run.pods)))
    return [counts[name] for name in names]
