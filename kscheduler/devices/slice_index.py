"""The ResourceSlices of a cluster, indexed by node and by pool, so that a node's pools are found without a scan.

An index outlives scheduling cycles: `put` and `remove` follow the watch, and everything found out about slices that
stay is kept.
"""

from __future__ import annotations

from collections import Counter as CounterOf
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Literal

from kscheduler.api.devices import Device, ResourceSlice
from kscheduler.api.labels import Operator
from kscheduler.api.objects import Node
from kscheduler.config.releases import Release
from kscheduler.devices.allocated import DeviceID
from kscheduler.devices.change_log import ChangeLog
from kscheduler.devices.device_table import DeviceTable
from kscheduler.devices.errors import AllocationError
from kscheduler.devices.features import Features
from kscheduler.devices.pools import Pool, PoolSlices, sort_pools
from kscheduler.devices.slices import NodeTarget, ParsedDevice, ParsedSlice, PoolID
from kscheduler.devices.takers import Takers
from kscheduler.errors import DecodeError

Labels = Mapping[str, str] | None  # of a node
# Where nodes look for slices: at their name (a tuple of one), at each of their labels (key, value), and here.
_Place = tuple[str, ...]
_EVERYWHERE: _Place = ()


class NodePools:
    """The pools that a node sees, in the order of allocation, and the devices that can be allocated from them."""

    __slots__ = ("_table", "by_id", "devices", "has_invalid", "pools")

    def __init__(self, pools: Sequence[Pool], *, has_table: bool) -> None:
        self.pools = pools
        self.by_id = {pool.id: pool for pool in self.pools}
        self.devices: Sequence[ParsedDevice] = [
            device for pool in self.pools if pool.is_usable for device in pool.devices
        ]
        self.has_invalid = any(pool.is_invalid for pool in self.pools)
        self._table: DeviceTable | Literal[False] | None = False if has_table else None  # False: not asked for yet

    def table(self, features: Features) -> DeviceTable | None:
        """Return the devices as columns; None if the kernel cannot search them. `features`: always the same."""
        if self._table is False:
            self._table = DeviceTable.of(self.pools, features)
        return self._table


