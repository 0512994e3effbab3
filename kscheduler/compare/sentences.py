"""Says in words why a pod landed elsewhere, for the text, the JSON and the page."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.compare.reasons import EXTENDERS, Margin, Why
from kscheduler.simulator.report import kind_of

NAMED = 3  # pods, at most


def why_text(why: Why, node_a: str, node_b: str) -> str:
    """Return why a pod is on these nodes, in one sentence."""
    if why.kind == "filter":
        return f"{why.plugin or 'a filter'} filters out {why.node} in {why.run}: {why.message}"
    if why.kind == "score":
        return _score_text(next(each for each in why.scores if each.plugin == why.plugin), node_a, node_b)
    if why.kind == "tie":
        return "equal scores; chosen by the tie-break"
    if why.kind == "absent":
        return f"{why.node} is not in the cluster in {why.run}"
    if why.kind == "outside":
        return f"{why.node} is not in the domain where its gang was placed in {why.run}"
    if why.kind == "not examined":
        return f"{why.node} was not examined in {why.run}: the search ended before, or another node was nominated"
    if why.kind == "not scheduled":
        return f"no node in {why.run}: {kind_of(why.message) or 'not tried, or the reason is not known'}"
    if why.kind == "other":
        return "the scores are the same in both, and did not decide: another scheduler, sampling, or the order"
    return f"not known{': ' if why.message else ''}{why.message}"


def _score_text(margin: Margin, node_a: str, node_b: str) -> str:
    plugin = "extenders score" if margin.plugin == EXTENDERS else f"{margin.plugin} scores"
    in_a, in_b = (f"{pair[0]} : {pair[1]}" for pair in (margin.in_a, margin.in_b))
    return f"{plugin} {node_a} : {node_b} as {in_a} in A, {in_b} in B"


def state_text(state: str, follows_from: str, changed: Sequence[str]) -> str:
    """Return how the cluster was when the pod was decided, in a few words; see `PodDifference.state`."""
    if state == "equal":
        return "the first difference"
    if follows_from:
        return f"follows from {follows_from}"
    if state == "different":
        return f"the nodes held other pods: {', '.join(changed[:NAMED])}"
    if state == "elsewhere":
        return "both nodes held the same pods; others were elsewhere"
    return "follows the first difference"
