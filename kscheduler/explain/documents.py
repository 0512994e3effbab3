"""Describes a decision as a JSON document of bounded size, however large the cluster is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

from kscheduler.explain.details import FIRST_STATUS, FITS, OUTSIDE, NodeDetails, NodeScore, ValueOnNode
from kscheduler.explain.options import DEFAULT_TOP_NODES
from kscheduler.explain.record import DecisionRecord, Reason, Refusal
from kscheduler.framework.status import STATUS_LABELS

MAX_NODES = 20_000  # nodes listed one by one with `all_nodes`
MAX_REASONS = 100
EXAMPLES = 3  # nodes named for each reason
MAX_INSIDE = 100  # nodes named of a domain to which a search was confined

Document = dict[str, Any]


NO_REFUSAL = Refusal("")


def decision_document(
    record: DecisionRecord,
    written: Callable[[float], str | float],
    *,
    top_nodes: int = DEFAULT_TOP_NODES,
    all_nodes: bool = False,
) -> Document:
    """Return a decision as a JSON document.

    `written` converts monotonic seconds: to an RFC 3339 timestamp, or to virtual seconds in a simulation's report.
    """
    details, refusal = record.details, record.refusal or NO_REFUSAL
    reasons = _reasons(record)
    inside = nodes_inside(record)
    document: Document = {
        "attempt": record.attempt,
        "time": written(record.at),
        "finished": None if record.finished is None else written(record.finished),
        "profile": record.profile,
        "outcome": record.outcome.value,
        "node": record.node,
        "message": refusal.message,
        "nodes": record.nodes,
        "evaluated": record.evaluated,
        "feasible": record.feasible,
        "fitted": record.fitted,  # the node that a pod would have had which was rejected with its gang; "" for none
        "plugins": list(refusal.plugins),
        "preFilter": refusal.pre_filter,
        "postFilter": refusal.post_filter,
        "nominatedNode": refusal.nominated,
        "detailed": details is not None,
        "confinedTo": inside[:MAX_INSIDE],  # nodes of the domain that the search for a gang's pod knew; []: all
        "confinedToLeftOut": max(len(inside) - MAX_INSIDE, 0),
        "reasons": reasons[:MAX_REASONS],
        "reasonsLeftOut": max(len(reasons) - MAX_REASONS, 0),
        "bestNodes": [] if details is None else [_score_document(score) for score in details.best[:top_nodes]],
        "values": [] if details is None else [_value_document(value) for value in details.values],
    }
    if all_nodes and details is not None:
        document["verdicts"] = dict(islice(_verdicts(details), MAX_NODES))
        document["verdictsLeftOut"] = max(sum(1 for name in details.names.names if name) - MAX_NODES, 0)
    return document


def nodes_inside(record: DecisionRecord) -> list[str]:
    """Return the nodes of the domain to which a search was confined; [] if it was not, or that is not known."""
    details = record.details
    if details is None or not details.is_confined:
        return []
    return [name for name, number in details.verdicts() if number != OUTSIDE]


def _reasons(record: DecisionRecord) -> list[Document]:
    """Return the rejection reasons, most frequent first, with example nodes if details were kept."""
    if record.details is not None and record.details.statuses:
        return _detailed_reasons(record.details)
    return [
        _reason_document(reason, [])
        for reason in sorted((record.refusal or NO_REFUSAL).reasons, key=lambda each: -each.nodes)
    ]


def _detailed_reasons(details: NodeDetails) -> list[Document]:
    counts: Counter[int] = Counter()
    examples: dict[int, list[str]] = {}
    for name, number in details.verdicts():
        counts[number] += 1
        named = examples.setdefault(number, [])
        if len(named) < EXAMPLES:
            named.append(name)
    found = []
    for number, status in enumerate(details.statuses, FIRST_STATUS):
        reason = Reason(status.plugin, STATUS_LABELS[status.code], status.reasons, counts[number])
        found.append(_reason_document(reason, examples.get(number, [])))
    return found


def _reason_document(reason: Reason, examples: list[str]) -> Document:
    return {
        "plugin": reason.plugin,
        "code": reason.code,
        "reasons": list(reason.reasons),
        "nodes": reason.nodes,
        "examples": examples,
    }


def _score_document(score: NodeScore) -> Document:
    return {
        "node": score.node,
        "score": score.total,
        "plugins": [
            {
                "plugin": each.plugin,
                "weight": each.weight,
                "raw": each.raw,
                "normalized": each.normalized,
                "weighted": each.normalized * each.weight,
            }
            for each in score.plugins
        ],
    }


def _value_document(found: ValueOnNode) -> Document:
    value = found.value
    return {
        "node": found.node,
        "plugin": found.plugin,
        "metric": value.metric,
        "used": value.used,
        "read": value.read,
        "clamped": value.clamped,
        "smoothed": value.smoothed,
        "selfLoad": value.self_load,
        "ageSeconds": None if value.age_s is None else round(value.age_s, 3),
    }


def _verdicts(details: NodeDetails) -> Any:
    """Yield (node, result) for all nodes: "" if the pod fits, "Plugin: reasons", or why it was not looked at."""
    words = ["", "not examined", "not in the domain of its gang"]
    assert FITS == 0
    assert len(words) == FIRST_STATUS
    words += [f"{status.plugin}: {status.message}" for status in details.statuses]
    return ((name, words[number]) for name, number in details.verdicts())
