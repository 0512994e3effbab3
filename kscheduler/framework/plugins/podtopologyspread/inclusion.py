"""The nodes that a spread constraint counts: its pod's node affinity and tolerations may exclude some.

Determined once for each node class, i.e. for nodes with equal labels and taints. A node affinity that reads hostnames
or node names is matched with each node, and the results are kept until a node appears, leaves or changes.
"""

from __future__ import annotations

from collections import OrderedDict

from kscheduler._fast import RowMask
from kscheduler.api.labels import RequiredNodeAffinity, compile_required_node_affinity
from kscheduler.api.objects import Pod, Toleration
from kscheduler.errors import DecodeError
from kscheduler.framework.plugins.podtopologyspread.constraints import Constraint
from kscheduler.snapshot.node_classes import HOSTNAME
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable

NOWHERE = RequiredNodeAffinity((), ())  # an affinity that cannot be read matches no node, as in kube-scheduler
MAX_KEPT = 64  # answers about each node

_Policies = tuple[bool, bool]  # honours the node affinity, honours the taints


class Inclusion:
    """One pod's node affinity and tolerations, by which its spread constraints include nodes."""

    __slots__ = ("required", "tolerations")

    def __init__(self, pod: Pod) -> None:
        self.required = _required_of(pod)
        self.tolerations = tuple(pod.spec.tolerations or ())

    def includes(self, constraint: Constraint, node: NodeInfo) -> bool:
        required = self.required if constraint.honors_affinity else None
        if required is not None and not required.matches(node.labels, node.name):
            return False
        return not (constraint.honors_taints and node.node_class.keeps_off(self.tolerations))


class IncludedRows:
    """The rows (nodes) that a pod's constraints count: a mask for each combination of node inclusion policies."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._by_affinity = table.node_classes.verdict_memo()
        self._by_taints = table.node_classes.verdict_memo()
        self._by_row: OrderedDict[RequiredNodeAffinity, bytearray] = OrderedDict()  # affinity -> row -> is it refused?
        self._generation = table.static_generation  # of `_by_row`
        self.all = RowMask()
        self._masks: dict[_Policies, RowMask] = {}
        self._fresh: set[_Policies] = set()  # masks that were computed for the current pod

    def reset(self, keys: list[str]) -> None:
        """Begin with another pod: set `all` to the nodes that have all of these topology keys."""
        self._fresh.clear()
        self.all.take_alive(self._table.columns)
        for key in keys:
            self.all.drop_without_domain(self._table.topology.column(key).ids)

    def of(self, constraint: Constraint, inclusion: Inclusion) -> RowMask:
        """Return the rows (nodes) on which the pod's constraint counts pods; valid until the next `reset`."""
        policies = (constraint.honors_affinity and inclusion.required is not None, constraint.honors_taints)
        if policies == (False, False):
            return self.all
        mask = self._masks.get(policies)
        if mask is None:
            mask = self._masks[policies] = RowMask()
        if policies not in self._fresh:
            self._fresh.add(policies)
            mask.take(self.all)
            if policies[0] and inclusion.required is not None:
                self._drop_by_affinity(mask, inclusion.required)
            if policies[1]:
                self._drop_by_taints(mask, inclusion.tolerations)
        return mask

    def _drop_by_affinity(self, mask: RowMask, required: RequiredNodeAffinity) -> None:
        if required.reads_node_name or HOSTNAME in required.label_keys:
            mask.drop_rows(self._refused_rows(required))
        else:
            answers = self._by_affinity.answers(
                required, lambda node_class: int(not required.matches(node_class.labels, ""))
            )
            mask.drop_node_classes(self._table.columns, answers)

    def _drop_by_taints(self, mask: RowMask, tolerations: tuple[Toleration, ...]) -> None:
        answers = self._by_taints.answers(tolerations, lambda node_class: int(node_class.keeps_off(tolerations)))
        mask.drop_node_classes(self._table.columns, answers)

    def _refused_rows(self, required: RequiredNodeAffinity) -> bytearray:
        if self._generation != self._table.static_generation:
            self._by_row.clear()
            self._generation = self._table.static_generation
        found = self._by_row.get(required)
        if found is None:
            if len(self._by_row) >= MAX_KEPT:
                self._by_row.popitem(last=False)
            found = self._by_row[required] = bytearray(self._table.columns.rows)
            for node in self._table:
                found[node.row] = not required.matches(node.labels, node.name)
        else:
            self._by_row.move_to_end(required)
        return found


def _required_of(pod: Pod) -> RequiredNodeAffinity | None:
    try:
        return compile_required_node_affinity(pod)
    except DecodeError:
        return NOWHERE
