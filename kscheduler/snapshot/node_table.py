"""The cluster as a table: a row for each node, and indexes by node class, port, volume, image, topology domain and pod.

A node keeps its row while it exists; the row is reused afterwards. Everything that scheduling reads about nodes is here
and is changed here only, so the indexes agree by construction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from kscheduler._fast import CPU, EPHEMERAL_STORAGE, MEMORY, NodeColumns, PodRequest
from kscheduler.api.node_change import NodeChange
from kscheduler.api.objects import Node, Pod
from kscheduler.api.resources import NodeAllocatable, PodResources, Resources, node_allocatable
from kscheduler.errors import InternalError
from kscheduler.snapshot.host_ports import HostPortIndex
from kscheduler.snapshot.images import ImageIndex
from kscheduler.snapshot.node_classes import NodeClasses
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.pod_labels import PodCounters
from kscheduler.snapshot.resource_columns import MAX_ALLOCATABLE, ResourceColumns
from kscheduler.snapshot.row_log import RowLog
from kscheduler.snapshot.topology import TopologyColumns
from kscheduler.snapshot.volume_users import VolumeUsers


class PodWatcher(Protocol):
    """A listener for pods that are added to nodes and removed from them.

    Must not raise: the table is half changed then.
    """

    def pod_added(self, row: int, pod: PodInfo) -> None: ...

    def pod_removed(self, row: int, pod: PodInfo) -> None: ...


MAX_REQUESTS = 1_024  # that are known by the object that states them


class NodeTable:
    def __init__(self, capacity: int = 64) -> None:
        self.columns = NodeColumns(capacity)
        self.resources = ResourceColumns(self.columns)
        self.node_classes = NodeClasses()
        self.ports = HostPortIndex()
        self.volume_users = VolumeUsers()
        self.images = ImageIndex()
        self.counters = PodCounters(self.columns)
        self._by_priority: Counter[int] = Counter()  # priority -> pods on nodes, never 0; there are few priorities
        self._ahead = 0  # how many of the pods that are added next are counted already
        self.topology = TopologyColumns(self.columns, lambda: ((info.row, info.labels) for info in self))
        # id of what a pod requests -> these resources, so that the id means no others, and the compiled request.
        self._requests: dict[int, tuple[PodResources, PodRequest]] = {}
        self._infos: list[NodeInfo | None] = []  # row -> node
        self._names: list[str] = []  # row -> name of its node; "" without one
        self.name_at: Callable[[int], str] = self._names.__getitem__  # the name of the node in a row
        self._rows: dict[str, int] = {}  # node name -> row
        self.node_names = self._rows.keys()  # as a view
        # Bumped when a node appears, leaves, or changes labels, taints or the unschedulable bit.
        self.static_generation = 0
        self.pod_watchers: list[PodWatcher] = []  # notified of each pod put on or taken off a node
        # Rows whose node appeared, left, or changed in any way that plugins can see.
        self.node_changes = RowLog()
        # Rows with a pod that got another version without another request; None until somebody reads them.
        self.pod_versions: RowLog | None = None

    # --- reading ---

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[NodeInfo]:
        return (info for info in self._infos if info is not None)

    def row_of(self, name: str) -> int | None:
        return self._rows.get(name)

    def get(self, name: str) -> NodeInfo | None:
        row = self._rows.get(name)
        return None if row is None else self._infos[row]

    def find(self, row: int) -> NodeInfo | None:
        return self._infos[row] if 0 <= row < len(self._infos) else None

    def at(self, row: int) -> NodeInfo:
        """Return the node in a row. Raises InternalError for a row without a node."""
        info = self.find(row)
        if info is None:
            raise InternalError(f"expected a node in row {row}, found none among {len(self._infos)} rows")
        return info

    def names_at(self, rows: Iterable[int]) -> list[str]:
        """Return the names of the nodes in `rows`, each of which must have a node."""
        return list(map(self.name_at, rows))

    def names(self) -> list[str]:
        """Return the names of the nodes by row, "" for a row without a node, as a list of the caller's own."""
        return list(self._names)

    def labels(self) -> list[Mapping[str, str]]:
        """Return the labels of the nodes by row, as a list of the caller's own."""
        return [{} if info is None else info.labels for info in self._infos]

    @property
    def lowest_priority(self) -> int | None:
        """The lowest priority of any pod on a node: only pods above it can preempt. None without pods."""
        return min(self._by_priority, default=None)

    def note_change(self, name: str) -> None:
        """Log a change of a node in something that plugins see but the table does not keep; ignores unknown names."""
        row = self._rows.get(name)
        if row is not None:
            self.node_changes.add(row)

    def request_of(self, pod: PodInfo) -> PodRequest:
        """Return a pod's compiled request: the resources it takes from a node, for filtering and for accounting."""
        resources = pod.resources
        known = self._requests.get(id(resources))  # which pods of one template share
        if known is not None:
            return known[1]
        if len(self._requests) >= MAX_REQUESTS:
            self._requests.clear()
        request = self.resources.compile(resources.total, resources.non_zero_cpu_milli, resources.non_zero_memory)
        self._requests[id(resources)] = resources, request
        return request

    # --- nodes ---

    def set_node(self, node: Node, change: NodeChange | None = None) -> NodeInfo:
        """Add a node, or update it. Raises DecodeError, and changes nothing, if it cannot be read.

        `change`: how the node differs from the version that is here, if the caller has computed it.
        """
        allocatable = node_allocatable(node)
        info = self.get(node.metadata.name)
        if info is None:
            return self._add(node, allocatable)
        return self._update(info, node, allocatable, change or NodeChange.between(info.node, node))

    def _add(self, node: Node, allocatable: NodeAllocatable) -> NodeInfo:
        row = self.columns.add_row()
        info = NodeInfo(self.columns, self.resources, row, node, self.node_classes.acquire(node), allocatable)
        if row == len(self._infos):
            self._infos.append(info)
            self._names.append(info.name)
        else:
            self._infos[row], self._names[row] = info, info.name
        self._rows[node.metadata.name] = row
        self.columns.set_node_class(row, info.node_class.id)
        self._write_allocatable(row, Resources(), allocatable)
        self.images.add_node(row, node.status.images or ())
        self.topology.set_row(row, info.labels)
        self.volume_users.notify(row)
        self.static_generation += 1
        self.node_changes.add(row)
        return info

    def _update(self, info: NodeInfo, node: Node, allocatable: NodeAllocatable, change: NodeChange) -> NodeInfo:
        old = info.node
        if change.is_seen_by_plugins:
            self.node_changes.add(info.row)
        if allocatable != info.allocatable:
            self._write_allocatable(info.row, info.allocatable.resources, allocatable)
            info.allocatable = allocatable
        if change.alters_class:
            node_class = self.node_classes.acquire(node)
            self.node_classes.release(info.node_class)
            info.node_class = node_class
            self.columns.set_node_class(info.row, node_class.id)
            self.topology.set_row(info.row, node.metadata.labels or {})
            self.static_generation += 1
        if change.images:
            self.images.remove_node(info.row, old.status.images or ())
            self.images.add_node(info.row, node.status.images or ())
        info.node = node
        return info

    def remove_node(self, name: str) -> list[PodInfo]:
        """Remove a node. Returns the pods that were on it, which the caller has to keep track of."""
        row = self._rows.pop(name)
        info = self.at(row)
        pods = list(info.pods.values())
        for pod in pods:
            self._remove_from_indexes(row, pod)
            self._notify_removed(row, pod)
        self.volume_users.notify(row)
        self.topology.clear_row(row)
        self.images.remove_node(row, info.node.status.images or ())
        self.node_classes.release(info.node_class)
        self.columns.free_row(row)
        self._infos[row], self._names[row] = None, ""
        self.static_generation += 1
        self.node_changes.add(row)
        return pods

    def _write_allocatable(self, row: int, old: Resources, new: NodeAllocatable) -> None:
        resources = new.resources
        amounts = {
            CPU: resources.cpu_milli,
            MEMORY: resources.memory,
            EPHEMERAL_STORAGE: resources.ephemeral_storage,
        }
        for name in old.scalars:
            amounts[self.resources.column(name)] = 0
        for name, amount in resources.scalars.items():
            amounts[self.resources.column(name)] = amount
        for column, amount in amounts.items():
            self.columns.set_allocatable(row, column, min(amount, MAX_ALLOCATABLE))
        self.columns.set_allowed_pods(row, min(new.pods, MAX_ALLOCATABLE))

    # --- pods ---

    def add_pod(self, info: NodeInfo, pod: PodInfo) -> None:
        """Add a pod to a node, even if that overcommits the node."""
        self.columns.add_pod(info.row, self.request_of(pod))
        self.add_counted_pods((info.row,), (pod,))

    def add_counted_pods(self, rows: Sequence[int], pods: Sequence[PodInfo]) -> None:
        """Add each pod to the node of its row; the columns already count it. Raises InternalError without a node."""
        self._add_to_indexes(rows, pods)
        infos = self._infos
        for at, pod in enumerate(pods):  # a zip with its check costs a single pod more than the rest of the loop
            row = rows[at]
            info = infos[row]
            if info is None:
                info = self.at(row)  # raises
            info.pods[pod.uid] = pod
        for watcher in self.pod_watchers:
            for row, pod in zip(rows, pods, strict=True):
                watcher.pod_added(row, pod)

    def count_ahead(self, row: int, pod: PodInfo) -> None:
        """Count a pod for the terms of others before it is added to the node of the row.

        The pods for which this is called must be the next ones that `add_counted_pods` adds, in this order; after a
        fault before that, `recount` drops them.
        """
        self.counters.add_pods((row,), (pod,))
        self._ahead += 1

    def remove_pod(self, info: NodeInfo, pod: PodInfo) -> None:
        self.columns.remove_pod(info.row, self.request_of(pod))
        self._remove_from_indexes(info.row, pod)
        del info.pods[pod.uid]
        if self.pod_watchers:
            self._notify_removed(info.row, pod)

    def replace_pod(self, info: NodeInfo, pod: PodInfo) -> None:
        """Put another version of a pod in its place, which counts for the same everywhere."""
        if self.pod_versions is not None and not _looks_the_same(info.pods[pod.uid].pod, pod.pod):
            self.pod_versions.add(info.row)
        info.pods[pod.uid] = pod

    def follow_pod_versions(self) -> RowLog:
        """Return a log of the rows where a pod gets another version by `replace_pod`, from the first call on."""
        if self.pod_versions is None:
            self.pod_versions = RowLog()
        return self.pod_versions

    def _add_to_indexes(self, rows: Sequence[int], pods: Sequence[PodInfo]) -> None:
        by_priority = self._by_priority
        for at, pod in enumerate(pods):
            if pod.host_ports:
                self.ports.add(rows[at], pod.host_ports)
            if pod.uses_storage:
                self.volume_users.add(rows[at], pod)
            by_priority[pod.priority] += 1
        if self._ahead:
            ahead, self._ahead = self._ahead, 0
            rows, pods = rows[ahead:], pods[ahead:]
        self.counters.add_pods(rows, pods)

    def _remove_from_indexes(self, row: int, pod: PodInfo) -> None:
        if pod.host_ports:
            self.ports.remove(row, pod.host_ports)
        if pod.uses_storage:
            self.volume_users.remove(row, pod)
        self.counters.remove_pod(row, pod)
        self._by_priority[pod.priority] -= 1
        if not self._by_priority[pod.priority]:
            del self._by_priority[pod.priority]

    def recount(self, pods_on: Mapping[str, Mapping[str, PodInfo]]) -> None:
        """Rebuild columns and indexes from the objects, after a change that failed halfway.

        `pods_on`: node name -> pod uid -> pod, for all pods on nodes. Nodes keep their rows. O(pods), some 10 us each.
        """
        # 1. The indexes, rebuilt from nothing: what others derived from them is looked up again.
        self.ports.clear()
        self.volume_users.clear()
        self.counters.clear()
        self._ahead = 0
        self._by_priority.clear()
        for info in self:
            before, pods = dict(info.pods), pods_on.get(info.name, {})
            info.pods.clear()
            info.pods.update(pods)
            # 2. The columns: only wrong rows change, so that what the kernels derived from the others stays valid.
            self._recount_row(info)
            self._add_to_indexes([info.row] * len(pods), list(pods.values()))
            self.volume_users.notify(info.row)
            # 3. The pod watchers are notified of the difference.
            for uid in before.keys() - pods.keys():
                self._notify_removed(info.row, before[uid])
            for uid in pods.keys() - before.keys():
                for watcher in self.pod_watchers:
                    watcher.pod_added(info.row, pods[uid])

    def _recount_row(self, info: NodeInfo) -> None:
        columns, row = self.columns, info.row
        requests = [self.request_of(pod) for pod in info.pods.values()]
        entries = [request.entries for request in requests]
        used = {column: columns.requested(row, column) for column in range(len(self.resources.names))}
        found = (
            columns.pod_count(row),
            columns.non_zero_cpu(row),
            columns.non_zero_memory(row),
            *(amount for _, amount in sorted(used.items())),
        )
        expected = (
            len(requests),
            sum(request.non_zero_cpu for request in requests),
            sum(request.non_zero_memory for request in requests),
            *(sum(amounts.get(column, 0) for amounts in map(dict, entries)) for column in sorted(used)),
        )
        if found == expected:
            return
        nothing = PodRequest([], 0, 0)
        for column, amount in used.items():
            if amount:
                columns.add_pod(row, nothing)
                columns.remove_pod(row, PodRequest([(column, amount)], 0, 0))
        columns.add_pod(row, nothing)
        columns.remove_pod(row, PodRequest([], columns.non_zero_cpu(row), columns.non_zero_memory(row)))
        for _ in range(columns.pod_count(row)):
            columns.remove_pod(row, nothing)
        for request in requests:
            columns.add_pod(row, request)

    def _notify_removed(self, row: int, pod: PodInfo) -> None:
        for watcher in self.pod_watchers:
            watcher.pod_removed(row, pod)


def _looks_the_same(old: Pod, new: Pod) -> bool:
    """Return whether two versions of a pod on a node are equal but for its status and what counters go by."""
    before, after = old.metadata, new.metadata
    return (
        (before.annotations or {}) == (after.annotations or {})
        and (before.owner_references or []) == (after.owner_references or [])
        and old.spec == new.spec
    )
