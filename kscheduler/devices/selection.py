"""The interface to compiled CEL expressions that select devices, which `cel.selectors.Selectors` implements."""

from __future__ import annotations

from typing import Protocol

from kscheduler.cel.selectors import DeviceView, SelectorError

__all__ = ["DeviceView", "Selector", "SelectorError", "Selectors"]


class Selector(Protocol):
    def matches(self, device: DeviceView) -> bool:
        """Evaluate the expression. Raises SelectorError."""


class Selectors(Protocol):
    def get(self, expression: str) -> Selector:
        """Return the compiled expression. Raises SelectorError."""
