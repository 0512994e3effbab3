"""ResourceSlices as the search reads them: parsed once for each object, with the answers of selectors for devices.

A parsed slice belongs to one ResourceSlice object as it was served. Objects are immutable, so what was found out about
its devices holds until the object is replaced, for all nodes and cycles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kscheduler.api.devices import Device, DeviceAttribute, ResourceSlice
from kscheduler.api.exact_quantity import QuantityError
from kscheduler.api.labels import RequiredNodeAffinity, compile_node_selector_term
from kscheduler.api.objects import Node, NodeSelector
from kscheduler.devices.allocated import DeviceID
from kscheduler.devices.amounts import parse_amount
from kscheduler.devices.capacity import Capacity
from kscheduler.devices.errors import AllocationError
from kscheduler.devices.selection import DeviceView
from kscheduler.devices.taints import preventing_taints
from kscheduler.errors import DecodeError

PoolID = tuple[str, str]  # driver, pool
AttributeValue = tuple[str, str | int | bool]  # type, value: equal values of different types differ
UNKNOWN_VALUE: AttributeValue = ("", "")  # of a type that is not known here

_MAX_EXPRESSIONS = 64  # of which a slice keeps the answers: more than the classes and claims for its devices use
OPTIONAL_NODE_OPERATIONS = "DRAOptionalNodeOperations"  # a feature that nodes declare

UNKNOWN, NO, YES = 0, 1, 2  # answers of a selector, of devices or of nodes

_NO_ATTRIBUTES: Mapping[str, DeviceAttribute] = {}


def skips_operations(node: Node) -> bool:
    """Return whether the node's kubelet can skip operations for devices, as a slice may ask."""
    return OPTIONAL_NODE_OPERATIONS in (node.status.declared_features or ())


class NodeTarget:
    """The nodes from which a slice or device can be used: one by name, all, those of a selector, or none."""

    __slots__ = ("_affinity", "_selector", "is_all", "node_name")

    def __init__(self, node_name: str | None, is_all: bool | None, selector: NodeSelector | None) -> None:
        self.node_name = node_name or ""
        self.is_all = bool(is_all)
        self._selector = selector
        self._affinity: RequiredNodeAffinity | None = None

    @property
    def affinity(self) -> RequiredNodeAffinity | None:
        """The selector, compiled; None if there is none. Raises DecodeError if it is malformed."""
        if self._affinity is None and self._selector is not None:
            self._affinity = _compile(self._selector)
        return self._affinity

    @property
    def is_set(self) -> bool:
        return bool(self.node_name) or self.is_all or self._selector is not None

    def matches(self, node: Node) -> bool:
        """Return whether the node is one of them. Raises DecodeError for a malformed selector."""
        if self.node_name:
            return node.metadata.name == self.node_name
        if self.is_all:
            return True
        affinity = self.affinity
        return affinity is not None and affinity.matches(node.metadata.labels or {}, node.metadata.name)

    def says(self, node: Node) -> int:
        """Return YES if the node is one of them, else NO; UNKNOWN if the selector is malformed."""
        try:
            return YES if self.matches(node) else NO
        except DecodeError:
            return UNKNOWN


def _compile(selector: NodeSelector) -> RequiredNodeAffinity:
    try:
        terms = [
            compile_node_selector_term(term, f"nodeSelectorTerms[{i}]")
            for i, term in enumerate(selector.node_selector_terms)
        ]
    except DecodeError as error:
        raise DecodeError(f"failed to parse node selector: {error}") from None
    return RequiredNodeAffinity((), tuple(terms))


class ParsedDevice:
    """A device. `consumption` is what it takes of its pool's counters: (counter set, counter, amount)."""

    __slots__ = (
        "_values",
        "allows_multiple",
        "attributes",
        "capacity",
        "consumption",
        "device",
        "has_binding_conditions",
        "has_capacity_policy",
        "id",
        "index",
        "is_plain",
        "name",
        "slice",
        "taints",
        "target",
        "uses_counters",
    )

    def __init__(self, owner: ParsedSlice, index: int, device: Device) -> None:
        self.device = device
        self.slice = owner
        self.index = index  # in the slice
        self.name = device.name
        self.id: DeviceID = (owner.driver, owner.pool_id[1], device.name)
        self.attributes = device.attributes or _NO_ATTRIBUTES
        self._values: dict[str, frozenset[AttributeValue] | None] | None = None  # by name, of those looked up as lists
        self.allows_multiple = bool(device.allow_multiple_allocations)
        self.taints = preventing_taints(device)
        self.target = (
            NodeTarget(device.node_name, device.all_nodes, device.node_selector) if owner.is_per_device else None
        )
        self.capacity = {name: Capacity.parse(each) for name, each in (device.capacity or {}).items()}
        self.consumption = tuple(
            (consumed.counter_set, name, parse_amount(counter.value))
            for consumed in device.consumes_counters or ()
            for name, counter in (consumed.counters or {}).items()
        )
        self.uses_counters = bool(device.consumes_counters)
        self.has_binding_conditions = bool(device.binding_conditions)
        # Can any request that its selectors allow get it as long as it is free, for the node that its slice names?
        self.is_plain = not (
            owner.published.spec.node_name is None
            or owner.is_per_device
            or owner.skips_operations
            or self.allows_multiple
            or self.uses_counters
            or self.taints
            or device.binds_to_node
            or device.binding_conditions is not None
            or device.binding_failure_conditions is not None
        )
        self.has_capacity_policy = False
        for capacity in self.capacity.values():
            self.has_capacity_policy |= capacity.has_policy
            if capacity.has_policy or capacity.limit < 0:
                self.is_plain = False

    def view(self) -> DeviceView:
        """Return what selectors see. It is not kept, since it grows as they read it."""
        return DeviceView(self.slice.driver, self.attributes, self.device.capacity or {}, self.allows_multiple)

    def attribute(self, name: str) -> AttributeValue | None:
        """Look up a fully qualified name (`domain/name`); the driver's domain is that of bare names."""
        found = self._find(name)
        return None if found is None else value_of(found)

    def attribute_values(self, name: str) -> frozenset[AttributeValue] | None:
        """Look up an attribute that may be a list; one with a single value is a list of that.

        No values if they are of a type that is not known here, None if the device has no such attribute.
        """
        if self._values is None:
            self._values = {}
        if name not in self._values:
            self._values[name] = self._find_values(name)
        return self._values[name]

    def _find_values(self, name: str) -> frozenset[AttributeValue] | None:
        found = self._find(name)
        return None if found is None else values_of(found)

    def _find(self, name: str) -> DeviceAttribute | None:
        found = self.attributes.get(name)
        if found is None:
            domain, slash, bare = name.partition("/")
            found = self.attributes.get(bare) if slash and domain == self.slice.driver else None
        return found


