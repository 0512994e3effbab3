"""One node as plugins see it: the API object, its pods, and its free resources."""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler._fast import EPHEMERAL_STORAGE, NodeColumns
from kscheduler.api.objects import Node
from kscheduler.api.resources import PODS, NodeAllocatable, Resources
from kscheduler.snapshot.node_classes import NodeClass
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.resource_columns import ResourceColumns


class NodeInfo:
    """A node of the node table: its row, API object and pods. Plugins read it; only the table writes it."""

    __slots__ = ("_columns", "_resources", "allocatable", "node", "node_class", "pods", "row")

    def __init__(
        self,
        columns: NodeColumns,
        resources: ResourceColumns,
        row: int,
        node: Node,
        node_class: NodeClass,
        allocatable: NodeAllocatable,
    ) -> None:
        self._columns = columns
        self._resources = resources
        self.row = row
        self.node = node
        self.node_class = node_class
        self.allocatable = allocatable
        self.pods: dict[str, PodInfo] = {}  # pod uid -> pod assumed or bound here

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.metadata.labels or {}

    @property
    def requested(self) -> Resources:
        """The sum of the requests of all pods on this node, in the units of `Resources`."""
        amounts = {name: self.requested_of(column) for column, name in enumerate(self._resources.names)}
        scalars = {name: amount for name, amount in list(amounts.items())[EPHEMERAL_STORAGE + 1 :] if amount}
        return Resources(amounts["cpu"], amounts["memory"], amounts["ephemeral-storage"], scalars)

    @property
    def non_zero_requested(self) -> tuple[int, int]:
        """Requested (cpu milli, memory bytes), with the scoring defaults for containers that request nothing."""
        return self._columns.non_zero_cpu(self.row), self._columns.non_zero_memory(self.row)

    def requested_of(self, column: int) -> int:
        """Return the total that the pods on this node request of the resource in this column."""
        return self._columns.requested(self.row, column)

    def free(self, column: int) -> int:
        """Return allocatable minus requested of the resource in this column; negative when overcommitted."""
        return self._columns.allocatable(self.row, column) - self.requested_of(column)

    def free_of(self, resource: str) -> int:
        """Return how much of a resource is free, as `free`, or how many more pods may be here, for the name "pods"."""
        if resource == PODS:
            return self.allocatable.pods - len(self.pods)
        column = self._resources.find(resource)
        return 0 if column is None else self.free(column)

    def __repr__(self) -> str:
        return f"NodeInfo({self.name}, row {self.row}, {len(self.pods)} pods)"
