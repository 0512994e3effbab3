"""Pods on nodes, grouped so that a selector is matched once for a group instead of once for a pod.

A label class holds the pods of one namespace with equal labels; terminating pods are a class of their own, since
PodTopologySpread leaves them out and InterPodAffinity does not. Term holders are the pods that state an equal affinity
or anti-affinity term. Both count their pods by row. A group exists while it has pods; one that appears again is a new
group.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, final

from kscheduler.api.labels import Token
from kscheduler.api.objects import Pod
from kscheduler.api.pod_affinity import HeldTerm, namespace_token

if TYPE_CHECKING:
    from kscheduler.snapshot.pod_counters import RowCounter

# The token of groups without any other token; no label has such a key.
ANYWHERE: Token = ("*", "")

# Labels whose keys are kept at a time: a template's pods share theirs, so this is a number of templates.
MAX_KEPT_KEYS = 1_024

LabelKey = tuple[str, frozenset[tuple[str, str]], bool]  # namespace, labels, is the pod terminating?


class PodGroup:
    """A group of pods that every count of pods treats equally, with their number by row (node).

    The group is a `LabelClass`, i.e. pods with equal namespace and labels, or `TermHolders`, i.e. pods that state an
    equal affinity term.
    """

    __slots__ = ("counted_by", "found_by", "id", "key", "rows")

    def __init__(self, id: int, key: Hashable) -> None:
        self.id = id  # ascending in order of appearance, never used again
        self.key = key
        self.rows: dict[int, int] = {}  # row -> how many are there, never 0
        self.counted_by: dict[RowCounter, int] = {}  # counter -> weight of one of these pods in it, never 0
        self.found_by: Sequence[Token] = ()  # the tokens the index has it under

    def narrowings(self) -> Sequence[Sequence[Token]]:
        """Return lists of lookup tokens (labels, namespaces), by which the group is found.

        The index chooses one of the lists, and must contain the group under each token of that list.
        """
        return ()


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
