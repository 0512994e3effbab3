"""Whether a volume can be provisioned for a claim so that a node can access it: by topologies, and by free capacity.

Capacity is considered only for drivers that publish CSIStorageCapacity objects. They may publish one for each node, so
the objects are indexed by the labels that their selectors require.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from kscheduler.api.labels import (
    CompiledLabelSelector,
    NodeTerm,
    Token,
    compile_label_selector,
    compile_node_selector_term,
)
from kscheduler.api.objects import NodeSelectorTerm, SelectorRequirement
from kscheduler.api.quantity import milli_to_units, parse_units
from kscheduler.api.storage import (
    NO_PROVISIONER,
    STORAGE,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
    class_of,
)
from kscheduler.errors import DecodeError
from kscheduler.framework.plugins.volumebinding.accessible_nodes import Labels
from kscheduler.framework.plugins.volumebinding.matching import requested_milli
from kscheduler.framework.plugins.volumebinding.obstacles import BIND_CONFLICT, NOT_ENOUGH_SPACE
from kscheduler.snapshot.node_classes import HOSTNAME
from kscheduler.snapshot.volumes import Volumes

_MAX_KEPT = 1_000  # classes remembered


@dataclass(frozen=True, slots=True)
class Offer:
    """The nodes for which one claim's volume can be provisioned. Equal `key`s mean equal answers for every node."""

    claim: PersistentVolumeClaim
    is_made: bool  # does the StorageClass provision volumes at all?
    topologies: tuple[NodeTerm, ...] | None  # the node must match one of them; None: any node will do
    capacities: Capacities | None  # None: capacity is not considered
    size: int  # bytes

    @property
    def key(self) -> Hashable:
        return self.is_made, self.topologies, self.capacities and self.capacities.version, self.size

    @property
    def reads_hostname(self) -> bool:
        if self.capacities is not None and self.capacities.reads_hostname:
            return True
        return any(HOSTNAME in term.label_keys for term in self.topologies or ())

    def obstacle(self, labels: Labels) -> int:
        """Return a reason flag if no volume can be provisioned for a node with these labels; 0 if one can."""
        if not self.is_made:
            return BIND_CONFLICT
        if self.topologies is not None and not any(term.matches(labels, "") for term in self.topologies):
            return BIND_CONFLICT
        if self.capacities is not None and self.capacities.find(self.size, labels) is None:
            return NOT_ENOUGH_SPACE
        return 0

    def capacity(self, labels: Labels) -> int | None:
        """Return the free capacity, in bytes, from which a node with these labels would get the volume.

        None if it is not known.
        """
        room = None if self.capacities is None else self.capacities.find(self.size, labels)
        return None if room is None else room.capacity


