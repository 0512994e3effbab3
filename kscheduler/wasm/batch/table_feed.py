"""Messages that bring a guest's copy of the node table up to date: the whole table first, changed nodes afterwards.

One feed serves all instances of a plugin; a `Mirror` records what one instance has been sent. Labels and similar values
are looked up when a node has changed, and stored as columns; amounts are encoded straight from the table's own columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import msgspec

from kscheduler._fast import changes_so_far, pack_alive, pack_amounts, pack_usage, rows_changed_since
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.wasm.batch.description import Description
from kscheduler.wasm.batch.indexed_column import IndexedColumn
from kscheduler.wasm.batch.metric_feed import LiveColumns, MetricFeed, NoColumns
from kscheduler.wasm.batch.pods import PodView

MOST_RESOURCES = 15  # limit of `pack_usage`
# Rows and pods of one message. A guest in Go reads as many pods in some 3 ms of the 20 that a call may take.
MOST_IN_A_MESSAGE = 2_000

Message = dict[str, Any]
_encode = msgspec.msgpack.Encoder().encode


class Mirror:
    """Records how much of the node table one instance of a guest has been sent, so that it gets only the rest."""

    __slots__ = ("gen", "known", "metrics", "nodes", "pod_versions", "stale", "usage", "version")

    def __init__(self) -> None:
        self.gen = 0  # messages so far
        self.version = -1  # version of the feed's columns; -1: nothing was sent yet
        self.nodes = 0  # changes of node objects that were sent
        self.usage = 0  # changes of amounts that were sent
        self.pod_versions = 0  # other versions of pods on nodes that were sent
        self.metrics = 0  # changes of metrics that were sent
        self.known: dict[tuple[str, str], int] = {}  # indexed column -> number of its values that were sent
        self.stale: set[int] = set()  # rows that were sent in a hypothetical state


class TableFeed:
    def __init__(self, table: NodeTable, wanted: Description, metrics: LiveColumns | None) -> None:
        self._table = table
        self._wanted = wanted
        self.metrics = MetricFeed(wanted.metrics, metrics or NoColumns())
        self._view = PodView(wanted.pod)
        self._version = 0  # grows when the columns below are built again
        self._seen = 0  # number of node changes that the columns contain
        self._names: list[str] = []  # row -> name
        self._cordoned = bytearray()
        self._indexed: dict[tuple[str, str], IndexedColumn] = {}  # (part, key) -> column
        self._readers: dict[tuple[str, str], _Reader] = _readers(wanted)
        # A guest that reads usage but not pods gets a message for every pod, so it is packed by one kernel call.
        self._is_plain = wanted.follows_pods and "pods" not in wanted.table and len(wanted.resources) <= MOST_RESOURCES
        self._packed_names = [_encode(name) for name in wanted.resources]
        # A pod's annotations and images may change without a change of amounts.
        self._pod_versions = table.follow_pod_versions() if "pods" in wanted.table else None
        self._build()

    def messages(self, mirror: Mirror) -> list[bytes]:
        """Return the messages that bring an instance's copy of the node table up to date.

        `mirror` is the record of what that instance has been sent; these messages are added to it.
        """
        if not self._wanted.has_table:
            return []
        if self._seen != self._table.node_changes.count:
            self._follow_nodes()
        nodes = None if mirror.version != self._version else self._table.node_changes.since(mirror.nodes)
        if nodes is None:
            return self._full(mirror)
        found = []
        if nodes:
            found.append(self._node_delta(mirror, nodes))
        mirror.nodes = self._table.node_changes.count
        if self._wanted.follows_pods:
            found += self._usage_delta(mirror)
        if self._wanted.metrics:
            found += self._metric_delta(mirror)
        return found

    def what_if(self, mirror: Mirror, node: NodeInfo) -> list[bytes]:
        """Return a message with a hypothetical state of one node, for an instance that already has all other changes.

        `mirror` is the record of what that instance has been sent. The next `messages` restore the node's real state.
        """
        if not self._wanted.follows_pods or self._table.find(node.row) is node:
            return []
        mirror.stale.add(node.row)
        columns: Message = {}
        if "usage" in self._wanted.table:
            cpu, memory = node.non_zero_requested
            columns["used"] = {name: _one(self._requested(node, name)) for name in self._wanted.resources}
            columns |= {"used_cpu": _one(cpu), "used_memory": _one(memory), "pods_n": _one(len(node.pods))}
        if "pods" in self._wanted.table:
            columns["pods"] = [[self._view.show_on_node(pod) for pod in node.pods.values()]]
        return [self._pack(mirror, columns, [node.row])]

    def _requested(self, node: NodeInfo, name: str) -> int:
        column = self._table.resources.find(name)
        return 0 if column is None else node.requested_of(column)

    # --- messages ---

    def _full(self, mirror: Mirror) -> list[bytes]:
        mirror.version = self._version
        mirror.nodes, mirror.usage = self._seen, changes_so_far(self._table.columns)
        mirror.metrics = self.metrics.follow(self._table.columns.rows)
        mirror.pod_versions = 0 if self._pod_versions is None else self._pod_versions.count
        mirror.known.clear()
        mirror.stale.clear()
        columns = self._node_columns(mirror, None)
        if self._wanted.metrics:
            columns["metrics"] = self.metrics.pack(None)
        parts = self._in_parts(None)
        if len(parts) == 1:
            columns |= self._usage_columns(None)
        found = [self._pack(mirror, _in_order(columns), None, full=True)]
        if len(parts) > 1:
            found += [self._pack(mirror, self._usage_columns(part), part) for part in parts]
        return found

    def _node_delta(self, mirror: Mirror, rows: list[int]) -> bytes:
        return self._pack(mirror, _in_order(self._node_columns(mirror, rows)), rows)

    def _usage_delta(self, mirror: Mirror) -> list[bytes]:
        changed = rows_changed_since(self._table.columns, mirror.usage)
        mirror.usage = changes_so_far(self._table.columns)
        if changed is not None and self._is_plain and not mirror.stale:
            return [self._pack_usage(mirror, changed)] if changed else []
        rows = None if changed is None else _union(changed, mirror.stale)
        mirror.stale.clear()
        if self._pod_versions is not None:
            versions = self._pod_versions.since(mirror.pod_versions)
            mirror.pod_versions = self._pod_versions.count
            rows = None if rows is None or versions is None else sorted({*rows, *versions})
        if rows == []:
            return []
        return [self._pack(mirror, self._usage_columns(part), part) for part in self._in_parts(rows)]

    def _in_parts(self, rows: Sequence[int] | None) -> Sequence[Sequence[int] | None]:
        """Divide rows (None: all) so that no message has more pods than one call can read, unless one node has."""
        if "pods" not in self._wanted.table:
            return [rows]
        parts: list[list[int]] = [[]]
        size = 0  # of the last part
        for row in range(self._table.columns.rows) if rows is None else rows:
            info = self._table.find(row)
            more = 1 if info is None else 1 + len(info.pods)
            if size + more > MOST_IN_A_MESSAGE and parts[-1]:
                parts.append([])
                size = 0
            parts[-1].append(row)
            size += more
        return [rows] if len(parts) == 1 else parts

    def _metric_delta(self, mirror: Mirror) -> list[bytes]:
        changes = self.metrics.follow(self._table.columns.rows)
        if changes == mirror.metrics:
            return []
        rows = self.metrics.changes.since(mirror.metrics)
        if rows is not None and 2 * len(rows) > self._table.columns.rows:
            rows = None
        mirror.metrics = changes
        return [self._pack(mirror, {"metrics": self.metrics.pack(rows)}, rows)]

    def _pack_usage(self, mirror: Mirror, rows: bytes) -> bytes:
        """Return a message with only the usage columns of these packed rows (nodes).

        It is byte for byte as `_pack` encodes it.
        """
        mirror.gen += 1
        find = self._table.resources.find
        columns = [-1 if (column := find(name)) is None else column for name in self._wanted.resources]
        return pack_usage(self._table.columns, mirror.gen, rows, list(zip(self._packed_names, columns, strict=True)))

    def _pack(self, mirror: Mirror, columns: Message, rows: Sequence[int] | None, *, full: bool = False) -> bytes:
        mirror.gen += 1
        message: Message = {"gen": mirror.gen}
        if full:
            message["full"] = True
        message["rows"] = self._table.columns.rows
        if rows is not None:
            message["at"] = array("i", rows).tobytes()
        message.update(columns)
        return _encode(message)

    # --- columns ---

    def _node_columns(self, mirror: Mirror, rows: Sequence[int] | None) -> Message:
        wanted, table = self._wanted, self._table
        packed = None if rows is None else array("i", rows).tobytes()
        columns: Message = {"alive": pack_alive(table.columns, packed)}
        if "names" in wanted.table:
            columns["names"] = self._names if rows is None else [self._names[row] for row in rows]
        if "unschedulable" in wanted.table:
            columns["cordoned"] = bytes(self._cordoned if rows is None else [self._cordoned[row] for row in rows])
        if "allocatable" in wanted.table:
            columns["alloc"] = {name: self._amounts("allocatable", name, packed) for name in wanted.resources}
            columns["max_pods"] = pack_amounts(table.columns, "allowed_pods", 0, packed)
        for (part, key), column in self._indexed.items():
            written = column.write(mirror.known.get((part, key), 0), rows)
            mirror.known[part, key] = len(column.values)
            if key:
                columns.setdefault(part, {})[key] = written
            else:
                columns[part] = written
        return columns

    def _usage_columns(self, rows: Sequence[int] | None) -> Message:
        wanted, table = self._wanted, self._table
        packed = None if rows is None else array("i", rows).tobytes()
        columns: Message = {}
        if "usage" in wanted.table:
            columns["used"] = {name: self._amounts("requested", name, packed) for name in wanted.resources}
            columns["used_cpu"] = pack_amounts(table.columns, "non_zero_cpu", 0, packed)
            columns["used_memory"] = pack_amounts(table.columns, "non_zero_memory", 0, packed)
            columns["pods_n"] = pack_amounts(table.columns, "pods", 0, packed)
        if "pods" in wanted.table:
            columns["pods"] = [self._pods_on(row) for row in (range(table.columns.rows) if rows is None else rows)]
        return columns

    def _amounts(self, what: str, name: str, rows: bytes | None) -> bytes:
        column = self._table.resources.find(name)
        if column is None:
            return bytes(8 * self._table.columns.rows if rows is None else 2 * len(rows))
        return pack_amounts(self._table.columns, what, column, rows)

    def _pods_on(self, row: int) -> list[Message]:
        info = self._table.find(row)
        return [] if info is None else [self._view.show_on_node(pod) for pod in info.pods.values()]

    # --- following node objects ---

    def _follow_nodes(self) -> None:
        rows = self._table.node_changes.since(self._seen)
        if rows is None or any(column.is_overgrown for column in self._indexed.values()):
            self._build()
        else:
            for row in rows:
                self._read(row)
            self._seen = self._table.node_changes.count

    def _build(self) -> None:
        """Build all columns from scratch, so that every instance is sent the whole table next."""
        self._version += 1
        self._names, self._cordoned = [], bytearray()
        self._indexed = {place: IndexedColumn() for place in self._readers}
        for row in range(self._table.columns.rows):
            self._read(row)
        self._seen = self._table.node_changes.count

    def _read(self, row: int) -> None:
        info = self._table.find(row)
        while len(self._names) <= row:
            self._names.append("")
            self._cordoned.append(0)
        self._names[row] = "" if info is None else info.name
        self._cordoned[row] = info is not None and info.node.spec.unschedulable
        for place, column in self._indexed.items():
            key, value = (None, None) if info is None else self._readers[place](info)
            column.set(row, key, value)


# Reads a node's entry of an indexed column: (hashable key of the value, value); the key is None if there is no value.
_Reader = Callable[[NodeInfo], tuple[Hashable | None, Any]]


def _readers(wanted: Description) -> dict[tuple[str, str], _Reader]:
    """Return the function that reads a node's value, for each column of repeated values that the guest wants.

    The columns are identified by (part, key), in the order of plugins/abi/README.md.
    """
    readers: dict[tuple[str, str], _Reader] = {}
    for key in wanted.labels:
        readers["labels", key] = lambda info, key=key: _text_of(info.labels, key)  # type: ignore[misc]
    for key in wanted.annotations:
        readers["annotations", key] = lambda info, key=key: _text_of(info.node.metadata.annotations, key)  # type: ignore[misc]
    if "taints" in wanted.table:
        readers["taints", ""] = _taints_of
    if "images" in wanted.table:
        readers["images", ""] = _images_of
    return readers


def _text_of(values: Mapping[str, str] | None, key: str) -> tuple[str | None, str | None]:
    found = (values or {}).get(key)
    return found, found


def _taints_of(info: NodeInfo) -> tuple[Hashable | None, Any]:
    taints = info.node.spec.taints
    return (tuple(taints), [[t.key, t.value, t.effect] for t in taints]) if taints else (None, None)


def _images_of(info: NodeInfo) -> tuple[Hashable | None, Any]:
    found = [[name, image.size_bytes] for image in info.node.status.images or () for name in image.names or ()]
    return (tuple(map(tuple, found)), found) if found else (None, None)


# The order of columns in plugins/abi/README.md, where the usage columns are in the middle.
_ORDER = (
    "alive", "names", "cordoned", "alloc", "max_pods", "used", "used_cpu", "used_memory", "pods_n", "labels",
    "annotations", "taints", "images", "pods", "metrics",
)  # fmt: skip


def _in_order(columns: Message) -> Message:
    return {key: columns[key] for key in _ORDER if key in columns}


def _one(amount: int) -> bytes:
    return array("q", [amount]).tobytes()


def _union(packed: bytes, more: set[int]) -> list[int]:
    rows: array[int] = array("i")
    rows.frombytes(packed)
    return sorted(more.union(rows)) if more else list(rows)
