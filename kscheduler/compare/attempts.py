"""Describes one scheduling attempt for a comparison: what the plugins answered for the two nodes in question."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kscheduler.framework.cycle_review import CycleReview
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo


class Fit(enum.Enum):
    """What an attempt found out about a node."""

    FITS = "fits"
    FILTERED = "filtered out"
    NOT_EXAMINED = "not examined"  # the search had found enough feasible nodes, or took the nominated node
    OUTSIDE = "outside the domain of its gang"
    ABSENT = "not in the cluster"
    UNKNOWN = "unknown"  # the plugins' answers were not kept

    __hash__ = object.__hash__


class Score(NamedTuple):
    """A Score plugin's score of a node, after normalisation (0 to 100), and the plugin's weight."""

    normalized: int
    weight: int

    @property
    def weighted(self) -> int:
        return self.normalized * self.weight


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as one attempt saw it."""

    fit: Fit
    plugin: str = ""  # that filtered it out
    message: str = ""
    scores: Mapping[str, Score] = field(default_factory=dict)  # by plugin, in the order of the configuration
    total: int = 0  # with the scores of extenders
    # namespace/name of the pods on it, and of those assumed there; None if not known
    pods: frozenset[str] | None = frozenset()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to schedule a pod."""

    at_s: float
    number: int  # of this decision in its run; in a record, of the binding
    node: str  # the chosen one; "": the pod was rejected
    nodes: Mapping[str, NodeView]
    message: str = ""  # of the rejection


def take_attempt(
    framework: Framework,
    state: CycleState,
    pod: PodInfo,
    found: Decision | Rejection,
    table: NodeTable,
    nodes: Iterable[str],
    at_s: float,
    number: int,
) -> Attempt:
    """Copy what the search that has just ended found out about some nodes. Call it before the pod is assumed."""
    chosen, message = (found.node_name, "") if isinstance(found, Decision) else ("", found.message)
    views = _views(framework, state, pod, found, table, list(nodes))
    return Attempt(at_s, number, chosen, views, message)


def without_details(found: Decision | Rejection, nodes: Iterable[str], at_s: float, number: int) -> Attempt:
    """Return an attempt of which only the result is known."""
    chosen, message = (found.node_name, "") if isinstance(found, Decision) else ("", found.message)
    return Attempt(at_s, number, chosen, {name: NodeView(Fit.UNKNOWN, pods=None) for name in nodes}, message)


def _views(
    framework: Framework,
    state: CycleState,
    pod: PodInfo,
    found: Decision | Rejection,
    table: NodeTable,
    names: list[str],
) -> dict[str, NodeView]:
    present = {name: node for name in names if (node := table.get(name)) is not None}
    pods = {name: frozenset(each.key for each in node.pods.values()) for name, node in present.items()}
    views = dict.fromkeys(names, NodeView(Fit.ABSENT))
    if state.confinement is not None:
        for name in [name for name, node in present.items() if not state.confinement.has(node.row)]:
            views[name] = NodeView(Fit.OUTSIDE, pods=pods[name])
            del present[name]
    if isinstance(found, Rejection) and (found.diagnosis.pre_filter_message or not found.diagnosis.reasons):
        for name in present:
            views[name] = _rejected_at_once(found, pods[name])
        return views
    if isinstance(found, Decision) and found.evaluated == 1 < len(table):
        # The search ended at the first node: the pod was nominated there, so no other was examined.
        for name in present:
            fit = Fit.FITS if name == found.node_name else Fit.NOT_EXAMINED
            views[name] = NodeView(fit, pods=pods[name])
        return views
    review = framework.algorithm.review(state, pod)
    rows = {name: node.row for name, node in present.items()}
    fits = _fits(review, rows)
    scores = _scores(review, [rows[name] for name in present if fits[name][0] is Fit.FITS])
    for name, row in rows.items():
        fit, status = fits[name]
        of_row, total = scores.get(row, ({}, 0))
        plugin, message = ("", "") if status is None else (status.plugin, status.message)
        views[name] = NodeView(fit, plugin, message, of_row, total, pods[name])
    return views


def _rejected_at_once(found: Rejection, pods: frozenset[str]) -> NodeView:
    """Return the view of a node of an attempt that PreFilter ended, or a fault."""
    diagnosis, status = found.diagnosis, found.status
    plugins = diagnosis.unschedulable_plugins | diagnosis.pending_plugins
    plugin = min(plugins, default=status.plugin)
    return NodeView(Fit.FILTERED, plugin, diagnosis.pre_filter_message or status.message, pods=pods)


def _fits(review: CycleReview, rows: Mapping[str, int]) -> dict[str, tuple[Fit, Status | None]]:
    feasible, rejected = set(review.feasible_rows()), review.rejected_rows()
    found: dict[str, tuple[Fit, Status | None]] = {}
    for name, row in rows.items():
        status = next((status for status, of_status in rejected if row in of_status), None)
        if row in feasible:
            found[name] = Fit.FITS, None
        elif status is not None:
            found[name] = Fit.FILTERED, status
        else:
            found[name] = Fit.NOT_EXAMINED, None
    return found


def _scores(review: CycleReview, rows: list[int]) -> dict[int, tuple[dict[str, Score], int]]:
    """Return row -> scores by plugin, and their total; {} if there was nothing to choose from, so that none scored."""
    if not rows or len(review.feasible_rows()) < 2:
        return {}
    totals = {row: review.total(row) for row in rows}  # first: scoring again fills the buffers of single plugins
    by_plugin = review.score_again(rows)
    return {
        row: ({each.plugin: Score(each.normalized[place], each.weight) for each in by_plugin}, totals[row])
        for place, row in enumerate(rows)
    }
