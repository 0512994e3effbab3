"""Namespaces and their labels, for matching the namespace selectors of affinity terms.

A namespace that the watch never reported has unknown labels: no namespace selector matches it, except one that selects
all namespaces.
"""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.api.labels import CompiledLabelSelector

MAX_KEPT = 4_096  # distinct selectors whose matching namespaces are remembered


class Namespaces:
    def __init__(self, labels: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._labels: dict[str, Mapping[str, str]] = dict(labels or {})  # name -> labels
        self._selected: dict[CompiledLabelSelector, frozenset[str]] = {}  # selector -> names it matches
        self.generation = 0  # bumped with every change of a name or a label

    def __len__(self) -> int:
        return len(self._labels)

    def get(self, name: str) -> Mapping[str, str] | None:
        """Return a namespace's labels; None if the namespace is unknown."""
        return self._labels.get(name)

    def set(self, name: str, labels: Mapping[str, str]) -> bool:
        """Add a namespace or replace its labels; return True if that changed anything."""
        if self._labels.get(name) == labels:
            return False
        self._labels[name] = dict(labels)
        self._changed()
        return True

    def remove(self, name: str) -> bool:
        if self._labels.pop(name, None) is None:
            return False
        self._changed()
        return True

    def selected_by(self, selector: CompiledLabelSelector) -> frozenset[str]:
        """Return the names of the known namespaces whose labels match the selector."""
        found = self._selected.get(selector)
        if found is None:
            if len(self._selected) >= MAX_KEPT:
                self._selected.clear()
            found = frozenset(name for name, labels in self._labels.items() if selector.matches(labels))
            self._selected[selector] = found
        return found

    def _changed(self) -> None:
        self._selected.clear()
        self.generation += 1