def values_of(attribute: DeviceAttribute) -> frozenset[AttributeValue]:
    """Return the values of an attribute that may be a list; none if they are of a type that is not known here."""
    for kind, values in (
        ("int", attribute.ints),
        ("bool", attribute.bools),
        ("string", attribute.strings),
        ("version", attribute.versions),
    ):
        if values:
            return frozenset((kind, value) for value in values)
    single = value_of(attribute)
    return frozenset() if single is UNKNOWN_VALUE else frozenset((single,))


def value_of(attribute: DeviceAttribute) -> AttributeValue:
    if attribute.string is not None:
        return "string", attribute.string
    if attribute.int_value is not None:
        return "int", attribute.int_value
    if attribute.bool_value is not None:
        return "bool", attribute.bool_value
    if attribute.version is not None:
        return "version", attribute.version
    return UNKNOWN_VALUE


class ParsedSlice:
    """A slice. Its devices are parsed when they are first asked for."""

    __slots__ = (
        "_answers",
        "_devices",
        "driver",
        "generation",
        "has_counters",
        "is_per_device",
        "name",
        "node_name",
        "order",
        "pool_id",
        "published",
        "skips_operations",
        "slice_count",
        "target",
        "uses_compatibility_groups",
    )

    def __init__(self, published: ResourceSlice, order: int) -> None:
        spec = published.spec
        self.order = order  # in which slices were found
        self.published = published
        self.name = published.metadata.name
        self.driver = spec.driver
        self.pool_id: PoolID = (spec.driver, spec.pool.name)
        self.generation = spec.pool.generation
        self.slice_count = spec.pool.resource_slice_count  # of the whole pool
        self.node_name = spec.node_name or ""
        self.is_per_device = bool(spec.per_device_node_selection)
        self.target = NodeTarget(spec.node_name, spec.all_nodes, spec.node_selector)
        self.has_counters = bool(spec.shared_counters)
        self.skips_operations = bool(spec.skip_node_operations)
        self.uses_compatibility_groups = any(
            consumed.compatibility_groups
            for device in spec.devices or ()
            if device.consumes_counters
            for consumed in device.consumes_counters
        )
        self._devices: tuple[ParsedDevice, ...] | None = None
        self._answers: dict[str, bytearray] = {}  # expression -> its answer for each device

    @property
    def devices(self) -> Sequence[ParsedDevice]:
        """The devices in the order of the slice. Raises AllocationError if an amount is no quantity."""
        if self._devices is None:
            self._devices = tuple(self._parse(i, device) for i, device in enumerate(self.published.spec.devices or ()))
        return self._devices

    def _parse(self, index: int, device: Device) -> ParsedDevice:
        try:
            return ParsedDevice(self, index, device)
        except QuantityError as error:
            raise AllocationError(f"ResourceSlice {self.name}, device {device.name}: {error}") from None

    def accessible_from(self, node: Node) -> bytes:
        """Return for each device, where these name nodes one by one, whether the node can use it: NO or YES.

        UNKNOWN if the device's selector of nodes is malformed. Raises AllocationError as `devices`.
        """
        return bytes(NO if device.target is None else device.target.says(node) for device in self.devices)

    def answers(self, expression: str) -> bytearray:
        """Return a selector's answer for each device: UNKNOWN, NO or YES, to be completed by the caller."""
        answers = self._answers.get(expression)
        if answers is None:
            if len(self._answers) >= _MAX_EXPRESSIONS:
                del self._answers[next(iter(self._answers))]
            answers = self._answers[expression] = bytearray(len(self.devices))
        return answers
