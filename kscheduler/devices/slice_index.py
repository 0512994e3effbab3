"""The ResourceSlices of a cluster, indexed by node and by pool, so that a node's pools are found without a scan.

An index outlives scheduling cycles: `put` and `remove` follow the watch, and everything found out about slices that
stay is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kscheduler.api.devices import ResourceSlice
from kscheduler.api.objects import Node
from kscheduler.config.releases import Release
from kscheduler.devices.errors import AllocationError
from kscheduler.devices.pools import Pool, PoolSlices, sort_pools
from kscheduler.devices.slices import DeviceRecord, PoolID, SliceRecord
from kscheduler.errors import DecodeError

_MAX_JOINED = 20_000  # combinations of pools: one for each node with devices of its own, in a large cluster


class NodePools:
    """The pools that a node sees, in the order of allocation, and the devices that can be allocated from them."""

    __slots__ = ("by_id", "devices", "has_invalid", "pools")

    def __init__(self, pools: Sequence[Pool]) -> None:
        self.pools = pools
        self.by_id = {pool.id: pool for pool in self.pools}
        self.devices: Sequence[DeviceRecord] = [
            device for pool in self.pools if pool.is_usable for device in pool.devices
        ]
        self.has_invalid = any(pool.is_invalid for pool in self.pools)


class SliceIndex:
    """The slices of a cluster. Those with one name replace each other only through `put`."""

    def __init__(self, release: Release, slices: Iterable[ResourceSlice] = ()) -> None:
        self._rules = release.devices
        self._has_partitions = release.has("DRAPartitionableDevices")
        self._by_name: dict[str, list[SliceRecord]] = {}
        self._of_node: dict[str, list[SliceRecord]] = {}  # node -> slices for it alone
        self._shared: list[SliceRecord] = []  # for several nodes, or for none
        self._pools: dict[PoolID, PoolSlices] = {}
        self._of_nodes: dict[str, NodePools] = {}  # node -> its pools, where they do not depend on its labels
        self._joined: dict[tuple[Pool, ...], NodePools] = {}
        self._foreign: list[Pool] | None = None  # pools with counters that are at fault for nodes without their devices
        for each in slices:
            self._add(SliceRecord(each))

    def put(self, published: ResourceSlice) -> None:
        """Add a slice, or replace the one of its name."""
        known = self._by_name.get(published.metadata.name)
        if known is not None and len(known) == 1 and known[0].published is published:
            return
        self.remove(published.metadata.name)
        self._add(SliceRecord(published))

    def remove(self, name: str) -> None:
        """Remove a slice; nothing happens if it is not there."""
        for record in self._by_name.pop(name, ()):
            pool = self._pools[record.pool_id]
            self._forget(record, pool)
            pool.remove(record)
            if not pool.records:
                del self._pools[record.pool_id]
            if not self._is_hidden(record):
                self._place(record).remove(record)

    def __len__(self) -> int:
        return sum(len(records) for records in self._by_name.values())

    def pools_of(self, node: Node) -> NodePools:
        """Return the pools whose slices the node can use. Raises AllocationError for malformed slices."""
        name = node.metadata.name
        known = self._of_nodes.get(name)
        if known is not None:
            return known
        found = self._join(tuple(sort_pools(self._gather(node))))
        if all(record.target.is_all for record in self._shared):
            self._of_nodes[name] = found
        return found

    def _join(self, pools: tuple[Pool, ...]) -> NodePools:
        """Return one object for all nodes with the same pools."""
        found = self._joined.get(pools)
        if found is None:
            if len(self._joined) >= _MAX_JOINED:
                self._joined.clear()
            found = self._joined[pools] = NodePools(pools)
        return found

    # --- the index ------------------------------------------------------------------------------------------------

    def _add(self, record: SliceRecord) -> None:
        self._by_name.setdefault(record.name, []).append(record)
        pool = self._pools.get(record.pool_id)
        if pool is None:
            pool = self._pools[record.pool_id] = PoolSlices(
                record.pool_id,
                has_partitions=self._has_partitions,
                hides_groups=not self._rules.ignores_compatibility_groups,
            )
        pool.add(record)
        self._forget(record, pool)
        if not self._is_hidden(record):
            self._place(record).append(record)

    def _place(self, record: SliceRecord) -> list[SliceRecord]:
        return self._of_node.setdefault(record.node_name, []) if record.node_name else self._shared

    def _is_hidden(self, record: SliceRecord) -> bool:
        """Return True for a slice that needs a feature that is off; its pool counts as incomplete."""
        return record.uses_compatibility_groups and not self._rules.ignores_compatibility_groups

    def _forget(self, changed: SliceRecord, pool: PoolSlices) -> None:
        """Forget the pools of the nodes that see a pool one of whose slices comes or goes."""
        if self._rules.counter_slices_concern_all_nodes and any(record.has_counters for record in pool.records):
            self._foreign = None
            self._of_nodes.clear()
        elif changed.node_name and all(record.node_name == changed.node_name for record in pool.records):
            self._of_nodes.pop(changed.node_name, None)
        else:
            self._of_nodes.clear()

    # --- gathering ------------------------------------------------------------------------------------------------

    def _gather(self, node: Node) -> Iterable[Pool]:
        relevant: dict[PoolID, list[SliceRecord]] = {}
        for record in (*self._of_node.get(node.metadata.name, ()), *self._shared):
            if self._concerns(record, node):
                _keep_newest(relevant, record)
        if self._rules.counter_slices_concern_all_nodes and self._has_partitions:
            self._add_counter_slices(relevant)
            yield from (pool for pool in self._foreign_faults() if pool.id not in relevant)
        for pool_id, records in relevant.items():
            pool = self._pools[pool_id].seen_by_node(tuple(records))
            if pool is not None:
                yield pool

    def _concerns(self, record: SliceRecord, node: Node) -> bool:
        spec = record.published.spec
        if not self._has_partitions and (spec.per_device_node_selection is not None or record.has_counters):
            return False
        if record.has_counters and self._rules.counter_slices_concern_all_nodes:
            return True
        try:
            if record.target.is_set:
                return record.target.matches(node)
            return record.is_per_device and any(
                device.target is not None and device.target.matches(node) for device in record.devices
            )
        except DecodeError as error:
            raise AllocationError(
                f"gather pool information: failed to perform node selection for slice {record.name}: {error}"
            ) from None

    def _add_counter_slices(self, relevant: dict[PoolID, list[SliceRecord]]) -> None:
        """Add the slices with counters that belong to other nodes to the pools that the node uses."""
        for pool_id, records in list(relevant.items()):
            for record in self._pools[pool_id].records:
                if record.has_counters and record not in records:
                    _keep_newest(relevant, record)

    def _foreign_faults(self) -> list[Pool]:
        """Return the pools that only their counters bring to a node, if they are incomplete or invalid.

        Others have no device for the node and no influence.
        """
        if self._foreign is None:
            self._foreign = [
                pool for slices in self._pools.values() if (pool := _for_counters(slices)) and not pool.is_usable
            ]
        return self._foreign


def _for_counters(slices: PoolSlices) -> Pool | None:
    relevant: dict[PoolID, list[SliceRecord]] = {}
    for record in slices.records:
        if record.has_counters:
            _keep_newest(relevant, record)
    return slices.seen_by_node(tuple(relevant[slices.id])) if relevant else None


def _keep_newest(relevant: dict[PoolID, list[SliceRecord]], record: SliceRecord) -> None:
    """Add a slice to its pool; a newer generation replaces an older one."""
    known = relevant.get(record.pool_id)
    if known is None or record.generation > known[0].generation:
        relevant[record.pool_id] = [record]
    elif record.generation == known[0].generation:
        known.append(record)
