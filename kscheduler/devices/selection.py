"""The interface to compiled CEL expressions that select devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kscheduler.api.devices import DeviceAttribute, DeviceCapacity
from kscheduler.errors import KSchedulerError


class SelectorError(KSchedulerError):
    """An expression cannot be compiled, or not be evaluated for a device; the text is CEL's."""


@dataclass(frozen=True, slots=True)
class DeviceView:
    """What an expression sees of a device, as its variable `device`."""

    driver: str
    attributes: Mapping[str, DeviceAttribute]
    capacity: Mapping[str, DeviceCapacity]
    allow_multiple_allocations: bool


class Selector(Protocol):
    def matches(self, device: DeviceView) -> bool:
        """Evaluate the expression. Raises SelectorError."""


class Selectors(Protocol):
    def get(self, expression: str) -> Selector:
        """Return the compiled expression. Raises SelectorError."""
