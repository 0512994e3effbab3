"""Compiles a pod's spread constraints to *terms* that kernels read: counts of pods by topology domain, kept up to date.

They are made once for pods with equal constraints, and again when pods with new labels appear or nodes change.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from kscheduler._fast import DomainTally, JoinTerms, RowMask
from kscheduler.framework.joined_terms import JoinBench, Joined, PluginTerms
from kscheduler.framework.plugins.podtopologyspread.constraints import Constraint, Constraints
from kscheduler.framework.plugins.podtopologyspread.inclusion import IncludedRows, Inclusion
from kscheduler.snapshot.node_classes import HOSTNAME
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.topology import NO_DOMAIN

_EACH_ROW = "each row"


class Joining:
    """Compiles the spread constraints of all pods of a profile to the form that kernels read (*terms*)."""

    def __init__(self, table: NodeTable, included: IncludedRows) -> None:
        self._table = table
        self._included = included
        self._bench = JoinBench()

    def terms(self, pod: PodInfo, constraints: Constraints, *, filters: bool, weight: int | None) -> Joined | None:
        """Return the pod's spread constraints in the form that kernels read; None if it has none that apply.

        `filters`: is the plugin enabled at Filter? `weight`: its weight at Score; None: not enabled there.
        """
        hard = constraints.hard if filters else ()
        soft = constraints.soft if weight is not None else ()
        if not hard and not soft:
            return None
        own = [(constraint, constraint.own(pod)) for constraint in hard]
        asking = _Asking(
            self._table, self._included, own, soft, constraints.needs_all_keys, weight or 0, Inclusion(pod.pod)
        )
        return Joined(self._bench, PluginTerms(asking.key, self._table, asking.ask))


@dataclass(slots=True, eq=False)
class _Asking:
    _table: NodeTable
    _included: IncludedRows
    _hard: list[tuple[Constraint, int]]  # (constraint, 1 if it counts the pod itself)
    _soft: tuple[Constraint, ...]
    _needs_all_keys: bool
    _weight: int
    _inclusion: Inclusion

    @property
    def key(self) -> Hashable:
        honors_taints = any(each.honors_taints for each in (*(constraint for constraint, _ in self._hard), *self._soft))
        return (
            "PodTopologySpread",
            tuple(self._hard),
            self._soft,
            self._needs_all_keys,
            self._weight,
            self._inclusion.required,
            self._inclusion.tolerations if honors_taints else (),
        )

    def ask(self) -> JoinTerms | None:
        terms = JoinTerms(self._weight)
        keys_of_hard = tuple(sorted({constraint.topology_key for constraint, _ in self._hard}))
        keys_of_soft = tuple(sorted({each.topology_key for each in self._soft})) if self._needs_all_keys else ()
        for constraint, own in self._hard:
            tally = self._tally(constraint, keys_of_hard)
            terms.keep_even(tally, constraint.max_skew, constraint.min_domains, own)
        for constraint in self._soft:
            if constraint.topology_key == HOSTNAME:
                terms.spread(self._tally_by_row(constraint), constraint.max_skew)
                continue
            # Nodes without the label are one domain, which those whose label is empty would share.
            if not self._needs_all_keys and self._column_has_empty(constraint.topology_key):
                return None
            tally = self._tally(constraint, keys_of_soft)
            terms.spread(tally, constraint.max_skew, not self._needs_all_keys)
        if keys_of_soft:
            terms.score_only(self._with_keys(keys_of_soft))
        return terms

    def _column_has_empty(self, topology_key: str) -> bool:
        return self._table.topology.column(topology_key).id_of("") != NO_DOMAIN

    def _tally(self, constraint: Constraint, keys: tuple[str, ...]) -> DomainTally:
        """Return the pods by topology domain, counted on the nodes with all `keys` that the constraint includes."""
        counter = self._table.counters.by_labels.counter(constraint.pods, constraint.pods.weigh, constraint.pods.narrow)
        inclusion = self._inclusion
        way = (
            constraint.topology_key,
            keys,
            inclusion.required if constraint.honors_affinity else None,
            inclusion.tolerations if constraint.honors_taints else None,
        )

        def build(tally: DomainTally) -> None:
            self._included.reset(list(keys))
            column = self._table.topology.column(constraint.topology_key)
            tally.rebuild(counter.values, column.ids, column.size, self._included.of(constraint, inclusion))

        return counter.tally(way, self._table.static_generation, build)

    def _tally_by_row(self, constraint: Constraint) -> DomainTally:
        """Return the pods by host: for the hostname key each node is its own domain, whatever its label's value."""
        counter = self._table.counters.by_labels.counter(constraint.pods, constraint.pods.weigh, constraint.pods.narrow)

        def build(tally: DomainTally) -> None:
            column = self._table.topology.column(HOSTNAME)
            tally.rebuild(counter.values, column.ids, column.size, self._with_keys(()), True)

        return counter.tally((HOSTNAME, _EACH_ROW), self._table.static_generation, build)

    def _with_keys(self, keys: tuple[str, ...]) -> RowMask:
        mask = RowMask()
        mask.take_alive(self._table.columns)
        for key in keys:
            mask.drop_without_domain(self._table.topology.column(key).ids)
        return mask
