"""Terms: the constraints of pods on other pods in a node's topology domain (spreading, pod affinity), for kernels.

Plugins state the terms of a pod class (pods that all plugins of a profile decide equally) by `ClassDraft.add_terms`.
Terms are computed again when nodes change, or pods with new labels or new affinity terms appear. The counts of pods
that they read, by node and by topology domain, are shared between equal terms, so that this is mostly look-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol, final

from kscheduler._fast import Joiner, JoinTerms, Placer, PodClass
from kscheduler.snapshot.node_table import NodeTable

NOWHERE = -1, 0


@final
class JoinBench:
    """Holds the kernel object (`Joiner`) that places pods with spread constraints or pod affinity, with its buffers."""

    def __init__(self) -> None:
        self._joiner: Joiner | None = None

    def joiner(self, placer: Placer) -> Joiner:
        if self._joiner is None or self._joiner.placer is not placer:
            self._joiner = Joiner(placer)
        return self._joiner


class TermsOfPlugin(Protocol):
    """What one plugin states about a pod class: its constraints on pods in topology domains (*terms*), for kernels.

    Such constraints are topology spreading and pod affinity; a guest's scores that need normalising take the same form.
    Those with equal `key`s are equal.
    """

    @property
    def key(self) -> Hashable: ...

    def current(self) -> JoinTerms | None:
        """Return the constraints for the current nodes and pods; None if the kernels cannot express them."""
        ...

    def renew(self) -> None:
        """Compute the constraints again, even if no node or pod has changed."""
        ...


@final
class PluginTerms:
    """One plugin's constraints on pods in topology domains (*terms*) for a pod class, computed when needed.

    `ask` computes them, or returns None if it cannot. They are computed again when nodes change, or when labels or
    affinity terms of pods appear for the first time.
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
    """All constraints of a pod class on pods in topology domains, and the choice of a node by them.

    Such constraints are topology spreading and pod affinity. `parts` are those of each plugin. Two objects are equal if
    the keys of their parts are equal, i.e. if they state the same constraints.
    """

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
        """Return a new object with these constraints and those of `other`, i.e. of another plugin."""
        return Joined(self._bench, *self._parts, *other._parts)

    def place(self, placer: Placer, pod_class: PodClass, random_bits: int | None) -> tuple[int, int]:
        """Choose a node for a pod of the class: return (row of the node, number of feasible nodes).

        The pod is not counted there yet. The row is -1 if no node is feasible, or if the kernels cannot decide. Ties
        are broken as by `Placer.place`.
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
