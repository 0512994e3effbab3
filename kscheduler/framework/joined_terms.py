"""The terms of pod classes: their constraints on pods in a node's topology domains (spreading, pod affinity).

Plugins state them by `ClassDraft.add_terms`. A plugin's terms apply to all pods of a class. They are computed again
when pods with new labels or new affinity terms appear, or nodes change; counters and their sums by domain are shared
between equal terms, so that this is mostly look-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol, final

from kscheduler._fast import Joiner, JoinTerms, Placer, PodClass
from kscheduler.snapshot.node_table import NodeTable

NOWHERE = -1, 0


@final
class JoinBench:
    """Holds the kernel object (`Joiner`) that evaluates terms, with its buffers, for all pod classes of a plugin."""

    def __init__(self) -> None:
        self._joiner: Joiner | None = None

    def joiner(self, placer: Placer) -> Joiner:
        if self._joiner is None or self._joiner.placer is not placer:
            self._joiner = Joiner(placer)
        return self._joiner


class TermsOfPlugin(Protocol):
    """The terms (spreading or pod affinity) of one plugin for one pod class. Equal keys mean equal terms."""

    @property
    def key(self) -> Hashable: ...

    def current(self) -> JoinTerms | None:
        """Return the terms for the table's current nodes and pods; None if the kernels cannot express them."""
        ...

    def renew(self) -> None:
        """Compute the terms again, even if nothing has changed."""
        ...


@final
class PluginTerms:
    """One plugin's terms for one pod class; `ask` computes them, or returns None if it cannot.

    They are computed again when nodes change, or when labels or affinity terms of pods appear for the first time.
    """

    __slots__ = ("_ask", "_labels", "_labels_seen", "_nodes_seen", "_table", "_terms", "_terms_seen", "key", "terms")

    def __init__(self, key: Hashable, table: NodeTable, ask: Callable[[], JoinTerms | None]) -> None:
        self.key = key
        self.terms: JoinTerms | None = None
        self._ask = ask
        self._table = table
        self._labels = table.counters.by_labels
        self._terms = table.counters.by_terms
        # The versions of the table's parts when `terms` were computed.
        self._labels_seen = self._terms_seen = self._nodes_seen = -2

    def current(self) -> JoinTerms | None:
        if (
            self._labels_seen != self._labels.last_id
            or self._terms_seen != self._terms.last_id
            or self._nodes_seen != self._table.static_generation
        ):
            self.renew()
        return self.terms

    def renew(self) -> None:
        self.terms = self._ask()
        self._labels_seen, self._terms_seen = self._labels.last_id, self._terms.last_id
        self._nodes_seen = self._table.static_generation


@final
class Joined:
    """The terms of one or several plugins for one pod class. Two are equal if the plugins' keys are equal."""

    __slots__ = ("_bench", "_hash", "_parts")

    def __init__(self, bench: JoinBench, *parts: TermsOfPlugin) -> None:
        self._bench = bench
        self._parts = parts
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Joined) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    @property
    def _key(self) -> tuple[Hashable, ...]:
        return tuple(part.key for part in self._parts)

    def beside(self, other: Joined) -> Joined:
        """Return terms that combine these with another plugin's."""
        return Joined(self._bench, *self._parts, *other._parts)

    def place(self, placer: Placer, pod_class: PodClass, random_bits: int | None) -> tuple[int, int]:
        """Choose a node: return (row, number of feasible rows). The pod is not counted there yet.

        The row is -1 if none is feasible, or if the kernels cannot decide. Ties are broken as by `Placer.place`.
        """
        joiner = self._bench.joiner(placer)
        feasible = self._join(joiner, pod_class)
        if feasible is None:  # usually a counter was dropped to save memory
            for part in self._parts:
                part.renew()
            feasible = self._join(joiner, pod_class)
        return (joiner.row(random_bits), feasible) if feasible else NOWHERE

    def _join(self, joiner: Joiner, pod_class: PodClass) -> int | None:
        terms = []
        for part in self._parts:
            current = part.current()
            if current is None:
                return None
            terms.append(current)
        return joiner.join(pod_class, terms)
