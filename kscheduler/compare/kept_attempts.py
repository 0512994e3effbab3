"""Reads attempts from the decisions that a report keeps, in the form in which `kscheduler explain` shows decisions.

Of a decision, a report keeps the scores of the best nodes, and examples of the nodes that each reason rejected. Other
nodes are unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set

import msgspec

from kscheduler.compare.attempts import Attempt, Fit, NodeView, Score
from kscheduler.compare.watching import Attempts, Watched


class _PluginScore(msgspec.Struct):
    plugin: str
    weight: int
    normalized: int


class _BestNode(msgspec.Struct):
    node: str
    score: int
    plugins: list[_PluginScore]


class _Reason(msgspec.Struct):
    plugin: str
    reasons: list[str]
    nodes: int
    examples: list[str]


class _Decision(msgspec.Struct, rename="camel"):
    time: float  # seconds since the first arrival
    node: str
    message: str
    nodes: int
    plugins: list[str]
    pre_filter: str
    reasons: list[_Reason]
    best_nodes: list[_BestNode]
    confined_to: list[str] = []  # absent if an older version wrote the report
    confined_to_left_out: int = 0
    confined_to_domain: int | None = None  # index into `KeptDecisions.domains`, of a domain that is not listed here


class _OfPod(msgspec.Struct):
    pod: str  # namespace/name
    decisions: list[_Decision]  # newest first


class KeptDecisions(msgspec.Struct):
    """The decisions about some of the pods of a simulation."""

    pods: list[_OfPod]
    domains: list[list[str]] = []  # names of nodes; absent if an older version wrote the report


def kept_attempts(kept: KeptDecisions, watched: Watched) -> Attempts:
    """Return the attempts at watched pods. They have no numbers that could be compared with another run's."""
    found = Attempts(watched, counts="")
    domains = [frozenset(names) for names in kept.domains]
    for of_pod in kept.pods:
        nodes = watched.get(of_pod.pod)
        for decision in reversed(of_pod.decisions) if nodes is not None else ():
            found.add(of_pod.pod, _attempt(decision, nodes or (), domains))
    return found


def _attempt(decision: _Decision, nodes: Collection[str], domains: Sequence[Set[str]]) -> Attempt:
    inside = _inside(decision, domains)
    views = {name: _view(decision, name, inside) for name in nodes}
    return Attempt(decision.time, 0, decision.node, views, decision.message)


def _inside(decision: _Decision, domains: Sequence[Set[str]]) -> Set[str] | None:
    """Return the nodes of the domain to which the search was confined; None if it was not, or they are not known."""
    if not decision.confined_to_left_out:
        return frozenset(decision.confined_to) or None
    at = decision.confined_to_domain
    return None if at is None or not 0 <= at < len(domains) else domains[at]


def _view(decision: _Decision, name: str, inside: Set[str] | None) -> NodeView:
    for best in decision.best_nodes:
        if best.node == name:
            scores = {each.plugin: Score(each.normalized, each.weight) for each in best.plugins}
            return NodeView(Fit.FITS, scores=scores, total=best.score, pods=None)
    if decision.pre_filter:
        return NodeView(Fit.FILTERED, min(decision.plugins, default=""), decision.pre_filter, pods=None)
    if inside is not None and name not in inside:
        return NodeView(Fit.OUTSIDE, pods=None)
    for reason in decision.reasons:
        if name in reason.examples or reason.nodes == decision.nodes:
            return NodeView(Fit.FILTERED, reason.plugin, ", ".join(reason.reasons), pods=None)
    return NodeView(Fit.UNKNOWN, pods=None)
