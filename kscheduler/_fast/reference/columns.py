"""Nodes and pod requests as integers, one object for each node, including the errors for bad arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from kscheduler._fast.codes import EPHEMERAL_STORAGE, MAX_AMOUNT, MAX_ENTRIES
from kscheduler._fast.reference.checks import INT32_MAX, index, within


@final
class PodRequest:
    """The request of one pod: (resource column, amount above zero) in column order. Immutable, equal by value.

    `non_zero_cpu` (milli-cores) and `non_zero_memory` (bytes) include scoring's defaults for containers without a
    request.
    """

    __slots__ = ("_amounts", "_entries", "_non_zero_cpu", "_non_zero_memory")

    def __init__(self, entries: Sequence[tuple[int, int]], non_zero_cpu: int, non_zero_memory: int) -> None:
        if len(entries) > MAX_ENTRIES:
            raise ValueError(f"entries: expected at most {MAX_ENTRIES} resources, got {len(entries)}")
        previous = -1
        for resource, amount in entries:
            within("resource", resource, 0, INT32_MAX)
            if resource <= previous:
                raise ValueError(f"entries: expected ascending resources, got {resource} after {previous}")
            within("amount", amount, 1, MAX_AMOUNT)
            previous = resource
        self._entries = tuple((resource, amount) for resource, amount in entries)
        self._amounts = dict(self._entries)  # resource column -> amount
        self._non_zero_cpu = within("non_zero_cpu", non_zero_cpu, 0, MAX_AMOUNT)
        self._non_zero_memory = within("non_zero_memory", non_zero_memory, 0, MAX_AMOUNT)

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        return self._entries

    @property
    def non_zero_cpu(self) -> int:
        return self._non_zero_cpu

    @property
    def non_zero_memory(self) -> int:
        return self._non_zero_memory

    def _key(self) -> tuple[tuple[tuple[int, int], ...], int, int]:
        return self._entries, self._non_zero_cpu, self._non_zero_memory

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, PodRequest) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"PodRequest({self._entries!r}, {self._non_zero_cpu}, {self._non_zero_memory})"


class _Row:
    """One node: what its pods request, and its allocatable resources."""

    __slots__ = (
        "alive",
        "allocatable",
        "allowed_pods",
        "node_class",
        "non_zero_cpu",
        "non_zero_memory",
        "pods",
        "requested",
    )

    def __init__(self, resources: int, *, alive: bool) -> None:
        self.alive = alive
        self.allocatable = [0] * resources  # resource column -> amount
        self.requested = [0] * resources  # resource column -> amount
        self.non_zero_cpu = 0
        self.non_zero_memory = 0
        self.pods = 0
        self.allowed_pods = 0
        self.node_class = -1


@final
class NodeColumns:
    """The resources of all nodes as integers, one row for each node. Only one thread may write.

    A new row is empty: all amounts are 0, and it has no node class (-1). Resource columns 0..2 (cpu, memory, ephemeral
    storage) always exist.
    """

    def __init__(self, capacity: int = 64) -> None:
        self._capacity = within("capacity", capacity, 1, INT32_MAX)
        self._table: list[_Row] = []
        self._resource_count = EPHEMERAL_STORAGE + 1
        self._generation = 0

    # --- shape ---

    @property
    def rows(self) -> int:
        """The number of rows, including dead ones (of deleted nodes); kernels read that many."""
        return len(self._table)

    @property
    def alive_count(self) -> int:
        return sum(node.alive for node in self._table)

    @property
    def resource_count(self) -> int:
        return self._resource_count

    @property
    def capacity(self) -> int:
        """The number of rows (nodes) for which memory is allocated; it doubles when all are used."""
        return self._capacity

    @property
    def generation(self) -> int:
        """A counter that every change increments."""
        return self._generation

    def add_resource(self) -> int:
        """Add a resource column, zero on every row (node), and return its index."""
        for node in self._table:
            node.allocatable.append(0)
            node.requested.append(0)
        self._resource_count += 1
        self._generation += 1
        return self._resource_count - 1

    def add_row(self) -> int:
        """Add a row for a new node and return it: the lowest free one, or else a new one at the end."""
        row = next((row for row, node in enumerate(self._table) if not node.alive), len(self._table))
        fresh = _Row(self._resource_count, alive=True)
        if row < len(self._table):
            self._table[row] = fresh
        else:
            while row >= self._capacity:
                self._capacity *= 2
            self._table.append(fresh)
        self._generation += 1
        return row

    def free_row(self, row: int) -> None:
        """Free the row of a node that was deleted, with everything that was counted there."""
        self._alive(row)
        self._table[row] = _Row(self._resource_count, alive=False)
        self._generation += 1

    # --- writing ---

    def set_allocatable(self, row: int, resource: int, amount: int) -> None:
        node = self._alive(row)
        index("resource", resource, self._resource_count)
        node.allocatable[resource] = within("amount", amount, -MAX_AMOUNT, MAX_AMOUNT)
        self._generation += 1

    def set_allowed_pods(self, row: int, count: int) -> None:
        self._alive(row).allowed_pods = within("count", count, -MAX_AMOUNT, MAX_AMOUNT)
        self._generation += 1

    def set_node_class(self, row: int, node_class: int) -> None:
        self._alive(row).node_class = within("node class", node_class, 0, INT32_MAX)
        self._generation += 1

    def add_pod(self, row: int, request: PodRequest) -> None:
        """Count a pod on a node, whether it fits or not.

        OverflowError, without a change, if a sum would exceed MAX_AMOUNT.
        """
        node = self._alive(row)
        self._check_resources(request)
        sums = [(f"resource {resource}", node.requested[resource], amount) for resource, amount in request.entries]
        sums.append(("non_zero_cpu", node.non_zero_cpu, request.non_zero_cpu))
        sums.append(("non_zero_memory", node.non_zero_memory, request.non_zero_memory))
        for what, before, amount in sums:
            if before + amount > MAX_AMOUNT:
                raise OverflowError(f"row {row}: {what} at {before}, {amount} more pass {MAX_AMOUNT}")
        self._count(node, request, 1)

    def remove_pod(self, row: int, request: PodRequest) -> None:
        """Subtract what add_pod counted on a node. ValueError, without a change, if the node has less than that."""
        node = self._alive(row)
        self._check_resources(request)
        left = [("pod count", node.pods, 1)]
        left += [(f"resource {resource}", node.requested[resource], amount) for resource, amount in request.entries]
        left.append(("non_zero_cpu", node.non_zero_cpu, request.non_zero_cpu))
        left.append(("non_zero_memory", node.non_zero_memory, request.non_zero_memory))
        for what, before, amount in left:
            if before < amount:
                raise ValueError(f"row {row}: {what} at {before}, {amount} cannot be taken off")
        self._count(node, request, -1)

    def _count(self, node: _Row, request: PodRequest, sign: int) -> None:
        for resource, amount in request.entries:
            node.requested[resource] += sign * amount
        node.non_zero_cpu += sign * request.non_zero_cpu
        node.non_zero_memory += sign * request.non_zero_memory
        node.pods += sign
        self._generation += 1

    # --- reading ---

    def allocatable(self, row: int, resource: int) -> int:
        return self._at(row).allocatable[index("resource", resource, self._resource_count)]

    def requested(self, row: int, resource: int) -> int:
        return self._at(row).requested[index("resource", resource, self._resource_count)]

    def non_zero_cpu(self, row: int) -> int:
        return self._at(row).non_zero_cpu

    def non_zero_memory(self, row: int) -> int:
        return self._at(row).non_zero_memory

    def pod_count(self, row: int) -> int:
        return self._at(row).pods

    def allowed_pods(self, row: int) -> int:
        return self._at(row).allowed_pods

    def node_class(self, row: int) -> int:
        return self._at(row).node_class

    def is_alive(self, row: int) -> bool:
        return self._at(row).alive

    def _at(self, row: int) -> _Row:
        return self._table[index("row", row, len(self._table))]

    def _alive(self, row: int) -> _Row:
        node = self._at(row)
        if not node.alive:
            raise ValueError(f"row {row} holds no node")
        return node

    def _check_resources(self, request: PodRequest) -> None:
        if request.entries:
            index("resource", request.entries[-1][0], self._resource_count)
