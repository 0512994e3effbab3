"""Resource names and their columns in the node table, and pods' requests in terms of those columns.

cpu (milli-cores), memory and ephemeral-storage (bytes) have fixed columns; every other resource gets one when a node or
a pod first names it, and keeps it.
"""

from __future__ import annotations

from kscheduler._fast import CPU, EPHEMERAL_STORAGE, MEMORY, NodeColumns, PodRequest
from kscheduler.api.resources import Resources

# Distinct request shapes are few (151 in a trace of 8,152 pods); the bound only guards against a hostile stream.
MAX_COMPILED = 65_536

# Amounts are capped here: 2^54 bytes is 16 PiB, beyond any machine, and the sum over a node's pods stays below 2^62,
# as the columns require. A pod that requests more fits nowhere, since a node's own amount is capped one below.
MAX_REQUEST = 1 << 54
MAX_ALLOCATABLE = MAX_REQUEST - 1

_Shape = tuple[int, int, int, tuple[tuple[str, int], ...], int, int]


class ResourceColumns:
    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self.names: list[str] = ["cpu", "memory", "ephemeral-storage"]  # column -> resource name
        self._column: dict[str, int] = {name: column for column, name in enumerate(self.names)}
        self._compiled: dict[_Shape, PodRequest] = {}  # request shape -> the one object that stands for it

    def column(self, name: str) -> int:
        """Return the index of a resource's column in the node table; a column is added if it has none yet."""
        found = self._column.get(name)
        if found is None:
            found = self._columns.add_resource()
            self.names.append(name)
            self._column[name] = found
        return found

    def find(self, name: str) -> int | None:
        """Return the index of a resource's column, or None if neither a node nor a pod has named it yet."""
        return self._column.get(name)

    def compile(self, resources: Resources, non_zero_cpu: int, non_zero_memory: int) -> PodRequest:
        """Return a request in the form that kernels take; equal requests return one shared object."""
        scalars = tuple(resources.scalars.items()) if resources.scalars else ()
        shape = (
            resources.cpu_milli,
            resources.memory,
            resources.ephemeral_storage,
            scalars,
            non_zero_cpu,
            non_zero_memory,
        )
        found = self._compiled.get(shape)
        if found is None:
            if len(self._compiled) >= MAX_COMPILED:
                self._compiled.clear()
            non_zero = min(non_zero_cpu, MAX_REQUEST), min(non_zero_memory, MAX_REQUEST)
            found = self._compiled[shape] = PodRequest(self.entries(resources), *non_zero)
        return found

    def entries(self, resources: Resources) -> list[tuple[int, int]]:
        """Return (column, amount) in column order, amounts above zero only, capped at MAX_REQUEST."""
        amounts = {
            CPU: resources.cpu_milli,
            MEMORY: resources.memory,
            EPHEMERAL_STORAGE: resources.ephemeral_storage,
        }
        for name, amount in resources.scalars.items():
            amounts[self.column(name)] = amount
        return sorted((column, min(amount, MAX_REQUEST)) for column, amount in amounts.items() if amount > 0)
