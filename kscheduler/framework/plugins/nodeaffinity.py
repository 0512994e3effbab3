"""NodeAffinity: a pod's node selector and required terms decide, its preferred terms score.

Terms that read the hostname label or the node's name differ from node to node and are judged node by node; all
others once for each node profile. Score: the summed weight of the preferred terms that match, normalised.
"""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler._fast import Scores, Verdicts, clear_raw, filter_profiles, normalize, score_profiles
from kscheduler.api.labels import (
    NodeTerm,
    RequiredNodeAffinity,
    compile_preferred_terms,
    compile_required_node_affinity,
)
from kscheduler.errors import DecodeError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import Action, ClusterEvent, EventResource
from kscheduler.framework.interface import Handle, PreFilterResult
from kscheduler.framework.normalize import default_normalize
from kscheduler.framework.status import SKIP, Status, unresolvable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.profiles import HOSTNAME

NAME = "NodeAffinity"
REASON = "node(s) didn't match Pod's node affinity/selector"
CONFLICT = "pod affinity terms conflict"
_REQUIRED = "NodeAffinity/required"
_PREFERRED = "NodeAffinity/preferred"

_Preferred = tuple[tuple[int, NodeTerm], ...]


class NodeAffinity:
    name = NAME

    def __init__(self, handle: Handle) -> None:
        self._verdicts = handle.table.profiles.verdict_memo()
        self._weights = handle.table.profiles.value_memo()

    # --- filter ---

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        try:
            required = compile_required_node_affinity(pod.pod)
        except DecodeError as error:
            return None, unresolvable(str(error))
        if required is None:
            return None, SKIP
        state.write(_REQUIRED, required)
        names = required.node_names
        if names is None:
            return None, None
        return (PreFilterResult(names), None) if names else (None, unresolvable(CONFLICT))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        required = state.get(_REQUIRED, RequiredNodeAffinity)
        return None if required is None or required.matches(node.labels, node.name) else unresolvable(REASON)

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        required = state.get(_REQUIRED, RequiredNodeAffinity)
        if required is None:
            return
        if required.reads_node_name or HOSTNAME in required.label_keys:
            for row in verdicts.feasible_rows():
                node = table.at(row)
                if not required.matches(node.labels, node.name):
                    verdicts.reject(row, code, 1)
        else:
            by_profile = self._verdicts.answers(required, lambda profile: int(not required.matches(profile.labels, "")))
            filter_profiles(table.columns, verdicts, by_profile, code)

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return unresolvable(REASON)

    # --- score ---

    def pre_score(self, state: CycleState, pod: PodInfo) -> Status | None:
        try:
            preferred = compile_preferred_terms(pod.pod)
        except DecodeError as error:
            return unresolvable(str(error))
        if not preferred:
            return SKIP
        state.write(_PREFERRED, preferred)
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        preferred: _Preferred = state.read(_PREFERRED, tuple)
        return sum(weight for weight, term in preferred if term.matches(node.labels, node.name)), None

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> Status | None:
        default_normalize(scores, reverse=False)
        return None

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        preferred: _Preferred = state.read(_PREFERRED, tuple)
        if any(term.reads_node_name or HOSTNAME in term.label_keys for _, term in preferred):
            clear_raw(verdicts, scores)
            for row in verdicts.feasible_rows():
                scores.set_raw(row, self.score(state, pod, table.at(row))[0])
        else:
            by_profile = self._weights.answers(
                preferred,
                lambda profile: sum(weight for weight, term in preferred if term.matches(profile.labels, "")),
            )
            score_profiles(table.columns, verdicts, scores, by_profile)

    def normalize_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        normalize(verdicts, scores, False)

    # --- queue ---

    def events_to_register(self) -> Sequence[ClusterEvent]:
        return (ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),)
