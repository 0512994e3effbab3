"""Compares two sides: runs them, finds the pods that landed elsewhere, and why the first of them did.

Memory is bounded: of all pods only their nodes are kept, and of those that differ, the first `limit` in the order of
decisions are explained and listed. The others are counted.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import msgspec

from kscheduler import __version__
from kscheduler.compare.attempts import Attempt
from kscheduler.compare.figures import Figure, Histogram, figures, histogram, parameters_that_differ
from kscheduler.compare.options import DEFAULT_LIMIT
from kscheduler.compare.pod_outcomes import PodOutcomes
from kscheduler.compare.reasons import Why, why
from kscheduler.compare.sentences import state_text, why_text
from kscheduler.compare.sides import Run, Side
from kscheduler.compare.watching import Attempts
from kscheduler.errors import ConfigError
from kscheduler.simulator.report import Report
from kscheduler.simulator.run import Progress
from kscheduler.simulator.statistics import rounded

TRIED_WITHIN_S = 60.0  # virtual seconds after a pod was placed in one run, in which the other has tried it, too
MAX_UNPLACED = 1_000
NOT_KNOWN = "?"  # no name of a node
MAX_CHANGED = 10  # pods that are named of those that made the difference on a node


class PodCounts(msgspec.Struct, frozen=True):
    """How many pods landed where. `moved` ones are on another node in B."""

    common: int = 0
    only_in_a: int = 0  # pods that only A has
    only_in_b: int = 0
    same_node: int = 0
    moved: int = 0
    only_placed_in_a: int = 0
    only_placed_in_b: int = 0
    placed_in_neither: int = 0
    are_nodes_known: bool = True  # False: pods placed in both are not compared and not counted

    @property
    def different(self) -> int:
        return self.moved + self.only_placed_in_a + self.only_placed_in_b


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


class PairedWait(msgspec.Struct, frozen=True):
    """How the pods that both runs placed waited for their binding: the difference of each pod, B - A."""

    pods: int
    mean_s: float
    standard_error_s: float | None  # of that mean; None for a single pod
    sooner: int  # pods bound sooner after their creation in B than in A
    later: int
    equal: int


class SideSummary(msgspec.Struct, frozen=True):
    name: str
    kind: str
    report: Report  # with the first MAX_UNPLACED pods without a node


class Comparison(msgspec.Struct, frozen=True):
    """Everything that the text, the JSON and the page show."""

    version: str
    a: SideSummary
    b: SideSummary
    parameters: list[tuple[str, str, str]]  # (name, in A, in B) of those that differ
    notes: list[str]
    pods: PodCounts
    differences: list[PodDifference]  # in the order of decisions: the first one is the root of those that follow
    not_listed: int  # further pods that landed elsewhere
    figures: list[Figure]
    pending: Histogram
    paired: PairedWait | None  # None if no pod was placed in both, or the times are not known

    @property
    def differs(self) -> bool:
        return bool(self.pods.different or self.pods.only_in_a or self.pods.only_in_b)


class ShowsProgress(Protocol):
    def __call__(self, side: Side) -> AbstractContextManager[Progress | None]:
        """Return a context that shows the progress of a side's run."""
        ...


def silently(side: Side) -> AbstractContextManager[Progress | None]:
    return nullcontext()


def compare(a: Side, b: Side, limit: int = DEFAULT_LIMIT, shown: ShowsProgress = silently) -> Comparison:
    """Run both sides and compare them. At most `limit` differing pods are explained.

    Raises ConfigError if the sides have no pod in common.
    """
    # 1. Both runs.
    with shown(a) as progress:
        run_a = a.run(progress)
    with shown(b) as progress:
        run_b = b.run(progress)
    # 2. The pods that landed elsewhere, the first ones by the time of their binding.
    notes: list[str] = []
    counts, first = _landings(a, b, run_a.pods, run_b.pods, limit, notes)
    # 3. Why they did.
    differences = _explained(a, b, run_a.pods, run_b.pods, first, notes)
    # 4. Figures side by side.
    return Comparison(
        version=__version__,
        a=_summary(a, run_a),
        b=_summary(b, run_b),
        parameters=parameters_that_differ(run_a.report, run_b.report),
        notes=notes,
        pods=counts,
        differences=differences,
        not_listed=counts.different - len(differences),
        figures=figures(run_a.report, run_b.report),
        pending=histogram(run_a.report.latency, run_b.report.latency),
        paired=_paired_wait(run_a.pods, run_b.pods),
    )


