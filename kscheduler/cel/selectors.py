"""Compiled expressions about devices, kept by their text: the way into this package.

What compiles them is imported with the first expression, or by `load`: most clusters have no device that a claim could
select, and their schedulers need not have it in memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kscheduler.config.releases import DEFAULT_RELEASE, Release

if TYPE_CHECKING:
    from kscheduler.cel.environment import Environment
    from kscheduler.cel.expressions import DerivedAttribute, Selector

# kube-scheduler keeps ten; ours are as few as there are classes and claims that differ.
KEPT = 1000

CompiledT = TypeVar("CompiledT")


class Selectors:
    """Compiled expressions by their text; of each kind the least recently used ones are dropped."""

    def __init__(self, release: Release = DEFAULT_RELEASE, kept: int = KEPT) -> None:
        """`release`: of Kubernetes, which says what types and functions there are."""
        self._release = release
        self._kept = kept
        self._known: OrderedDict[str, Selector] = OrderedDict()
        self._derived: OrderedDict[str, DerivedAttribute] = OrderedDict()

    def get(self, expression: str) -> Selector:
        """Return the compiled expression. Raises SelectorError if it cannot be compiled."""
        found = self._known.get(expression)
        if found is None:
            from kscheduler.cel.expressions import Selector

            return self._compile(expression, self._known, Selector)
        self._known.move_to_end(expression)
        return found

    def derived(self, expression: str) -> DerivedAttribute:
        """Return the compiled expression of a derived attribute. Raises SelectorError if it cannot be compiled."""
        found = self._derived.get(expression)
        if found is None:
            from kscheduler.cel.expressions import DerivedAttribute

            return self._compile(expression, self._derived, DerivedAttribute)
        self._derived.move_to_end(expression)
        return found

    def _compile(
        self, expression: str, known: OrderedDict[str, CompiledT], compiled: Callable[[str, Environment], CompiledT]
    ) -> CompiledT:
        from kscheduler.cel.environment import environment_of

        made = known[expression] = compiled(expression, environment_of(self._release))
        if len(known) > self._kept:
            known.popitem(last=False)
        return made


def selectors_for(release: Release) -> Selectors:
    """Return a store of compiled expressions, with the types and functions that the release has."""
    return Selectors(release)


def load() -> None:
    """Import what compiles expressions, which takes tens of milliseconds, before the first one is needed."""
    import kscheduler.cel.expressions  # noqa: F401