class Offers:
    """Makes the Offer of each claim, and keeps what the claims of a StorageClass share: topologies and capacities."""

    def __init__(self, volumes: Volumes) -> None:
        self._volumes = volumes
        self._topologies: dict[str, tuple[StorageClass, tuple[NodeTerm, ...] | None]] = {}  # class -> as compiled
        self._capacities: dict[str, Capacities] = {}  # class -> its capacities, indexed
        self._versions = itertools.count()

    def for_claim(self, claim: PersistentVolumeClaim) -> Offer:
        """Return where a claim's volume can be provisioned. Raises DecodeError if its request cannot be read."""
        storage_class = self._volumes.storage_class(class_of(claim))
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return Offer(claim, False, None, None, 0)
        size = milli_to_units(requested_milli(claim))
        capacities = self._capacities_for(claim, storage_class)
        return Offer(claim, True, self._topologies_of(storage_class), capacities, 0 if capacities is None else size)

    def _topologies_of(self, storage_class: StorageClass) -> tuple[NodeTerm, ...] | None:
        known = self._topologies.get(storage_class.key)
        if known is None or known[0] is not storage_class:
            if len(self._topologies) >= _MAX_KEPT:
                self._topologies.clear()
            allowed = storage_class.allowed_topologies
            known = storage_class, tuple(_term(term) for term in allowed) if allowed else None
            self._topologies[storage_class.key] = known
        return known[1]

    def _capacities_for(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Capacities | None:
        """Return the capacities to consider; None unless the driver publishes some and the claim states its size."""
        requests = claim.spec.resources.requests if claim.spec.resources else None
        driver = self._volumes.csi_driver(storage_class.provisioner)
        if STORAGE not in (requests or {}) or driver is None or not driver.spec.storage_capacity:
            return None
        name = storage_class.key
        published = list(self._volumes.capacities_of(name))
        known = self._capacities.get(name)
        if known is None or not known.catch_up(published, self._versions):
            if len(self._capacities) >= _MAX_KEPT:
                self._capacities.clear()
            known = self._capacities[name] = Capacities(published, self._versions)
        return known


@dataclass(slots=True)
class Room:
    """One published capacity: room for volumes of a StorageClass that some nodes can access."""

    limit: int  # size in bytes of the largest volume that can be provisioned there
    capacity: int | None  # all that is free, in bytes; None if it is not stated, or cannot be read
    selector: CompiledLabelSelector  # selects the nodes that can access such a volume

    def is_enough(self, size: int, labels: Labels) -> bool:
        return self.limit >= size and self.selector.matches(labels)


class Capacities:
    """The published free capacity of one StorageClass, found by a label that a node must have to access it."""

    def __init__(self, published: list[CSIStorageCapacity], versions: Iterator[int]) -> None:
        self._published = published
        self.version = next(versions)  # differs for every other list
        self._rooms = [_room(capacity) for capacity in published]  # None: no node has access
        self._by_label: dict[Token, list[Room]] = {}
        self._others: list[Room] = []  # those whose selector requires no label by value
        self.reads_hostname = False
        for room in self._rooms:
            if room is not None:
                self._add(room)
        self._keys = sorted({key for key, _ in self._by_label})

    def catch_up(self, published: list[CSIStorageCapacity], versions: Iterator[int]) -> bool:
        """Take over the current amounts. Returns False, having done nothing, if objects or their topologies changed.

        Each volume that is provisioned changes the amount of one of perhaps thousands of objects.
        """
        if len(published) != len(self._published):
            return False
        pairs = enumerate(zip(self._published, published, strict=True))
        changed = [position for position, (old, new) in pairs if old is not new]
        for position in changed:
            old, new = self._published[position], published[position]
            if old.key != new.key or old.node_topology != new.node_topology:
                return False
        for position in changed:
            room = self._rooms[position]
            if room is not None:
                room.limit, room.capacity = _readable_limit(published[position]), _readable(published[position])
        if changed:
            self._published = published
            self.version = next(versions)
        return True

    def find(self, size: int, labels: Labels) -> Room | None:
        """Return a capacity that is enough for a volume and that a node with these labels can access; None if none is.

        Of several, kube-scheduler takes any.
        """
        for key in self._keys:
            value = labels.get(key)
            if value is not None:
                for room in self._by_label.get((key, value), ()):
                    if room.is_enough(size, labels):
                        return room
        for room in self._others:
            if room.is_enough(size, labels):
                return room
        return None

    def _add(self, room: Room) -> None:
        if HOSTNAME in room.selector.label_keys:
            self.reads_hostname = True
        narrowings = room.selector.narrowings()
        if not narrowings:
            self._others.append(room)
            return
        for token in min(narrowings, key=len):
            self._by_label.setdefault(token, []).append(room)


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """Return the largest volume that can be provisioned, in bytes; None if none is stated. Raises DecodeError."""
    if capacity.maximum_volume_size is not None:
        return parse_units(capacity.maximum_volume_size, f"capacity {capacity.key}: maximumVolumeSize")
    if capacity.capacity is not None:
        return parse_units(capacity.capacity, f"capacity {capacity.key}: capacity")
    return None


def _room(capacity: CSIStorageCapacity) -> Room | None:
    if capacity.node_topology is None:
        return None
    try:
        selector = compile_label_selector(capacity.node_topology, f"capacity {capacity.key}: nodeTopology")
    except DecodeError:
        return None
    return Room(_readable_limit(capacity), _readable(capacity), selector)


def _readable_limit(capacity: CSIStorageCapacity) -> int:
    """Return the limit in bytes; -1, too little for any volume, if it is not stated or cannot be read."""
    try:
        limit = volume_limit(capacity)
    except DecodeError:
        limit = None
    return -1 if limit is None else limit


def _readable(capacity: CSIStorageCapacity) -> int | None:
    """Return the free capacity in bytes; None if it is not stated or cannot be read."""
    if capacity.capacity is None:
        return None
    try:
        return parse_units(capacity.capacity, f"capacity {capacity.key}: capacity")
    except DecodeError:
        return None


def _term(term: TopologySelectorTerm) -> NodeTerm:
    """Compile a topology term; an empty or malformed one matches no node."""
    needs = [SelectorRequirement(need.key, "In", need.values) for need in term.match_label_expressions or ()]
    try:
        return compile_node_selector_term(NodeSelectorTerm(match_expressions=needs), "allowedTopologies")
    except DecodeError:
        return NodeTerm()
