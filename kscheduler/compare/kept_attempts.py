"""Reads attempts from the decisions that a report keeps, in the form in which `kscheduler explain` shows decisions.

Of a decision, a report keeps the scores of the best nodes, and examples of the nodes that each reason rejected. Other
nodes are unknown.
"""

from __future__ import annotations

from collections.abc import Collection

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


class _OfPod(msgspec.Struct):
    pod: str  # namespace/name
    decisions: list[_Decision]  # newest first


class KeptDecisions(msgspec.Struct):
    """The decisions about some of the pods of a simulation."""

    pods: list[_OfPod]


def kept_attempts(kept: KeptDecisions, watched: Watched) -> Attempts:
    """Return the attempts at watched pods. They have no numbers that could be compared with another run's."""
    found = Attempts(watched, counts="")
    for of_pod in kept.pods:
        nodes = watched.get(of_pod.pod)
        for decision in reversed(of_pod.decisions) if nodes is not None else ():
            found.add(of_pod.pod, _attempt(decision, nodes or ()))
    return found


def _attempt(decision: _Decision, nodes: Collection[str]) -> Attempt:
    return Attempt(decision.time, 0, decision.node, {name: _view(decision, name) for name in nodes}, decision.message)


def _view(decision: _Decision, name: str) -> NodeView:
    for best in decision.best_nodes:
        if best.node == name:
            scores = {each.plugin: Score(each.normalized, each.weight) for each in best.plugins}
            return NodeView(Fit.FITS, scores=scores, total=best.score, pods=None)
    if decision.pre_filter:
        return NodeView(Fit.FILTERED, min(decision.plugins, default=""), decision.pre_filter, pods=None)
    if decision.confined_to and not decision.confined_to_left_out and name not in decision.confined_to:
        return NodeView(Fit.OUTSIDE, pods=None)
    for reason in decision.reasons:
        if name in reason.examples or reason.nodes == decision.nodes:
            return NodeView(Fit.FILTERED, reason.plugin, ", ".join(reason.reasons), pods=None)
    return NodeView(Fit.UNKNOWN, pods=None)
