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
from kscheduler.devices.slices import ParsedDevice, ParsedSlice, PoolID
from kscheduler.errors import DecodeError


class NodePools:
    """The pools that a node sees, in the order of allocation, and the devices that can be allocated from them."""

    __slots__ = ("by_id", "devices", "has_invalid", "pools")

    def __init__(self, pools: Sequence[Pool]) -> None:
        self.pools = pools
        self.by_id = {pool.id: pool for pool in self.pools}
        self.devices: Sequence[ParsedDevice] = [
            device for pool in self.pools if pool.is_usable for device in pool.devices
        ]
        self.has_invalid = any(pool.is_invalid for pool in self.pools)


class SliceIndex:
    """The slices of a cluster. Those with one name replace each other only through `put`."""

    def __init__(self, release: Release, slices: Iterable[ResourceSlice] = ()) -> None:
        self._rules = release.devices
        self._has_partitions = release.has("DRAPartitionableDevices")
        self._by_name: dict[str, list[ParsedSlice]] = {}
        self._of_node: dict[str, list[ParsedSlice]] = {}  # node -> slices for it alone
        self._shared: list[ParsedSlice] = []  # for several nodes, or for none
        self._pools: dict[PoolID, PoolSlices] = {}
        self._of_nodes: dict[str, NodePools] = {}  # node -> its pools, where they do not depend on its labels
        self._joined: dict[tuple[Pool, ...], NodePools] = {}  # what nodes with the same pools have in common
        self._foreign: list[Pool] | None = None  # pools with counters that are at fault for nodes without their devices
        for each in slices:
            self._add(ParsedSlice(each))

    def put(self, published: ResourceSlice) -> None:
        """Add a slice, or replace the one of its name."""
        known = self._by_name.get(published.metadata.name)
        if known is not None and len(known) == 1 and known[0].published is published:
            return
        self.remove(published.metadata.name)
        self._add(ParsedSlice(published))

    def remove(self, name: str) -> None:
        """Remove a slice; nothing happens if it is not there."""
        for parsed in self._by_name.pop(name, ()):
            pool = self._pools[parsed.pool_id]
            self._forget(parsed, pool)
            pool.remove(parsed)
            if not pool.members:
                del self._pools[parsed.pool_id]
            if not self._is_hidden(parsed):
                self._place(parsed).remove(parsed)

    def __len__(self) -> int:
        return sum(len(members) for members in self._by_name.values())

    def pools_of(self, node: Node) -> NodePools:
        """Return the pools whose slices the node can use. Raises AllocationError for malformed slices."""
        name = node.metadata.name
        known = self._of_nodes.get(name)
        if known is not None:
            return known
        found = self._join(tuple(sort_pools(self._gather(node))))
        if all(parsed.target.is_all for parsed in self._shared):
            self._of_nodes[name] = found
        return found

    def _join(self, pools: tuple[Pool, ...]) -> NodePools:
        """Return one object for all nodes with the same pools."""
        found = self._joined.get(pools)
        if found is None:
            found = self._joined[pools] = NodePools(pools)
        return found

    # --- the index ------------------------------------------------------------------------------------------------

    def _add(self, parsed: ParsedSlice) -> None:
        self._by_name.setdefault(parsed.name, []).append(parsed)
        pool = self._pools.get(parsed.pool_id)
        if pool is None:
            pool = self._pools[parsed.pool_id] = PoolSlices(
                parsed.pool_id,
                has_partitions=self._has_partitions,
                hides_groups=not self._rules.ignores_compatibility_groups,
            )
        pool.add(parsed)
        self._forget(parsed, pool)
        if not self._is_hidden(parsed):
            self._place(parsed).append(parsed)

    def _place(self, parsed: ParsedSlice) -> list[ParsedSlice]:
        return self._of_node.setdefault(parsed.node_name, []) if parsed.node_name else self._shared

    def _is_hidden(self, parsed: ParsedSlice) -> bool:
        """Return True for a slice that needs a feature that is off; its pool counts as incomplete."""
        return parsed.uses_compatibility_groups and not self._rules.ignores_compatibility_groups

    def _forget(self, changed: ParsedSlice, pool: PoolSlices) -> None:
        """Forget the pools of the nodes that see a pool one of whose slices comes or goes."""
        self._joined.clear()
        if self._rules.counter_slices_concern_all_nodes and any(parsed.has_counters for parsed in pool.members):
            self._foreign = None
            self._of_nodes.clear()
        elif changed.node_name and all(parsed.node_name == changed.node_name for parsed in pool.members):
            self._of_nodes.pop(changed.node_name, None)
        else:
            self._of_nodes.clear()

    # --- gathering ------------------------------------------------------------------------------------------------

    def _gather(self, node: Node) -> Iterable[Pool]:
        relevant: dict[PoolID, list[ParsedSlice]] = {}
        for parsed in (*self._of_node.get(node.metadata.name, ()), *self._shared):
            if self._concerns(parsed, node):
                _keep_newest(relevant, parsed)
        if self._rules.counter_slices_concern_all_nodes and self._has_partitions:
            self._add_counter_slices(relevant)
            yield from (pool for pool in self._foreign_faults() if pool.id not in relevant)
        for pool_id, members in relevant.items():
            pool = self._pools[pool_id].seen_by_node(tuple(members))
            if pool is not None:
                yield pool

    def _concerns(self, parsed: ParsedSlice, node: Node) -> bool:
        spec = parsed.published.spec
        if not self._has_partitions and (spec.per_device_node_selection is not None or parsed.has_counters):
            return False
        if parsed.has_counters and self._rules.counter_slices_concern_all_nodes:
            return True
        try:
            if parsed.target.is_set:
                return parsed.target.matches(node)
            return parsed.is_per_device and any(
                device.target is not None and device.target.matches(node) for device in parsed.devices
            )
        except DecodeError as error:
            raise AllocationError(
                f"gather pool information: failed to perform node selection for slice {parsed.name}: {error}"
            ) from None

    def _add_counter_slices(self, relevant: dict[PoolID, list[ParsedSlice]]) -> None:
        """Add the slices with counters that belong to other nodes to the pools that the node uses."""
        for pool_id, members in list(relevant.items()):
            for parsed in self._pools[pool_id].members:
                if parsed.has_counters and parsed not in members:
                    _keep_newest(relevant, parsed)

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
    relevant: dict[PoolID, list[ParsedSlice]] = {}
    for parsed in slices.members:
        if parsed.has_counters:
            _keep_newest(relevant, parsed)
    return slices.seen_by_node(tuple(relevant[slices.id])) if relevant else None


def _keep_newest(relevant: dict[PoolID, list[ParsedSlice]], parsed: ParsedSlice) -> None:
    """Add a slice to its pool; a newer generation replaces an older one."""
    known = relevant.get(parsed.pool_id)
    if known is None or parsed.generation > known[0].generation:
        relevant[parsed.pool_id] = [parsed]
    elif parsed.generation == known[0].generation:
        known.append(parsed)
