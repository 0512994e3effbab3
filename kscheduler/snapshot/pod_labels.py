"""Pods on nodes, grouped so that a question about pods is asked once for a group, not once for a pod.

A label class holds the pods of one namespace with the same labels; terminating pods are a class of their own, since
topology spread leaves them out and pod affinity does not. Term holders are the pods that state one (anti-)affinity
term. Both say how many of them are on which row. A group lives while it has pods; one that comes again is new.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, final

from kscheduler.api.labels import Token
from kscheduler.api.objects import Pod
from kscheduler.api.pod_affinity import HeldTerm, namespace_token

if TYPE_CHECKING:
    from kscheduler.snapshot.pod_counters import RowCounter

# Where a group is found that nothing else would find; no label has such a key.
ANYWHERE: Token = ("*", "")

LabelKey = tuple[str, frozenset[tuple[str, str]], bool]  # namespace, labels, is the pod terminating?


class PodGroup:
    """Pods that a question cannot tell apart."""

    __slots__ = ("counted_by", "found_by", "id", "key", "rows")

    def __init__(self, id: int, key: Hashable) -> None:
        self.id = id  # ascending in order of appearance, never used again
        self.key = key
        self.rows: dict[int, int] = {}  # row -> how many are there, never 0
        self.counted_by: dict[RowCounter, int] = {}  # counter -> what it counts one of these as, never 0
        self.found_by: Sequence[Token] = ()  # where the index has it

    def narrowings(self) -> Sequence[Sequence[Token]]:
        """Lists of tokens; the group can be found by all tokens of any one list."""
        return ()


@final
class LabelClass(PodGroup):
    """The pods of a namespace that carry the same labels."""

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
    """The pods that state one affinity term; a pod that states it twice counts twice."""

    __slots__ = ("term",)

    def __init__(self, id: int, key: HeldTerm) -> None:
        super().__init__(id, key)
        self.term = key

    def narrowings(self) -> Sequence[Sequence[Token]]:
        return self.term.term.narrowings()

    def __repr__(self) -> str:
        return f"TermHolders({self.term!r}, {sum(self.rows.values())} pods)"


def pod_tokens(namespace: str, labels: Mapping[str, str]) -> list[Token]:
    """What a pod can be found by, and by what it finds the terms that mean it."""
    return [namespace_token(namespace), *labels.items(), ANYWHERE]


def label_key(pod: Pod) -> LabelKey:
    """What decides the label class of a pod."""
    meta = pod.metadata
    return meta.namespace, frozenset((meta.labels or {}).items()), meta.deletion_timestamp is not None
