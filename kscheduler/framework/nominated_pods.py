"""The nominated pods in the form that kernels read, kept from one scheduling cycle to the next."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kscheduler._fast import PodRequest, RowNominated
from kscheduler.framework.demands import Demands
from kscheduler.framework.interface import DemandingFilterPlugin
from kscheduler.framework.nominations import Nominations
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable


class NominatedPods:
    """The nominated pods of each node, for kernels. Only nodes whose nominations have changed are read again."""

    def __init__(self, table: NodeTable, nominations: Nominations) -> None:
        self._table = table
        self._nominations = nominations
        self._changed = set(nominations.nodes())  # names
        self._generation = table.static_generation  # when the nodes were last compared
        self._nodes: dict[str, NodeInfo] = {}  # node name -> the node for which `_nominated` was made
        self._nominated: dict[str, RowNominated] = {}  # node name -> the pods that are nominated to it
        nominations.watch(self._changed.add)

    def now(self) -> Collection[RowNominated]:
        """Return the nominated pods, one entry for each existing node to which pods are nominated."""
        if self._generation != self._table.static_generation:
            self._compare_nodes()
        if self._changed:
            for name in self._changed:
                self._read_again(name)
            self._changed.clear()
        return self._nominated.values()

    def _compare_nodes(self) -> None:
        """Mark as changed the nodes that appeared, left, or were replaced by a node with an equal name or row."""
        self._generation = self._table.static_generation
        known, get = self._nodes, self._table.get
        self._changed.update(name for name in self._nominations.nodes() if get(name) is not known.get(name))
        self._changed.update(name for name, node in known.items() if get(name) is not node)

    def _read_again(self, name: str) -> None:
        node, pods = self._table.get(name), self._nominations.on(name)
        if node is None or not pods:
            self._nodes.pop(name, None)
            self._nominated.pop(name, None)
            return
        request_of = self._table.request_of
        self._nodes[name] = node
        self._nominated[name] = RowNominated(
            node.row, node.pods, [(pod.uid, pod.priority, request_of(pod)) for pod in pods]
        )


def filter_of_requests(
    demands_of: Sequence[tuple[DemandingFilterPlugin, Demands]],
) -> Sequence[tuple[DemandingFilterPlugin, PodRequest]] | None:
    """Return the filter that nominated pods affect by taking room, with the pod's request: [] or one entry.

    `demands_of`: the active filters with their requirements. None if nominated pods may affect filters in other ways.
    """
    if any(demands.needs or demands.limits for _, demands in demands_of):
        return None
    found = [(plugin, demands.request) for plugin, demands in demands_of if demands.request is not None]
    return found if len(found) <= 1 else None
