"""A pod's affinity, and that of others to it, as terms of the compiled core: the table's counters by domain.

Made once for pods with the same terms and labels, and again as kinds of pods or terms appear, or nodes change.
"""

from __future__ import annotations

from collections.abc import Hashable

from kscheduler._fast import DomainTally, JoinTerms, RowMask
from kscheduler.framework.joined_terms import JoinBench, Joined, PluginTerms
from kscheduler.framework.plugins.interpodaffinity.by_table import AffinityIndex, DomainCounts, Incoming
from kscheduler.framework.plugins.interpodaffinity.own_terms import OwnTerms, all_mean
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo


class Joining:
    """The terms of all pods of a profile."""

    def __init__(self, table: NodeTable, index: AffinityIndex) -> None:
        self._table = table
        self._index = index
        self._bench = JoinBench()

    def terms(self, asked: Asked) -> Joined:
        asking = _Asking(self._table, self._index, asked)
        return Joined(self._bench, PluginTerms(asked.key, self._table, asking.ask))


class Asked:
    """The properties that decide about pods with one key."""

    __slots__ = ("filters", "hard_weight", "incoming", "is_meant", "key", "may_be_first", "own", "weight")

    def __init__(
        self,
        pod: PodInfo,
        own: OwnTerms,
        incoming: Incoming,
        *,
        is_meant: bool,
        filters: bool,
        weight: int | None,
        hard_weight: int,
    ) -> None:
        """`is_meant`: by terms of pods on nodes. `filters` and `weight` (None: no score): the plugin's points."""
        self.own = own
        self.incoming = incoming
        self.is_meant = is_meant
        self.filters = filters
        self.weight = weight
        self.hard_weight = hard_weight
        self.may_be_first = all_mean(own.affinity, pod)
        look = incoming.look if is_meant else None
        self.key: Hashable = ("InterPodAffinity", own, self.may_be_first, look, filters, weight, hard_weight)


class _Asking:
    def __init__(self, table: NodeTable, index: AffinityIndex, asked: Asked) -> None:
        self._table = table
        self._index = index
        self._asked = asked

    def ask(self) -> JoinTerms:
        asked, index = self._asked, self._index
        terms = JoinTerms(asked.weight or 0, asked.may_be_first)
        if asked.filters:
            for counts in index.required(asked.own):
                terms.need(self._tally(counts))
            for counts in index.required_away(asked.own):
                terms.forbid(self._tally(counts))
            if asked.is_meant:
                for counts in index.forbidding(asked.incoming):
                    terms.forbid(self._tally(counts))
        if asked.weight is not None:
            for weight, counts in index.preferred(asked.own):
                terms.prefer(self._tally(counts), weight)
            if asked.is_meant:
                for counts in index.wanting(asked.incoming, asked.hard_weight):
                    terms.prefer(self._tally(counts), 1)
        return terms

    def _tally(self, counts: DomainCounts) -> DomainTally:
        """Return the tally over all nodes."""

        def build(tally: DomainTally) -> None:
            mask = RowMask()
            mask.take_alive(self._table.columns)
            tally.rebuild(counts.counter.values, counts.column.ids, counts.column.size, mask)

        return counts.counter.tally(counts.topology_key, self._table.static_generation, build)
