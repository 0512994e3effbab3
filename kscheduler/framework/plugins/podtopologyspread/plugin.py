"""PodTopologySpread: limits the number of similar pods in each topology domain, or prefers domains with few of them.

DoNotSchedule: a node is rejected if its domain would have more than maxSkew pods more than the domain with the fewest,
or if it lacks the topology key. ScheduleAnyway: raw = round(Σ pods in the domain · ln(domains + 2) + maxSkew − 1),
fewer are better. Counters of pods by node are kept up to date as pods come and go; a decision only sums them by domain.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kscheduler._fast import (
    MAX_CLASS_WEIGHT,
    DomainSums,
    RowMask,
    RowTotals,
    Scores,
    Verdicts,
    add_spread,
    add_spread_by_row,
    filter_skew,
    normalize_spread,
    score_spread,
    sum_by_domain,
)
from kscheduler.api.objects import TopologySpreadConstraint
from kscheduler.errors import DecodeError
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import Demands
from kscheduler.framework.events import Action, ClusterEvent, EventResource, Registration
from kscheduler.framework.interface import Handle, PreFilterResult
from kscheduler.framework.plugins.podtopologyspread.by_node import SoftScore, normalizing_weight
from kscheduler.framework.plugins.podtopologyspread.constraints import (
    SYSTEM_DEFAULTS,
    Compiler,
    Constraint,
    Constraints,
)
from kscheduler.framework.plugins.podtopologyspread.hard_counts import HardCounts
from kscheduler.framework.plugins.podtopologyspread.hints import Hints
from kscheduler.framework.plugins.podtopologyspread.inclusion import IncludedRows, Inclusion
from kscheduler.framework.plugins.podtopologyspread.joining import Joining
from kscheduler.framework.plugins.podtopologyspread.tallies import tally
from kscheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from kscheduler.snapshot.node_classes import HOSTNAME
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_counters import RowCounter
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.summed_domains import SummedDomains
from kscheduler.snapshot.topology import DomainColumn

NAME = "PodTopologySpread"
REASON = "node(s) didn't match pod topology spread constraints"
MISSING_REASON = f"{REASON} (missing required label)"
_CONSTRAINTS = "PodTopologySpread/constraints"
_HARD = "PodTopologySpread/hard counts"
_SOFT = "PodTopologySpread/soft by node"

_MISSING, _SKEWED = 1, 2  # detail of a verdict


class PodTopologySpread:
    """PodTopologySpread. `defaults`: the constraints of pods that state none; None means kube-scheduler's defaults."""

    name = NAME

    def __init__(self, handle: Handle, defaults: Sequence[TopologySpreadConstraint] | None = None) -> None:
        self._table = handle.table
        self._compiler = Compiler(
            SYSTEM_DEFAULTS if defaults is None else defaults, defaults is None, handle.owners.selector_of
        )
        self._hints = Hints(self._compiler)
        self._included = IncludedRows(handle.table)
        self._joining = Joining(handle.table, self._included)
        self._sums = DomainSums()
        self._totals = RowTotals()
        self._scored = RowMask()  # the feasible rows that take part in scoring, from score_table to normalize_table

    # --- filter ---

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        try:
            constraints = self._constraints(state, pod)
        except DecodeError as error:
            return None, unresolvable(str(error))
        if not constraints.hard:
            return None, SKIP
        inclusion = Inclusion(pod.pod)
        counts = HardCounts(constraints.hard, inclusion, lambda: self._count_hard(constraints.hard, inclusion))
        state.write(_HARD, counts)
        return None, None

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        state.read(_HARD, HardCounts).move(pod, other, node, 1)
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        state.read(_HARD, HardCounts).move(pod, other, node, -1)
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        constraints = self._constraints(state, pod)
        if not constraints.hard:
            return None
        counts = state.read(_HARD, HardCounts)
        for position, constraint in enumerate(constraints.hard):
            domain = node.labels.get(constraint.topology_key)
            if domain is None:
                return unresolvable(MISSING_REASON)
            if counts.is_too_many(position, domain, constraint.own(pod)):
                return unschedulable(REASON)
        return None

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        constraints = self._constraints(state, pod).hard
        inclusion = state.read(_HARD, HardCounts).inclusion
        self._included.reset([constraint.topology_key for constraint in constraints])
        sums = self._sums
        for constraint in constraints:
            column = table.topology.column(constraint.topology_key)
            present = self._sum(sums, constraint, column, inclusion)
            least = sums.minimum if present >= constraint.min_domains else 0
            most = constraint.max_skew - constraint.own(pod) + least
            filter_skew(verdicts, sums, column.ids, code, most, _MISSING, _SKEWED)

    def demands(self, state: CycleState, pod: PodInfo) -> Demands:
        constraints = self._constraints(state, pod).hard
        counts = state.read(_HARD, HardCounts)
        details = _MISSING, _SKEWED
        return Demands(
            limits=[
                tally(pod, constraints, position, summed, counts.inclusion, details)
                for position, summed in enumerate(counts.at_rest)
            ]
        )

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return unresolvable(MISSING_REASON) if detail == _MISSING else unschedulable(REASON)

    # --- score ---

    def pre_score(self, state: CycleState, pod: PodInfo) -> Status | None:
        try:
            constraints = self._constraints(state, pod)
        except DecodeError as error:
            return unresolvable(str(error))
        return None if constraints.soft else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        """Score as if all nodes were feasible, since only the table form knows which are."""
        return self._soft_score(state, pod).raw(node), None

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> Status | None:
        self._soft_score(state, pod).normalize(scores)
        return None

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        constraints = self._constraints(state, pod)
        inclusion = Inclusion(pod.pod)
        # 1. Rows that lack a key take no part, unless the constraints are the system's.
        keys = [constraint.topology_key for constraint in constraints.soft] if constraints.needs_all_keys else []
        self._included.reset(keys)
        self._scored.take_feasible(verdicts)
        for key in keys:
            self._scored.drop_without_domain(table.topology.column(key).ids)
        # 2. Each constraint adds what its domains hold.
        self._totals.reset(table.columns)
        for constraint in constraints.soft:
            if constraint.topology_key == HOSTNAME:
                self._add_by_row(constraint, verdicts)
            else:
                self._add_by_domain(constraint, constraints.needs_all_keys, inclusion, verdicts)
        score_spread(verdicts, scores, self._totals, self._scored)

    def normalize_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        normalize_spread(verdicts, scores, self._scored)

    # --- the compiled lane ---

    def sign_pod(self, pod: PodInfo) -> Hashable:
        return self._compiler.sign(pod.pod)

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        draft.depends_on(Source.OWNERS)
        try:
            constraints = self._compiler.compile(pod.pod)
        except DecodeError:
            return False
        if (draft.weight or 0) > MAX_CLASS_WEIGHT:
            return False
        joined = self._joining.terms(pod, constraints, filters=draft.is_filtering, weight=draft.weight)
        if joined is not None:
            draft.add_terms(joined)
        if constraints.hard:
            draft.says_filter()
        if constraints.soft:
            draft.says_score()
        return True

    # --- queue ---

    def events_to_register(self) -> Sequence[Registration]:
        of_assigned = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        of_target = Action.UPDATE_POD_TOLERATION | Action.UPDATE_POD_LABEL
        of_nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        of_pods = (
            ClusterEvent(EventResource.ASSIGNED_POD, of_assigned),
            ClusterEvent(EventResource.TARGET_POD, of_target),
        )
        return (
            *(Registration(event, self._hints.after_pod, self._hints.for_pods) for event in of_pods),
            Registration(ClusterEvent(EventResource.NODE, of_nodes), self._hints.after_node, self._hints.for_nodes),
        )

    # --- inside ---

    def _constraints(self, state: CycleState, pod: PodInfo) -> Constraints:
        found = state.get(_CONSTRAINTS, Constraints)
        if found is None:
            found = self._compiler.compile(pod.pod)
            state.write(_CONSTRAINTS, found)
        return found

    def _counter(self, constraint: Constraint) -> RowCounter:
        return self._table.counters.by_labels.counter(constraint.pods, constraint.pods.weigh, constraint.pods.narrow)

    def _sum(self, sums: DomainSums, constraint: Constraint, column: DomainColumn, inclusion: Inclusion) -> int:
        """Count a constraint's pods by topology domain into `sums`, on the nodes it includes.

        Returns the number of domains.
        """
        included = self._included.of(constraint, inclusion)
        return sum_by_domain(sums, self._counter(constraint).values, column.ids, column.size, included)

    def _count_hard(self, constraints: tuple[Constraint, ...], inclusion: Inclusion) -> list[SummedDomains]:
        """Return the counts by topology domain of each DoNotSchedule constraint, in buffers of their own."""
        self._included.reset([constraint.topology_key for constraint in constraints])
        found = []
        for constraint in constraints:
            sums, column = DomainSums(), self._table.topology.column(constraint.topology_key)
            self._sum(sums, constraint, column, inclusion)
            found.append(SummedDomains(sums, column))
        return found

    def _add_by_row(self, constraint: Constraint, verdicts: Verdicts) -> None:
        """Add the scores of a constraint on hostnames: each node is its own domain, whatever its label's value."""
        ids = self._table.topology.column(HOSTNAME).ids
        weight = normalizing_weight(len(self._scored))
        add_spread_by_row(verdicts, self._totals, self._counter(constraint).values, ids, weight, constraint.max_skew)

    def _add_by_domain(
        self, constraint: Constraint, needs_all_keys: bool, inclusion: Inclusion, verdicts: Verdicts
    ) -> None:
        column = self._table.topology.column(constraint.topology_key)
        domains, missing = column.size, -1
        if not needs_all_keys:
            # Nodes without the label are one domain, together with those whose label is empty.
            missing = column.id_of("")
            if missing < 0:
                domains, missing = domains + 1, domains
        sums = self._sums
        size = sum_by_domain(sums, None, column.ids, domains, self._scored, missing)
        included = self._included.of(constraint, inclusion)
        sum_by_domain(sums, self._counter(constraint).values, column.ids, domains, included, missing)
        add_spread(verdicts, self._totals, sums, column.ids, normalizing_weight(size), constraint.max_skew)

    def _soft_score(self, state: CycleState, pod: PodInfo) -> SoftScore:
        found = state.get(_SOFT, SoftScore)
        if found is None:
            constraints = self._constraints(state, pod)
            found = SoftScore(constraints, Inclusion(pod.pod), self._table, list(self._table))
            state.write(_SOFT, found)
        return found
