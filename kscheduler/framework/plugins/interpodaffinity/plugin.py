"""InterPodAffinity: places pods where other pods are, or away from them, as required or preferred.

Filter, in kube-scheduler's order: the pod's required affinity (a pod counts only if all its terms match it), its
required anti-affinity, and the required anti-affinity of existing pods. Score: the summed weights, for each topology
pair (label key, value) of the node, of the pod's own preferred terms that match pods there, of existing pods' preferred
terms that match the pod, and `hard_weight` for each of their required affinity terms that match it; normalised between
lowest and highest.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec

from kscheduler._fast import MAX_CLASS_WEIGHT, Scores, Verdicts, normalize_range
from kscheduler.api.pod_affinity import has_preferred_terms
from kscheduler.config.types import InterPodAffinityArgs
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import NODE_ALONE, Demands
from kscheduler.framework.events import Action, ClusterEvent, EventResource, Registration
from kscheduler.framework.interface import Handle, PreFilterResult
from kscheduler.framework.plugins.interpodaffinity.by_node import normalize_between, score_by_pair, score_of
from kscheduler.framework.plugins.interpodaffinity.by_table import AffinityIndex, FilterInput, ScoreInput
from kscheduler.framework.plugins.interpodaffinity.filter_counts import FilterCounts
from kscheduler.framework.plugins.interpodaffinity.hints import Hints
from kscheduler.framework.plugins.interpodaffinity.joining import Joining
from kscheduler.framework.plugins.interpodaffinity.own_terms import NO_OWN_TERMS, OwnTerms, own_terms
from kscheduler.framework.status import SKIP, Status, error_status, unresolvable, unschedulable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "InterPodAffinity"

AFFINITY, ANTI_AFFINITY, EXISTING = 1, 2, 3  # details of verdicts
STATUSES = {
    AFFINITY: unresolvable("node(s) didn't match pod affinity rules"),
    ANTI_AFFINITY: unschedulable("node(s) didn't match pod anti-affinity rules"),
    EXISTING: unschedulable("node(s) didn't satisfy existing pods anti-affinity rules"),
}

_FILTER = "InterPodAffinity/filter"
_COUNTS = "InterPodAffinity/counts"
_SCORE = "InterPodAffinity/score"
_PAIRS = "InterPodAffinity/pairs"


class InterPodAffinity:
    name = NAME

    def __init__(self, handle: Handle, args: InterPodAffinityArgs) -> None:
        self._table = handle.table
        self._namespaces = handle.namespaces
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignores_others = args.ignore_preferred_terms_of_existing_pods
        self._index = AffinityIndex(handle.table, handle.namespaces)
        self._joining = Joining(handle.table, self._index)
        self._release = handle.release
        self._hints = Hints(handle.namespaces, self._index.shunning_keys, handle.release)

    # --- filter ---

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        if pod.affinity.fault is not None:
            return None, unresolvable(f"parsing pod: {pod.affinity.fault}")
        own = self._own(pod)
        found = self._index.filter_input(pod, own)
        if found.is_empty:
            return None, SKIP
        state.write(_FILTER, found)
        state.write(_COUNTS, FilterCounts(pod, own, self._namespaces, lambda: self._index.sum_up(found)))
        return None, None

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        state.read(_COUNTS, FilterCounts).move(other, node, 1)
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        state.read(_COUNTS, FilterCounts).move(other, node, -1)
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        counts = state.get(_COUNTS, FilterCounts)
        if counts is None:
            return None
        if not counts.satisfies_affinity(node.labels):
            return STATUSES[AFFINITY]
        if not counts.satisfies_anti_affinity(node.labels):
            return STATUSES[ANTI_AFFINITY]
        return None if counts.satisfies_existing(node.labels) else STATUSES[EXISTING]

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        found = state.get(_FILTER, FilterInput)
        if found is not None:
            self._index.reject(verdicts, found, code, (AFFINITY, ANTI_AFFINITY, EXISTING))

    def demands(self, state: CycleState, pod: PodInfo) -> Demands:
        counts = state.get(_COUNTS, FilterCounts)
        return NODE_ALONE if counts is None else counts.demands((AFFINITY, ANTI_AFFINITY, EXISTING))

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return STATUSES[detail]

    def _own(self, pod: PodInfo) -> OwnTerms:
        quirk = self._release.matches_selectors_without_labels
        return own_terms(pod.affinity, self._namespaces, matches_selectors_without_labels=quirk)

    # --- score ---

    def pre_score(self, state: CycleState, pod: PodInfo) -> Status | None:
        if pod.affinity.fault is not None:
            return error_status(f"failed to parse pod: {pod.affinity.fault}", pod.affinity.fault)
        if self._ignores_others and not has_preferred_terms(pod.pod):
            return SKIP
        found = self._index.score_input(pod, self._own(pod), self._hard_weight)
        if found.is_empty:
            return SKIP
        state.write(_SCORE, found)
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        pairs = state.get(_PAIRS, dict)
        if pairs is None:
            pairs = score_by_pair(pod, self._own(pod), self._table, self._namespaces, self._hard_weight)
            state.write(_PAIRS, pairs)
        return score_of(node.labels, pairs), None

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> Status | None:
        normalize_between(scores)
        return None

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        self._index.score(verdicts, scores, state.read(_SCORE, ScoreInput))

    def normalize_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        normalize_range(verdicts, scores)

    # --- the compiled lane ---

    def sign_pod(self, pod: PodInfo) -> Hashable:
        metadata, affinity = pod.pod.metadata, pod.pod.spec.affinity
        own = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else (None, None)
        written = b"" if own == (None, None) else msgspec.json.encode(own)
        return metadata.namespace, frozenset((metadata.labels or {}).items()), written

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        draft.depends_on(Source.NAMESPACES)
        if pod.affinity.fault is not None or (draft.weight or 0) > MAX_CLASS_WEIGHT:
            return False
        own, incoming = self._own(pod), self._index.incoming(pod)
        weight = None if self._ignores_others and not has_preferred_terms(pod.pod) else draft.weight
        # 1. Do others' terms mean the pod? Once some do, those that appear later are looked up as they come.
        forbidding = self._index.forbidding(incoming) if draft.is_filtering else []
        wanting = self._index.wanting(incoming, self._hard_weight) if weight is not None else []
        is_meant = bool(forbidding or wanting)
        draft.depends_on(Source.LABELS_OF_TERMS if is_meant else Source.TERMS)
        if is_meant and own == NO_OWN_TERMS:
            draft.depends_on(Source.TERMS_GONE)
        # 2. Which of all these take part?
        filters = draft.is_filtering and bool(own.affinity or own.anti_affinity or forbidding)
        scores = weight is not None and bool(own.preferred or wanting)
        if filters:
            draft.says_filter()
        if scores:
            draft.says_score()
        if filters or scores:
            joined = self._joining.terms(
                pod,
                own,
                incoming,
                is_meant=is_meant,
                filters=draft.is_filtering,
                weight=weight,
                hard_weight=self._hard_weight,
            )
            draft.add_terms(joined)
        return True

    # --- queue ---

    def events_to_register(self) -> Sequence[Registration]:
        of_pods = (
            ClusterEvent(EventResource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
            ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_LABEL),
        )
        of_nodes = ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return (
            *(Registration(event, self._hints.after_pod, self._hints.for_pods) for event in of_pods),
            Registration(of_nodes, self._hints.after_node, self._hints.for_nodes),
        )