class SliceIndex:
    """The slices of a cluster. Only `put` replaces a slice by another of its name."""

    def __init__(self, release: Release, slices: Iterable[ResourceSlice] = ()) -> None:
        self.features = Features.of(release)
        self._rules = release.devices
        self._has_partitions = self.features.partitionable_devices
        # Slices that use compatibility groups are left out, and so their pools are incomplete.
        self._hides_groups = not (release.devices.ignores_compatibility_groups or self.features.compatibility_groups)
        # The devices that take resources of their node; None if that does not count.
        self.takers = (
            Takers(mappings_only=self._rules.maps_node_resources_only) if release.counts_node_resources else None
        )
        self._by_name: dict[str, list[ParsedSlice]] = {}
        self._count = 0  # of slices that were ever added
        self._placed: dict[_Place, list[ParsedSlice]] = {}
        self._heeds_labels = False  # has there been a slice for nodes that depend on more than the name?
        self._pools: dict[PoolID, PoolSlices] = {}
        self._of_nodes: dict[str, tuple[Labels, NodePools]] = {}  # node -> its pools, and the labels it had then
        self._failed: set[str] = set()  # nodes whose pools could not be found the last time
        self._joined: dict[tuple[Pool, ...], NodePools] = {}  # what nodes with the same pools have in common
        # Pool -> nodes that could use one of its slices when their pools were found. Of a pool with a single slice that
        # names its node, this is not kept.
        self._users: dict[PoolID, set[str]] = {}
        self.node_changes: ChangeLog[str] = ChangeLog()  # names of nodes whose pools may have changed
        self._foreign: list[Pool] | None = None  # pools with counters that are at fault for nodes without their devices
        # What counters are kept under (see AvailableCounters) -> how many different ones nodes may see.
        self._different_counters: CounterOf[Hashable] = CounterOf()
        for each in slices:
            self._add(each)

    def put(self, published: ResourceSlice) -> None:
        """Add a slice, or replace the one of its name."""
        known = self._by_name.get(published.metadata.name)
        if known is not None and len(known) == 1 and known[0].published is published:
            return
        self.remove(published.metadata.name)
        self._add(published)

    def remove(self, name: str) -> None:
        """Remove a slice; nothing happens if it is not there."""
        for parsed in self._by_name.pop(name, ()):
            pool = self._pools[parsed.pool_id]
            self._forget(parsed, pool, is_new=False)
            before = pool.different_counters
            pool.remove(parsed)
            if self.takers is not None:
                self.takers.remove(parsed)
            self._count_counters(pool, before)
            if not pool.members:
                del self._pools[parsed.pool_id]
            if not self._is_hidden(parsed):
                for place in self._places(parsed):
                    self._placed[place].remove(parsed)
                    if not self._placed[place]:
                        del self._placed[place]

    def __len__(self) -> int:
        return sum(len(members) for members in self._by_name.values())

    def pools_of(self, node: Node) -> NodePools:
        """Return the pools whose slices the node can use. Raises AllocationError for malformed slices."""
        name, labels = node.metadata.name, node.metadata.labels
        known = self._of_nodes.get(name)
        if known is not None and (not self._heeds_labels or known[0] is labels or known[0] == labels):
            return known[1]
        try:
            found = self._join(tuple(sort_pools(self._gather(node))))
        except AllocationError:
            self._failed.add(name)
            raise
        self._of_nodes[name] = labels, found
        return found

    @property
    def known_nodes(self) -> int:
        """The number of nodes whose pools are kept."""
        return len(self._of_nodes)

    def forget_other_nodes(self, names: set[str]) -> None:
        """Drop what is kept for nodes that are gone. `names`: those that are there."""
        for name in self._of_nodes.keys() - names:
            del self._of_nodes[name]
        self._failed &= names
        for users in self._users.values():
            users &= names

    def devices_at(self, node: Node) -> Iterator[ParsedDevice]:
        """Yield all devices that are published for a node, whether they can be allocated or not.

        A slice that names no nodes at all, which the apiserver refuses, counts for every node, as in kube-scheduler's
        scores; nothing is allocated from it. Raises AllocationError or DecodeError for malformed slices.
        """
        for parsed in self._candidates(node):
            if not parsed.is_per_device:
                if not parsed.target.is_set or parsed.target.matches(node):
                    yield from parsed.devices
                continue
            for device in parsed.devices:
                if device.target is not None and device.target.matches(node):
                    yield device

    def find_device(self, device: DeviceID, node: Node | None = None) -> Device | None:
        """Return a device as the newest generation of its pool has it, on any node or on this one; None without one.

        Raises AllocationError or DecodeError for malformed slices.
        """
        driver, pool, name = device
        slices = self._pools.get((driver, pool))
        members = [] if slices is None else slices.members
        for parsed in sorted(members, key=lambda parsed: -parsed.generation):
            if node is not None and not parsed.is_per_device and not parsed.target.matches(node):
                continue
            for found in parsed.devices:
                if found.name == name:
                    target = found.target
                    return None if node is not None and target and not target.matches(node) else found.device
        return None

    def _join(self, pools: tuple[Pool, ...]) -> NodePools:
        """Return one object for all nodes with the same pools.

        Where nodes see different counters under one key, those of the node whose search needs them first count for all.
        The kernel does not say whether it needed them.
        """
        found = self._joined.get(pools)
        if found is None:
            has_table = not any(
                pool.uses_counters and self._different_counters[self._counters_key(pool.id)] > 1 for pool in pools
            )
            found = self._joined[pools] = NodePools(pools, has_table=has_table)
        return found

    # --- the index ------------------------------------------------------------------------------------------------

    def _add(self, published: ResourceSlice) -> None:
        self._count += 1
        parsed = ParsedSlice(published, self._count)
        self._by_name.setdefault(parsed.name, []).append(parsed)
        pool = self._pools.get(parsed.pool_id)
        if pool is None:
            pool = self._pools[parsed.pool_id] = PoolSlices(
                parsed.pool_id,
                has_partitions=self._has_partitions,
                hides_groups=self._hides_groups,
            )
        before = pool.different_counters
        pool.add(parsed)
        if self.takers is not None:
            self.takers.add(parsed)
        self._count_counters(pool, before)
        self._forget(parsed, pool, is_new=True)
        if not self._is_hidden(parsed):
            self._heeds_labels |= _is_conditional(parsed)
            for place in self._places(parsed):
                self._placed.setdefault(place, []).append(parsed)

    def _places(self, parsed: ParsedSlice) -> Collection[_Place]:
        """Return where the nodes of a slice look for it."""
        if parsed.node_name:
            return ((parsed.node_name,),)
        if parsed.has_counters and self._rules.counter_slices_concern_all_nodes:
            return (_EVERYWHERE,)
        if parsed.is_per_device and not parsed.target.is_set:
            return _narrowing_by_device(parsed)
        return _narrowing(parsed.target)

    def _is_hidden(self, parsed: ParsedSlice) -> bool:
        """Return True for a slice that needs a feature that is off; its pool counts as incomplete."""
        return parsed.uses_compatibility_groups and self._hides_groups

    def _counters_key(self, pool: PoolID) -> Hashable:
        return pool[1] if self._rules.counters_by_pool_name else pool

    def _count_counters(self, pool: PoolSlices, before: int) -> None:
        """Follow a change of a pool. `before`: its `different_counters` until then."""
        after = pool.different_counters
        if after != before:
            key = self._counters_key(pool.id)
            self._different_counters[key] += after - before
            if not self._different_counters[key]:
                del self._different_counters[key]

    def _forget(self, changed: ParsedSlice, pool: PoolSlices, *, is_new: bool) -> None:
        """Drop what is kept for the nodes that see a pool, because one of its slices is added or removed."""
        self._joined.clear()
        if self._rules.counter_slices_concern_all_nodes and (changed.has_counters or pool.with_counters):
            self._foreign = None
            self._forget_all()
            return
        # 1. Nodes that see the pool already.
        nodes = self._users.pop(pool.id, None) or set()
        nodes.update([parsed.node_name for parsed in pool.members if parsed.node_name])
        # 2. Those that may see it from now on.
        if is_new and not self._is_hidden(changed):
            places = self._places(changed)
            if _EVERYWHERE in places:
                self._forget_all()
                return
            nodes.update([place[0] for place in places if len(place) == 1])
            labels = {place for place in places if len(place) > 1}
            if labels and not self._heeds_labels:  # those that are kept may be old
                self._forget_all()
                return
            if labels:
                nodes.update(self._labelled(labels))
        # 3. Those for which there was a fault, which any slice may have caused.
        nodes |= self._failed
        self._failed.clear()
        for name in nodes:
            self._of_nodes.pop(name, None)
        self.node_changes.extend(nodes)

    def _labelled(self, wanted: Set[_Place]) -> Iterator[str]:
        """Yield the nodes with one of these labels whose pools are kept."""
        keys = {key for key, *_ in wanted}
        for name, (labels, _) in self._of_nodes.items():
            for key in keys:
                if labels and (key, labels.get(key)) in wanted:
                    yield name
                    break

    def _forget_all(self) -> None:
        self._of_nodes.clear()
        self._users.clear()
        self._failed.clear()
        self.node_changes.add_all()

    # --- gathering ------------------------------------------------------------------------------------------------

    def _gather(self, node: Node) -> Iterable[Pool]:
        relevant: dict[PoolID, list[ParsedSlice]] = {}
        for parsed in self._candidates(node):
            if self._concerns(parsed, node):
                _keep_newest(relevant, parsed)
        if self._rules.counter_slices_concern_all_nodes and self._has_partitions:
            self._add_counter_slices(relevant)
            yield from (pool for pool in self._foreign_faults() if pool.id not in relevant)
        for pool_id, members in relevant.items():
            members.sort(key=lambda parsed: (not parsed.node_name, parsed.order))
            accessible = {
                parsed: parsed.accessible_from(node)
                for parsed in members
                if parsed.is_per_device and not parsed.has_counters  # those with counter sets have no devices
            }
            slices = self._pools[pool_id]
            if len(slices.members) > 1 or not slices.members[0].node_name:
                users = self._users.get(pool_id)
                if users is None:
                    users = self._users[pool_id] = set()
                users.add(node.metadata.name)
            pool = slices.seen_by_node(tuple(members), accessible)
            if pool is not None:
                yield pool

    def _candidates(self, node: Node) -> Iterator[ParsedSlice]:
        yield from self._placed.get((node.metadata.name,), ())
        if self._heeds_labels:
            # A slice whose devices name nodes one by one may be found at several places.
            seen: set[ParsedSlice] = {*self._placed.get((node.metadata.name,), ())}
            for label in (node.metadata.labels or {}).items():
                for parsed in self._placed.get(label, ()):
                    if parsed not in seen:
                        seen.add(parsed)
                        yield parsed
        yield from self._placed.get(_EVERYWHERE, ())

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
            for parsed in self._pools[pool_id].with_counters:
                if parsed not in members:
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


