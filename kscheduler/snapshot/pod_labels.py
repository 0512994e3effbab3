"""Pods on nodes, grouped so that a selector is matched once for a group instead of once for a pod.

A label class holds the pods of one namespace with equal labels; terminating pods are a class of their own, since
PodTopologySpread leaves them out and InterPodAffinity does not. Term holders are the pods that state an equal affinity
or anti-affinity term. Both count their pods by row. A group exists while it has pods; one that appears again is a new
group.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import final

from kscheduler._fast import NodeColumns
from kscheduler.api.labels import Token
from kscheduler.api.objects import Pod
from kscheduler.api.pod_affinity import HeldTerm, namespace_token
from kscheduler.snapshot.pod_counters import ANYWHERE, GroupCounters, PodGroup
from kscheduler.snapshot.pod_info import PodInfo

# Labels whose keys are kept at a time: a template's pods share theirs, so this is a number of templates.
MAX_KEPT_KEYS = 1_024

LabelKey = tuple[str, frozenset[tuple[str, str]], bool]  # namespace, labels, is the pod terminating?


@final
class LabelClass(PodGroup):
    """The pods on nodes that have equal namespace and labels, and are all terminating or all not."""

    __slots__ = ("is_terminating", "labels", "namespace")

    def __init__(self, id: int, key: LabelKey) -> None:
        super().__init__(id, key)
        self.namespace, pairs, self.is_terminating = key
        self.labels: Mapping[str, str] = dict(pairs)

    def narrowings(self) -> Sequence[Sequence[Token]]:
        return (pod_tokens(self.namespace, self.labels),)

    def __repr__(self) -> str:
        return f"LabelClass({self.namespace}, {dict(self.labels)}, {sum(self.rows.values())} pods)"


@final
class TermHolders(PodGroup):
    """The pods on nodes that state an equal affinity term; a pod that states it twice counts twice."""

    __slots__ = ("term",)

    def __init__(self, id: int, key: HeldTerm) -> None:
        super().__init__(id, key)
        self.term = key

    def narrowings(self) -> Sequence[Sequence[Token]]:
        return self.term.term.narrowings()

    def __repr__(self) -> str:
        return f"TermHolders({self.term!r}, {sum(self.rows.values())} pods)"


def pod_tokens(namespace: str, labels: Mapping[str, str]) -> list[Token]:
    """Return a pod's lookup tokens: its labels and its namespace.

    The pod is indexed under them; affinity terms are indexed under tokens of the pods that they match.
    """
    return [namespace_token(namespace), *labels.items(), ANYWHERE]


@final
class LabelKeys:
    """Keys of label classes (pods with equal namespace and labels), computed once for the pods of one template."""

    __slots__ = ("_by_labels",)

    def __init__(self) -> None:
        # id of the labels -> the labels, whose id nobody else has while they are kept, namespace, key of running pods
        self._by_labels: dict[int, tuple[Mapping[str, str] | None, str, LabelKey]] = {}

    def of(self, pod: Pod) -> LabelKey:
        """Return the pod's `label_key`, kept for other pods with the same labels object."""
        meta = pod.metadata
        labels = meta.labels
        if meta.deletion_timestamp is not None:
            return label_key(pod)
        kept = self._by_labels.get(id(labels))
        if kept is not None and kept[1] == meta.namespace:
            return kept[2]
        if len(self._by_labels) >= MAX_KEPT_KEYS:
            self._by_labels.clear()
        key = label_key(pod)
        self._by_labels[id(labels)] = labels, meta.namespace, key
        return key


def label_key(pod: Pod) -> LabelKey:
    """Return the key of a pod's label class: namespace, labels, and whether the pod is terminating."""
    meta = pod.metadata
    return meta.namespace, frozenset((meta.labels or {}).items()), meta.deletion_timestamp is not None


@final
class PodCounters:
    """The pods on all nodes, grouped by equal labels and by affinity term, with the counters over both."""

    def __init__(self, columns: NodeColumns) -> None:
        self._label_keys = LabelKeys()
        self.by_labels: GroupCounters[LabelClass] = GroupCounters(columns, _label_class)
        self.by_terms: GroupCounters[TermHolders] = GroupCounters(columns, self._term_holders)
        # Label keys that terms stated by pods have read so far: other labels make no difference to these terms.
        self.label_keys_of_terms: set[str] = set()

    def clear(self) -> None:
        self.by_labels.clear()
        self.by_terms.clear()

    def add_pods(self, rows: Sequence[int], pods: Sequence[PodInfo]) -> None:
        """Add each of the pods to its row (node).

        Labels and terms of consecutive pods of one template are looked up once.
        """
        group: LabelClass | None = None
        labels: Mapping[str, str] | None = None
        namespace, known = "", self.by_labels.get
        for at, pod in enumerate(pods):
            row, meta = rows[at], pod.pod.metadata
            if (
                group is None
                or meta.labels is not labels
                or meta.namespace != namespace
                or meta.deletion_timestamp is not None
            ):
                key = self._label_keys.of(pod.pod)
                group = known(key) or self.by_labels.group(key)
                labels, namespace = meta.labels, meta.namespace
            group.rows[row] = group.rows.get(row, 0) + 1
            for counter, weight in group.counted_by.items():
                counter.add(row, weight)
            if group.is_terminating:
                group = None
            if pod.states_affinity:
                for term, count in pod.held_terms:
                    self.by_terms.add(term, row, count)

    def remove_pod(self, row: int, pod: PodInfo) -> None:
        self.by_labels.remove(self._label_keys.of(pod.pod), row)
        if pod.states_affinity:
            for term, count in pod.held_terms:
                self.by_terms.remove(term, row, count)

    def _term_holders(self, id: int, key: Hashable) -> TermHolders:
        made = TermHolders(id, key)  # type: ignore[arg-type]
        self.label_keys_of_terms.update(each.key for each in made.term.term.selector.requirements or ())
        return made


def is_counted_equally(old: PodInfo, new: PodInfo) -> bool:
    """Return True if replacing the version `old` of a pod by `new` changes no counter."""
    before, after = old.pod.metadata, new.pod.metadata
    return (
        (before.labels or {}) == (after.labels or {})
        and before.namespace == after.namespace
        and (before.deletion_timestamp is None) == (after.deletion_timestamp is None)
        and (not (old.states_affinity or new.states_affinity) or old.held_terms == new.held_terms)
    )


def _label_class(id: int, key: Hashable) -> LabelClass:
    return LabelClass(id, key)  # type: ignore[arg-type]