def _summary(side: Side, run: Run) -> SideSummary:
    unplaced = run.report.unplaced[:MAX_UNPLACED]
    return SideSummary(side.name, side.kind, msgspec.structs.replace(run.report, unplaced=unplaced))


# --- pods that landed elsewhere -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Landing:
    """A pod that landed elsewhere, with its rows in both runs; None if a run does not list it."""

    key: str
    row_a: int | None
    row_b: int | None
    node_a: str
    node_b: str
    at_s: float  # of its first binding in either run; infinite if not known
    priority: int

    @property
    def order(self) -> tuple[float, int, int]:
        """Sorts pods by the time of their binding, then as the queue does."""
        return self.at_s, -self.priority, self.row_b or 0 if self.row_a is None else self.row_a


def _landings(
    a: Side, b: Side, of_a: PodOutcomes | None, of_b: PodOutcomes | None, limit: int, notes: list[str]
) -> tuple[PodCounts, list[_Landing]]:
    if of_a is None or of_b is None:
        return PodCounts(), []
    if not of_a.has_nodes or not of_b.has_nodes:
        names = ", ".join(side.name for side, of in ((a, of_a), (b, of_b)) if not of.has_nodes)
        notes.append(f"Only pods without a node are compared: where the others were placed is not in {names}.")
        return _unplaced(of_a, of_b, limit)
    common = sum(key in of_b.rows for key in of_a.rows)
    if not common and (len(of_a) or len(of_b)):
        raise ConfigError(
            f"expected the same pods on both sides: {a.name} has {len(of_a):,} pods, {b.name} {len(of_b):,}, and none "
            "of them in common"
        )
    counts: Counter[str] = Counter()
    differing = _differing(of_a, of_b, counts)  # counts while it is iterated over
    first = heapq.nsmallest(max(limit, 1), differing, key=lambda landing: landing.order)[:limit]
    found = PodCounts(
        common=common,
        only_in_a=len(of_a) - common,
        only_in_b=len(of_b) - common,
        same_node=counts["same node"],
        moved=counts["moved"],
        only_placed_in_a=counts["only in A"],
        only_placed_in_b=counts["only in B"],
        placed_in_neither=counts["in neither"],
    )
    if found.only_in_a or found.only_in_b:
        notes.append(
            f"Only the {common:,} pods in common are compared: {found.only_in_a:,} are in {a.name} only, "
            f"{found.only_in_b:,} in {b.name} only."
        )
    return found, first


def _differing(of_a: PodOutcomes, of_b: PodOutcomes, counts: Counter[str]) -> Iterator[_Landing]:
    """Yield the pods in common that landed elsewhere, and count all pods in common by how they landed."""
    for key, row_a in of_a.rows.items():
        row_b = of_b.rows.get(key)
        if row_b is None:
            continue
        node_a, node_b = of_a.node(row_a), of_b.node(row_b)
        if node_a == node_b:
            counts["same node" if node_a else "in neither"] += 1
            continue
        counts["moved" if node_a and node_b else "only in A" if node_a else "only in B"] += 1
        times = [time for time in (of_a.bound_s(row_a), of_b.bound_s(row_b)) if not math.isnan(time)]
        yield _Landing(key, row_a, row_b, node_a, node_b, min(times, default=math.inf), of_a.priority(row_a))


def _unplaced(of_a: PodOutcomes, of_b: PodOutcomes, limit: int) -> tuple[PodCounts, list[_Landing]]:
    """Compare which pods have no node; all others count as placed."""
    without_a, without_b = _without_node(of_a), _without_node(of_b)
    first = heapq.nsmallest(
        limit,
        (_half_known(key, of_a, of_b) for key in without_a.symmetric_difference(without_b)),
        key=lambda landing: landing.order,
    )
    counts = PodCounts(
        only_placed_in_a=len(without_b - without_a),
        only_placed_in_b=len(without_a - without_b),
        placed_in_neither=len(without_a & without_b),
        are_nodes_known=False,
    )
    return counts, first


