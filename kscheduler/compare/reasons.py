"""Finds the first plugin that says why a pod is on another node: from what two attempts found out about both nodes.

1. A node of one run that a plugin filtered out in the other: that plugin.  2. The first Score plugin, in the order of
the configuration, that prefers one of the nodes by another margin in B than in A. If there is none, the nodes had equal
totals in both runs, and the tie-break chose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kscheduler.compare.attempts import Attempt, Fit, NodeView, Score

EXTENDERS = "extenders"  # in place of a plugin's name: the scores that extenders added
_ZERO = Score(0, 0)


class Margin(msgspec.Struct, frozen=True):
    """The weighted scores of one plugin for A's node and B's node, in A and in B."""

    plugin: str
    in_a: tuple[int, int]
    in_b: tuple[int, int]

    @property
    def differs(self) -> bool:
        """True if the plugin prefers one of the nodes by another margin in B than in A."""
        return self.in_a[0] - self.in_a[1] != self.in_b[0] - self.in_b[1]


class Why(msgspec.Struct, frozen=True):
    """Why a pod is on different nodes.

    `kind`: `filter`, a plugin filtered out `node` in `run`; `score`, a plugin's scores differ; `tie`, all are equal;
    `absent`, `outside` (the domain of nodes where the pod's gang was placed) and `not examined`, `node` was that in
    `run`; `not scheduled`, the pod was not tried in `run` or it is only known that it had no node; `other`, the scores
    are equal and did not decide; `unknown`.
    """

    kind: str
    plugin: str = ""
    run: str = ""  # "A" or "B"
    node: str = ""
    message: str = ""
    scores: list[Margin] = []  # of all Score plugins, in the order of the configuration


UNKNOWN = Why("unknown")


def why(a: Attempt | None, b: Attempt | None, node_a: str, node_b: str) -> Why:
    """Return why a pod is on `node_a` in A and on `node_b` in B; "" is no node. None: no such attempt is known."""
    if node_a and b is not None:
        found = _excluded(b.nodes.get(node_a), "B", node_a)
        if found is not None:
            return found
    if node_b and a is not None:
        found = _excluded(a.nodes.get(node_b), "A", node_b)
        if found is not None:
            return found
    if not node_a or not node_b:
        return _not_scheduled("A" if not node_a else "B", a if not node_a else b)
    if a is None or b is None:
        return UNKNOWN
    return _scored(a.nodes, b.nodes, node_a, node_b)


def _excluded(view: NodeView | None, run: str, node: str) -> Why | None:
    """Return why the node could not be chosen in the run; None if it could, or that is not known."""
    if view is None or view.fit is Fit.FITS or view.fit is Fit.UNKNOWN:
        return None
    if view.fit is Fit.FILTERED:
        return Why("filter", view.plugin, run, node, view.message)
    kinds = {Fit.ABSENT: "absent", Fit.OUTSIDE: "outside"}
    return Why(kinds.get(view.fit, "not examined"), run=run, node=node)


def _not_scheduled(run: str, attempt: Attempt | None) -> Why:
    return Why("not scheduled", run=run, message="" if attempt is None else attempt.message)


def _scored(a: Mapping[str, NodeView], b: Mapping[str, NodeView], node_a: str, node_b: str) -> Why:
    views = [view.get(node) for view in (a, b) for node in (node_a, node_b)]
    known = [view for view in views if view is not None and view.fit is Fit.FITS]
    if len(known) < len(views):
        return UNKNOWN
    a_there, a_elsewhere, b_elsewhere, b_there = known
    margins = [
        Margin(
            plugin,
            (_of(a_there, plugin), _of(a_elsewhere, plugin)),
            (_of(b_elsewhere, plugin), _of(b_there, plugin)),
        )
        for plugin in dict.fromkeys(plugin for view in known for plugin in view.scores)
    ]
    margins += _extenders(known)
    first = next((margin for margin in margins if margin.differs), None)
    if first is not None:
        return Why("score", first.plugin, scores=margins)
    return Why("tie" if a_there.total == a_elsewhere.total else "other", scores=margins)


def _of(view: NodeView, plugin: str) -> int:
    return view.scores.get(plugin, _ZERO).weighted


def _extenders(views: Iterable[NodeView]) -> list[Margin]:
    rest = [view.total - sum(score.weighted for score in view.scores.values()) for view in views]
    return [Margin(EXTENDERS, (rest[0], rest[1]), (rest[2], rest[3]))] if any(rest) else []
