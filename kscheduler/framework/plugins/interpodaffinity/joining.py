"""Compiles a pod's affinity, and other pods' affinity to it, to *terms* that kernels read: counts by topology domain.

They are made once for pods with equal affinity and labels, and again when pods with new labels or affinity appear, or
nodes change.
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
    """Compiles the pod affinity of all pods of a profile to the form that kernels read (*terms*)."""

    def __init__(self, table: NodeTable, index: AffinityIndex) -> None:
        self._table = table
        self._index = index
        self._bench = JoinBench()

    def terms(
        self,
        pod: PodInfo,
        own: OwnTerms,
        incoming: Incoming,
        *,
        is_meant: bool,
        filters: bool,
        weight: int | None,
        hard_weight: int,
    ) -> Joined:
        """Return the pod's affinity in the form that kernels read.

        `is_meant`: existing pods' terms match the pod, too. `filters`, `weight`: is the plugin enabled at Filter, and
        with which weight at Score (None: not enabled).
        """
        index, may_be_first = self._index, all_mean(own.affinity, pod)

        def ask() -> JoinTerms:
            terms = JoinTerms(weight or 0, may_be_first)
            if filters:
                for counts in index.required(own):
                    terms.need(self._tally(counts))
                for counts in index.required_away(own):
                    terms.forbid(self._tally(counts))
                for counts in index.forbidding(incoming) if is_meant else ():
                    terms.forbid(self._tally(counts))
            if weight is not None:
                for preference, counts in index.preferred(own):
                    terms.prefer(self._tally(counts), preference)
                for counts in index.wanting(incoming, hard_weight) if is_meant else ():
                    terms.prefer(self._tally(counts), 1)
            return terms

        look = incoming.look if is_meant else None
        key: Hashable = ("InterPodAffinity", own, may_be_first, look, filters, weight, hard_weight)
        return Joined(self._bench, PluginTerms(key, self._table, ask))

    def _tally(self, counts: DomainCounts) -> DomainTally:
        """Return the counts summed by topology domain, over all nodes, in the form that kernels read."""

        def build(tally: DomainTally) -> None:
            mask = RowMask()
            mask.take_alive(self._table.columns)
            tally.rebuild(counts.counter.values, counts.column.ids, counts.column.size, mask)

        return counts.counter.tally(counts.topology_key, self._table.static_generation, build)