def _without_node(pods: PodOutcomes) -> set[str]:
    return {key for key, row in pods.rows.items() if not pods.is_placed(row)}


def _half_known(key: str, of_a: PodOutcomes, of_b: PodOutcomes) -> _Landing:
    rows = row_a, row_b = of_a.rows.get(key), of_b.rows.get(key)
    node_a, node_b = (
        NOT_KNOWN if row is None else pods.node(row) for pods, row in zip((of_a, of_b), rows, strict=True)
    )
    times = [pods.bound_s(row) for pods, row in zip((of_a, of_b), rows, strict=True) if row is not None]
    at_s = min((time for time in times if not math.isnan(time)), default=math.inf)
    return _Landing(key, row_a, row_b, node_a, node_b, at_s, 0)


def _paired_wait(of_a: PodOutcomes | None, of_b: PodOutcomes | None) -> PairedWait | None:
    if of_a is None or of_b is None:
        return None
    pods = sooner = later = 0
    total = squares = 0.0
    for key, row_a in of_a.rows.items():
        row_b = of_b.rows.get(key)
        difference = math.nan if row_b is None else of_b.waited_s(row_b) - of_a.waited_s(row_a)
        if math.isnan(difference):
            continue
        difference = round(difference, 6)
        pods += 1
        sooner += difference < 0
        later += difference > 0
        total += difference
        squares += difference * difference
    if not pods:
        return None
    mean = total / pods
    error = math.sqrt(max(0.0, squares - pods * mean * mean) / (pods - 1) / pods) if pods > 1 else None
    return PairedWait(
        pods, rounded(mean), None if error is None else rounded(error), sooner, later, pods - sooner - later
    )


# --- why ----------------------------------------------------------------------------------------------------------


def _explained(
    a: Side,
    b: Side,
    of_a: PodOutcomes | None,
    of_b: PodOutcomes | None,
    first: Sequence[_Landing],
    notes: list[str],
) -> list[PodDifference]:
    if not first or of_a is None or of_b is None:
        return []
    watched: dict[str, list[str]] = {}
    for landing in first:
        watched.setdefault(_name(landing), []).extend({landing.node_a, landing.node_b} - {"", NOT_KNOWN})
    until_s = max((landing.at_s for landing in first if landing.at_s < math.inf), default=None)
    until_s = None if until_s is None else until_s + TRIED_WITHIN_S
    in_a = a.attempts(watched, until_s)
    in_b = b.attempts(watched, until_s)
    silent = [side.name for side, made in ((a, in_a), (b, in_b)) if made is None]
    if silent:
        notes.append(f"Filter results and scores are not in {', '.join(silent)}: a report without decisions has none.")
    found = [_Explained.of(landing, in_a, in_b, of_a, of_b) for landing in first]
    if in_a is not None and in_b is not None and in_a.counts == in_b.counts != "":
        found.sort(key=lambda each: (each.number, each.landing.order))
    ranks = {each.landing.key: rank for rank, each in enumerate(found)}
    return [_difference(each, rank, ranks, found, of_a, of_b) for rank, each in enumerate(found)]


@dataclass(frozen=True, slots=True)
class _Explained:
    """A landing with the attempts that led to it, None if not known."""

    landing: _Landing
    a: Attempt | None
    b: Attempt | None
    why: Why

    @classmethod
    def of(
        cls, landing: _Landing, in_a: Attempts | None, in_b: Attempts | None, of_a: PodOutcomes, of_b: PodOutcomes
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


def _attempt(made: Attempts, landing: _Landing, pods: PodOutcomes, row: int | None, node: str) -> Attempt | None:
    """Return the attempt that placed the pod, or for a pod without a node, the one nearest to the other run's."""
    if node == NOT_KNOWN:
        return None
    if node and row is not None:
        return made.placed_on(_name(landing), node, pods.bound_s(row))
    return made.rejected_near(_name(landing), landing.at_s)


def _name(landing: _Landing) -> str:
    """Return namespace/name of the pod, without the number of a further pod of this name."""
    return landing.key.partition("#")[0]


def _difference(
    found: _Explained,
    rank: int,
    ranks: Mapping[str, int],
    listed: Sequence[_Explained],
    of_a: PodOutcomes,
    of_b: PodOutcomes,
) -> PodDifference:
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
