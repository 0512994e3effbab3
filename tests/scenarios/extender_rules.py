"""What kube-scheduler makes of extenders' answers, one pod at a time: its rules, worked out from the answers' text.

Nothing here uses the scheduler's own reading of answers, so that both can be compared. One rule is not
kube-scheduler's: an answer with whole nodes, too, may only have nodes that were sent.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCALE = 10  # from an extender's points to a plugin's


class Refused(Exception):
    """An extender's answer is none: it failed, or cannot be read, or is wrong."""


@dataclass(frozen=True)
class Answers:
    """One extender, and what it answers about one pod. An answer of None: it fails."""

    name: str
    is_ignorable: bool = False
    knows_nodes: bool = True  # nodeCacheCapable: it is sent names, and answers by names
    is_interested: bool = True
    filter: str | None = ""  # "": it has no such verb
    prioritize: str | None = ""
    weight: int = 1


@dataclass
class Outcome:
    """What becomes of the pod: it goes to one of `best`, or waits for one of `reasons`, or an extender fails."""

    best: frozenset[str] = frozenset()
    reasons: Counter[str] = field(default_factory=Counter)  # why nodes are rejected -> how many
    failed: str = ""  # the name of the extender
    asked: list[tuple[str, str, frozenset[str]]] = field(default_factory=list)  # (extender, verb, nodes), in order


def outcome_of(extenders: Iterable[Answers], fitting: Sequence[str], rejected: Mapping[str, str]) -> Outcome:
    """Return what becomes of a pod that plugins leave the nodes `fitting`, all with equal scores.

    `rejected`: other nodes -> why plugins reject them.
    """
    asked = [each for each in sorted(extenders, key=lambda each: each.is_ignorable) if each.is_interested]
    outcome, names, statuses = Outcome(), list(fitting), dict(rejected)
    for each in asked:
        if not names:
            break
        if each.filter == "":
            continue
        outcome.asked.append((each.name, "filter", frozenset(names)))
        try:
            names, failed = _filtered(each, names)
        except Refused:
            if each.is_ignorable:
                continue
            outcome.failed = each.name
            return outcome
        statuses.update((name, why or "") for name, why in failed.items())
    if not names:
        outcome.reasons = Counter(statuses.values())
        return outcome
    totals = Counter(dict.fromkeys(names, 0))
    for each in asked if len(names) > 1 else ():
        if each.prioritize == "":
            continue
        outcome.asked.append((each.name, "prioritize", frozenset(names)))
        try:
            for name, score in _scored(each.prioritize):
                if name in totals:
                    totals[name] += score * each.weight * SCALE
        except Refused:
            continue  # whether it is ignorable or not
    most = max(totals.values())
    outcome.best = frozenset(name for name, total in totals.items() if total == most)
    return outcome


def _filtered(each: Answers, asked: Sequence[str]) -> tuple[list[str], dict[str, str | None]]:
    """The nodes that pass, and why others do not. Of a node that fails in two ways the one for good counts."""
    answer = {key.lower(): value for key, value in _read(each.filter, dict).items()}  # keys match in any case
    if answer.get("error"):
        raise Refused
    names, nodes = answer.get("nodenames") if each.knows_nodes else None, answer.get("nodes") or {}
    if not isinstance(nodes, dict):
        raise Refused
    if names is None:
        names = [node["metadata"]["name"] for node in nodes.get("items") or ()]
    if not isinstance(names, list) or set(names) - set(asked):
        raise Refused
    return list(dict.fromkeys(names)), {
        **(answer.get("failednodes") or {}),
        **(answer.get("failedandunresolvablenodes") or {}),
    }


def _scored(text: str | None) -> list[tuple[str, int]]:
    scores = [(entry.get("Host", ""), entry.get("Score", 0)) for entry in _read(text, list)]
    if not all(isinstance(score, int) for _, score in scores):
        raise Refused
    return scores


def _read(text: str | None, kind: type) -> Any:
    """The first JSON value of an answer; null stands for an empty one."""
    if text is None:
        raise Refused
    try:
        answer, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        raise Refused from None
    if answer is None:
        return kind()
    if not isinstance(answer, kind):
        raise Refused
    return answer
