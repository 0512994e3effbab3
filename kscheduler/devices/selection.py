"""The interface to compiled CEL expressions about devices, which `cel.selectors.Selectors` implements."""

from __future__ import annotations

from typing import Protocol

from kscheduler.api.devices import DeviceAttribute
from kscheduler.cel.device_view import DeviceView
from kscheduler.cel.faults import SelectorError

__all__ = ["DerivedAttribute", "DeviceView", "Selector", "SelectorError", "Selectors"]


class Selector(Protocol):
    def matches(self, device: DeviceView) -> bool:
        """Evaluate the expression. Raises SelectorError."""


class DerivedAttribute(Protocol):
    def value(self, device: DeviceView) -> DeviceAttribute:
        """Evaluate the expression. Raises SelectorError."""


class Selectors(Protocol):
    def get(self, expression: str) -> Selector:
        """Return the compiled expression. Raises SelectorError."""

    def derived(self, expression: str) -> DerivedAttribute:
        """Return the compiled expression of a derived attribute. Raises SelectorError."""