def _is_conditional(parsed: ParsedSlice) -> bool:
    return parsed.is_per_device or not (parsed.node_name or parsed.target.is_all)


def _narrowing_by_device(parsed: ParsedSlice) -> Collection[_Place]:
    """Return names or labels of which a node has one if a device of the slice can be used from it."""
    try:
        targets = [device.target for device in parsed.devices]
    except AllocationError:
        return (_EVERYWHERE,)  # it is an error on each node
    places = dict.fromkeys(place for each in targets if each is not None for place in _places_of_device(each))
    return (_EVERYWHERE,) if _EVERYWHERE in places else places


def _places_of_device(target: NodeTarget) -> Collection[_Place]:
    if target.node_name:
        return ((target.node_name,),)
    return _narrowing(target) if target.is_set else ()


def _narrowing(target: NodeTarget) -> Collection[_Place]:
    """Return names or labels of which a node has one if a selector matches it."""
    try:
        affinity = target.affinity
    except DecodeError:
        return (_EVERYWHERE,)  # each node is rejected with a reason of its own
    if affinity is None or affinity.terms is None or len(affinity.terms) != 1:
        return (_EVERYWHERE,)
    if affinity.node_names is not None:
        return [(name,) for name in affinity.node_names]
    wanted = [each for each in affinity.terms[0].expressions if each.operator is Operator.IN]
    if not wanted:
        return (_EVERYWHERE,)
    fewest = min(wanted, key=lambda each: len(each.values))
    return [(fewest.key, value) for value in fewest.values]


def _for_counters(slices: PoolSlices) -> Pool | None:
    relevant: dict[PoolID, list[ParsedSlice]] = {}
    for parsed in slices.with_counters:
        _keep_newest(relevant, parsed)
    return slices.seen_by_node(tuple(relevant[slices.id])) if relevant else None


def _keep_newest(relevant: dict[PoolID, list[ParsedSlice]], parsed: ParsedSlice) -> None:
    """Add a slice to its pool; a newer generation replaces an older one."""
    known = relevant.get(parsed.pool_id)
    if known is None or parsed.generation > known[0].generation:
        relevant[parsed.pool_id] = [parsed]
    elif parsed.generation == known[0].generation:
        known.append(parsed)
