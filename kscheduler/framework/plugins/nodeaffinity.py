"""NodeAffinity: a node must match a pod's node selector and required terms; preferred terms give a score.

Terms that read the hostname label or the node's name differ from node to node and are matched node by node; all others
once for each node class, i.e. nodes with equal labels and taints. Score: the summed weight of the preferred terms that
match, normalised.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kscheduler._fast import Scores, Verdicts, clear_raw, filter_node_classes, normalize, score_node_classes
from kscheduler.api import objects as api
from kscheduler.api.labels import (
    NODE_NAME_FIELD,
    NodeTerm,
    Operator,
    RequiredNodeAffinity,
    compile_node_selector_term,
    compile_preferred_terms,
    compile_required_node_affinity,
)
from kscheduler.errors import DecodeError
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import NODE_ALONE, Demands
from kscheduler.framework.events import Action, ClusterEvent, EventResource, Grouping, Registration
from kscheduler.framework.interface import Handle, PreFilterResult
from kscheduler.framework.narrowing import Narrowing, Options, Token
from kscheduler.framework.normalize import default_normalize
from kscheduler.framework.status import SKIP, Status, unresolvable
from kscheduler.snapshot.node_classes import HOSTNAME
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "NodeAffinity"
REASON = "node(s) didn't match Pod's node affinity/selector"
ENFORCED_REASON = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT = "pod affinity terms conflict"
_REQUIRED = "NodeAffinity/required"
_PREFERRED = "NodeAffinity/preferred"

_OWN, _ENFORCED = 1, 2  # reason number (detail): the pod's own affinity, or the profile's, does not match the node

_Preferred = tuple[tuple[int, NodeTerm], ...]


@dataclass(frozen=True, slots=True)
class AddedAffinity:
    """The profile's node affinity in addition to the pods' own: `addedAffinity` of the plugin's arguments."""

    required: RequiredNodeAffinity | None = None
    preferred: _Preferred = ()


def compile_added_affinity(affinity: api.NodeAffinity | None) -> AddedAffinity:
    """Compile `addedAffinity`. Raises DecodeError, with the path of the field, for invalid terms."""
    if affinity is None:
        return AddedAffinity()
    required = affinity.required_during_scheduling_ignored_during_execution
    path = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    return AddedAffinity(
        None if required is None else RequiredNodeAffinity((), _added_terms(required.node_selector_terms)),
        tuple(
            (term.weight, compile_node_selector_term(term.preference, f"{path}[{i}].preference"))
            for i, term in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or ())
            if term.weight and (term.preference.match_expressions or term.preference.match_fields)
        ),
    )


def _added_terms(terms: Sequence[api.NodeSelectorTerm]) -> tuple[NodeTerm, ...]:
    path = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    return tuple(compile_node_selector_term(term, f"{path}[{i}]") for i, term in enumerate(terms))


