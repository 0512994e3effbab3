"""Says of pods that landed elsewhere why they did, and from which earlier one that follows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from kscheduler.compare.attempts import Attempt
from kscheduler.compare.landings import NOT_KNOWN, Landing
from kscheduler.compare.pod_outcomes import PodOutcomes
from kscheduler.compare.reasons import Why, why
from kscheduler.compare.sentences import state_text, why_text
from kscheduler.compare.sides import Side
from kscheduler.compare.watching import Attempts

TRIED_WITHIN_S = 60.0  # virtual seconds after a pod was placed in one run, in which the other has tried it, too
MAX_CHANGED = 10  # pods that are named of those that made the difference on a node


class PodDifference(msgspec.Struct, frozen=True):
    """A pod that landed elsewhere. Nodes are "" where it has none, and NOT_KNOWN where a report does not name it.

    `state` says how the cluster was when it was decided: `equal` (this is the first difference), `different` (other
    pods were on the nodes in question, because `follows_from` landed elsewhere), `elsewhere` (earlier pods had landed
    elsewhere, but both nodes held the same pods), or `not known`.
    """

    pod: str
    node_a: str
    node_b: str
    at_s: float | None  # when it was first bound, since the first arrival
    why: Why
    state: str
    because: str  # `why` as a sentence
    given: str  # `state` in a few words
    follows_from: str = ""  # namespace/name of the earliest pod that differs and made the state different
    changed: list[str] = []  # pods that were on one of the nodes in one run only, the first MAX_CHANGED


def explained_differences(
    a: Side,
    b: Side,
    of_a: PodOutcomes | None,
    of_b: PodOutcomes | None,
    first: Sequence[Landing],
    notes: list[str],
) -> list[PodDifference]:
    """Return why the pods landed elsewhere, in the order of decisions where the numbers of both can be compared.

    Appends to `notes` which side does not say what its plugins answered.
    """
    if not first or of_a is None or of_b is None:
        return []
    # 1. What the plugins of both runs answered for these pods.
    watched: dict[str, list[str]] = {}
    for landing in first:
        watched.setdefault(landing.name, []).extend({landing.node_a, landing.node_b} - {"", NOT_KNOWN})
    until_s = max((landing.at_s for landing in first if landing.at_s < math.inf), default=None)
    until_s = None if until_s is None else until_s + TRIED_WITHIN_S
    in_a = a.attempts(watched, until_s)
    in_b = b.attempts(watched, until_s)
    silent = [side.name for side, made in ((a, in_a), (b, in_b)) if made is None]
    if silent:
        notes.append(f"Filter results and scores are not in {', '.join(silent)}: a report without decisions has none.")
    # 2. The reason of each, and their order.
    found = [_Explained.of(landing, in_a, in_b, of_a, of_b) for landing in first]
    if in_a is not None and in_b is not None and in_a.counts == in_b.counts != "":
        found.sort(key=lambda each: (each.number, each.landing.order))
    # 3. Which of them follow from an earlier one.
    ranks = {each.landing.key: rank for rank, each in enumerate(found)}
    return [_difference(each, rank, ranks, found) for rank, each in enumerate(found)]


@dataclass(frozen=True, slots=True)
class _Explained:
    """A landing with the attempts that led to it, None if not known."""

    landing: Landing
    a: Attempt | None
    b: Attempt | None
    why: Why

    @classmethod
    def of(
        cls, landing: Landing, in_a: Attempts | None, in_b: Attempts | None, of_a: PodOutcomes, of_b: PodOutcomes
    ) -> _Explained:
        a = None if in_a is None else _attempt(in_a, landing, of_a, landing.row_a, landing.node_a)
        b = None if in_b is None else _attempt(in_b, landing, of_b, landing.row_b, landing.node_b)
        reason = why(a, b, landing.node_a, landing.node_b)
        if reason.kind in ("not scheduled", "unknown"):
            without, row = (of_a, landing.row_a) if not landing.node_a else (of_b, landing.row_b)
            message = "" if row is None else without.message(row)
            reason = msgspec.structs.replace(reason, message=reason.message or message)
        return cls(landing, a, b, reason)

    @property
    def number(self) -> int:
        """The number of the decision. Up to the first difference, both runs have made the same decisions."""
        return min((each.number for each in (self.a, self.b) if each is not None and each.node), default=1 << 62)


def _attempt(made: Attempts, landing: Landing, pods: PodOutcomes, row: int | None, node: str) -> Attempt | None:
    """Return the attempt that placed the pod, or for a pod without a node, the one nearest to the other run's."""
    if node == NOT_KNOWN:
        return None
    if node and row is not None:
        return made.placed_on(landing.name, node, pods.bound_s(row))
    return made.rejected_near(landing.name, landing.at_s)


def _difference(found: _Explained, rank: int, ranks: Mapping[str, int], listed: Sequence[_Explained]) -> PodDifference:
    landing = found.landing
    changed = None if found.a is None or found.b is None else _changed(found.a, found.b)
    state, follows_from = "equal", ""
    if changed:
        state, follows_from = "different", _earliest(changed, rank, ranks, listed)
    elif rank:
        state = "not known" if changed is None else "elsewhere"
    named = [] if changed is None else sorted(changed)[:MAX_CHANGED]
    return PodDifference(
        pod=landing.key,
        node_a=landing.node_a,
        node_b=landing.node_b,
        at_s=None if math.isinf(landing.at_s) else round(landing.at_s, 6),
        why=found.why,
        state=state,
        follows_from=follows_from,
        because=why_text(found.why, landing.node_a, landing.node_b),
        given=state_text(state, follows_from, named),
        changed=named,
    )


def _changed(a: Attempt, b: Attempt) -> frozenset[str] | None:
    """Return the pods that one of the nodes in question held in one run only; None if that is not known."""
    changed: frozenset[str] = frozenset()
    for name, in_a in a.nodes.items():
        in_b = b.nodes.get(name)
        if in_b is None or in_a.pods is None or in_b.pods is None:
            return None
        changed |= in_a.pods ^ in_b.pods
    return changed


def _earliest(changed: frozenset[str], rank: int, ranks: Mapping[str, int], listed: Sequence[_Explained]) -> str:
    """Return the earliest listed pod among the changed ones; "" if none of them is listed before this one."""
    earlier = [place for key in changed if (place := ranks.get(key, rank)) < rank]
    return listed[min(earlier)].landing.key if earlier else ""
