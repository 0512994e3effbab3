"""The requests of claims, prepared once for all nodes: what is wanted, of which class, and how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kscheduler.api.devices import (
    ALL,
    EXACT_COUNT,
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from kscheduler.api.exact_quantity import Quantity, QuantityError
from kscheduler.devices.errors import AllocationError
from kscheduler.devices.features import Features

_NONE_DERIVED: Mapping[str, str] = {}


def show_claim(claim: ResourceClaim) -> str:
    """Return the claim's name in messages: `namespace/name`."""
    return claim.key if claim.metadata.namespace else claim.metadata.name


@dataclass(frozen=True, slots=True)
class PlacedSelector:
    """A CEL expression and where it stands: `claim ns/c: selector #0`, or `class c: selector #0`."""

    expression: str
    place: str


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A request, or one of the alternatives of a request; what the search tries to satisfy."""

    claim: str  # for messages
    name: str
    request: str  # the name of the request itself, which constraints go by
    alternative: str  # the same as `name` for an alternative, else ""
    device_class: DeviceClass
    selectors: tuple[PlacedSelector, ...]  # those of the class come first
    count: int  # 0 if all are wanted
    wants_all: bool
    has_admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    given_tolerations: list[DeviceToleration] | None  # as the claim has them
    capacity: Mapping[str, Quantity] | None  # requested amounts
    derived: Mapping[str, str]  # name of an attribute of devices -> the expression that computes it

    @property
    def full_name(self) -> str:
        """The name in results: `request`, or `request/alternative`."""
        return f"{self.request}/{self.alternative}" if self.alternative else self.request

    @property
    def place(self) -> str:
        return f"claim {self.claim}, request {self.name}"


class Requests:
    """Prepares requests against the classes of one cycle."""

    def __init__(self, features: Features, classes: Mapping[str, DeviceClass]) -> None:
        self._features = features
        self._classes = classes

    def check(self, claim: ResourceClaim, request: DeviceRequest) -> None:
        """Raise AllocationError if a request uses a feature that is off."""
        if request.first_available and not self._features.alternatives:
            raise AllocationError(
                f"claim {show_claim(claim)}, request {request.name}: has subrequests, "
                "but the DRAPrioritizedList feature is disabled"
            )
        if self._features.consumable_capacity:
            return
        place = f"claim {show_claim(claim)}"
        problem = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if request.exactly is not None and request.exactly.capacity is not None:
            raise AllocationError(f"{place}, request {request.name}: {problem}")
        for each in request.first_available or ():
            if each.capacity is not None:
                raise AllocationError(f"{place}, subrequest {each.name}: {problem}")

    def prepare(self, claim: ResourceClaim, request: DeviceRequest, alternative: DeviceSubRequest | None) -> Variant:
        """Prepare a request, or one of its alternatives. Raises AllocationError."""
        wanted = request.exactly if alternative is None else alternative
        name = request.name if alternative is None else alternative.name
        shown = show_claim(claim)
        place = f"claim {shown}, request {name}"
        if wanted is not None:
            self._check_content(wanted, place)
        if wanted is None or not wanted.device_class_name:
            raise AllocationError(f"{place}: missing device class name (unsupported request type?)")
        device_class = self._classes.get(wanted.device_class_name)
        if device_class is None:
            raise AllocationError(
                f"{place}: could not retrieve device class {wanted.device_class_name}: "
                f'deviceclass.resource.k8s.io "{wanted.device_class_name}" not found'
            )
        if wanted.allocation_mode not in (EXACT_COUNT, ALL):
            raise AllocationError(f"{place}: unsupported count mode {wanted.allocation_mode}")
        wants_all = wanted.allocation_mode == ALL
        return Variant(
            claim=shown,
            name=name,
            request=request.name,
            alternative="" if alternative is None else name,
            device_class=device_class,
            selectors=(
                *_placed(device_class.spec.selectors, f"class {device_class.metadata.name}"),
                *_placed(wanted.selectors, f"claim {shown}"),
            ),
            count=0 if wants_all else wanted.count,
            wants_all=wants_all,
            has_admin_access=isinstance(wanted, ExactDeviceRequest) and bool(wanted.admin_access),
            tolerations=tuple(wanted.tolerations or ()),
            given_tolerations=wanted.tolerations,
            capacity=_amounts(wanted, place),
            derived={each.name: each.expression for each in wanted.derived_attributes}
            if wanted.derived_attributes and self._features.derived_attributes
            else _NONE_DERIVED,
        )

    def _check_content(self, wanted: ExactDeviceRequest | DeviceSubRequest, place: str) -> None:
        features = self._features
        if wanted.derived_attributes and features.rules.refuses_derived_attributes and not features.derived_attributes:
            raise AllocationError(f"{place}: cannot handle request with derived attributes, the feature is disabled")
        for i, selector in enumerate(wanted.selectors or ()):
            if selector.cel is None:
                raise AllocationError(f"{place}, selector #{i}: CEL expression empty (unsupported selector type?)")
        asks_admin_access = isinstance(wanted, ExactDeviceRequest) and wanted.admin_access is not None
        if asks_admin_access and not self._features.admin_access:
            raise AllocationError(f"{place}: admin access is requested, but the feature is disabled")


def _placed(selectors: Sequence[DeviceSelector] | None, owner: str) -> list[PlacedSelector]:
    placed: list[PlacedSelector] = []
    for i, selector in enumerate(selectors or ()):
        place = f"{owner}: selector #{i}"
        if selector.cel is None:
            raise AllocationError(f"{place}: CEL expression empty (unsupported selector type?)")
        placed.append(PlacedSelector(selector.cel.expression, place))
    return placed


def _amounts(wanted: ExactDeviceRequest | DeviceSubRequest, place: str) -> dict[str, Quantity] | None:
    if wanted.capacity is None or wanted.capacity.requests is None:
        return None
    try:
        return {name: Quantity.served(raw) for name, raw in wanted.capacity.requests.items()}
    except QuantityError as error:
        raise AllocationError(f"{place}: capacity: {error}") from None