class NodeAffinity:
    name = NAME
    signs_metadata = False

    def __init__(self, handle: Handle, added: AddedAffinity = AddedAffinity()) -> None:
        self._added = added
        self._verdicts = handle.table.node_classes.verdict_memo()
        self._weights = handle.table.node_classes.value_memo()

    # --- filter ---

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        spec = pod.pod.spec
        try:
            is_plain = not spec.node_selector and spec.affinity is None
            required = None if is_plain else compile_required_node_affinity(pod.pod)
        except DecodeError as error:
            return None, unresolvable(str(error))
        if required is None:
            return None, SKIP if self._added.required is None else None
        state.write(_REQUIRED, required)
        names = required.node_names
        if names is None:
            return None, None
        return (PreFilterResult(names), None) if names else (None, unresolvable(CONFLICT))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        detail = self._obstacle(state.get(_REQUIRED, RequiredNodeAffinity), node.labels, node.name)
        return self.explain(state, pod, detail) if detail else None

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        required = state.get(_REQUIRED, RequiredNodeAffinity)
        if _differs_within_class(self._added.required) or _differs_within_class(required):
            for row in verdicts.feasible_rows():
                node = table.at(row)
                if detail := self._obstacle(required, node.labels, node.name):
                    verdicts.reject(row, code, detail)
        elif required is not None or self._added.required is not None:
            filter_node_classes(table.columns, verdicts, self._obstacles(required), code)

    def _obstacles(self, required: RequiredNodeAffinity | None) -> bytearray:
        """Return why nodes are rejected, by node class (nodes with equal labels and taints), as reason numbers.

        0 if they are not rejected.
        """
        return self._verdicts.answers(required, lambda node_class: self._obstacle(required, node_class.labels, ""))

    def _obstacle(self, required: RequiredNodeAffinity | None, labels: Mapping[str, str], name: str) -> int:
        """Return why a node with these labels and this name is rejected: a reason number, 0 if it is not."""
        added = self._added.required
        if added is not None and not added.matches(labels, name):
            return _ENFORCED
        return _OWN if required is not None and not required.matches(labels, name) else 0

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return unresolvable(ENFORCED_REASON if detail == _ENFORCED else REASON)

    def demands(self, state: CycleState, pod: PodInfo) -> Demands:
        return NODE_ALONE

    # --- score ---

    def pre_score(self, state: CycleState, pod: PodInfo) -> Status | None:
        try:
            preferred = self._added.preferred + compile_preferred_terms(pod.pod)
        except DecodeError as error:
            return unresolvable(str(error))
        if not preferred and not _prefers_nodes(pod.pod):
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
        if any(_differs_within_class(term) for _, term in preferred):
            clear_raw(verdicts, scores)
            for row in verdicts.feasible_rows():
                scores.set_raw(row, self.score(state, pod, table.at(row))[0])
        else:
            score_node_classes(table.columns, verdicts, scores, self._preference(preferred))

    def _preference(self, preferred: _Preferred) -> array[int]:
        """Return the raw score by node class (nodes with equal labels): the summed weight of matching preferences."""
        return self._weights.answers(
            preferred,
            lambda node_class: sum(weight for weight, term in preferred if term.matches(node_class.labels, "")),
        )

    def normalize_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        normalize(verdicts, scores, False)

    # --- the compiled lane ---

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        """Return the compiled affinity, which is all that the plugin reads of the pod.

        None if the affinity reads hostnames or node names, by which nodes with otherwise equal labels differ, or is
        invalid.
        """
        try:
            required, preferred = compile_required_node_affinity(pod.pod), compile_preferred_terms(pod.pod)
        except DecodeError:
            return None
        if _differs_within_class(required) or any(_differs_within_class(term) for _, term in preferred):
            return None
        return required, preferred, _prefers_nodes(pod.pod)

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        added = self._added
        if _differs_within_class(added.required) or any(_differs_within_class(term) for _, term in added.preferred):
            return False
        required = compile_required_node_affinity(pod.pod)
        if required is not None or added.required is not None:
            draft.filter_node_classes(self._obstacles(required))
        preferred = added.preferred + compile_preferred_terms(pod.pod)
        if preferred or _prefers_nodes(pod.pod):
            draft.score_node_classes(self._preference(preferred), reverse=False)
        return True

    # --- queue ---

    def events_to_register(self) -> Sequence[Registration]:
        of_nodes = ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        by_affinity = Grouping(_required_of, lambda: Narrowing(_narrowings, _labels_brought))
        return (Registration(of_nodes, self.is_schedulable_after_node_change, by_affinity),)

    def is_schedulable_after_node_change(self, waiting: api.Pod, old: object, new: object) -> bool:
        """Return True if the node matches the pod's affinity now, and is new or did not match it before."""
        if not isinstance(new, api.Node):
            return True
        required = compile_required_node_affinity(waiting)
        if self._obstacle(required, new.metadata.labels or {}, new.metadata.name):
            return False
        return not isinstance(old, api.Node) or bool(
            self._obstacle(required, old.metadata.labels or {}, old.metadata.name)
        )


# --- waiting pods, found by what a node brings ---


def _required_of(pod: PodInfo) -> RequiredNodeAffinity | None:
    try:
        return compile_required_node_affinity(pod.pod) or RequiredNodeAffinity()
    except DecodeError:
        return None  # the hint will say so


def _narrowings(key: Hashable) -> Sequence[Options]:
    """Return sets of lookup tokens (labels, node names); a node that helps has at least one token of each set.

    A node must have every label of the node selector, and what one of the required terms requires.
    """
    if not isinstance(key, RequiredNodeAffinity):
        raise TypeError(f"expected a RequiredNodeAffinity, got {key!r}")
    options: list[Sequence[Token]] = [[label] for label in key.selector]
    by_term = [_term_narrowing(term) for term in key.terms or ()]
    known = [tokens for tokens in by_term if tokens is not None]
    if key.terms is not None and len(known) == len(by_term):
        options.append([token for tokens in known for token in tokens])
    return (options,)


def _term_narrowing(term: NodeTerm) -> list[Token] | None:
    """Return labels, or names, such that each node that the term matches has one of them; None if there are none."""
    if term.node_names is not None:
        return [(NODE_NAME_FIELD, name) for name in term.node_names]
    if not term.expressions and not term.names:
        return []  # matches no node
    lists = [each for each in term.expressions if each.operator is Operator.IN]
    if not lists:
        return None
    shortest = min(lists, key=lambda each: len(each.values))
    return [(shortest.key, value) for value in shortest.values]


def _labels_brought(old: object, new: object) -> Iterable[Token] | None:
    if not isinstance(new, api.Node):
        return None
    return [*(new.metadata.labels or {}).items(), (NODE_NAME_FIELD, new.metadata.name)]


def _prefers_nodes(pod: api.Pod) -> bool:
    """Return True if the pod has preferred terms, even useless ones: kube-scheduler's plugin then scores, too."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    return bool(affinity and affinity.preferred_during_scheduling_ignored_during_execution)


def _differs_within_class(term: NodeTerm | RequiredNodeAffinity | None) -> bool:
    """Return True if the term reads what differs between nodes with equal labels: the name, or the hostname label."""
    return term is not None and (term.reads_node_name or HOSTNAME in term.label_keys)
