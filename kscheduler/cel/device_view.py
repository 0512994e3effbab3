"""A device as selectors see it. It is made also where nothing is compiled yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kscheduler.api.devices import DeviceAttribute, DeviceCapacity

if TYPE_CHECKING:
    from kscheduler.cel.values import Map


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device, as selectors see it."""

    driver: str
    attributes: Mapping[str, DeviceAttribute]  # by qualified or bare name, as served
    capacity: Mapping[str, DeviceCapacity]
    allow_multiple_allocations: bool
    prepared: list[PreparedDevice | None] = field(
        default_factory=lambda: [None, None], init=False, repr=False, compare=False
    )  # its value, once a selector has asked for it: without and with attributes that are lists


@dataclass(frozen=True, slots=True, eq=False)
class PreparedDevice:
    """The value of the variable."""

    value: Map
    longest: int  # characters of its longest text
