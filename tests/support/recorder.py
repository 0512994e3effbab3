"""An event handler that notes what an informer hands to it."""

from __future__ import annotations

from typing import Any


class Recorder:
    """An event handler that records what it receives, and checks that it makes sense."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.known: dict[str, str] = {}  # key -> version
        self.problems: list[str] = []  # an informer swallows what a handler raises

    def on_add(self, obj: Any) -> None:
        self._expect(obj.key not in self.known, f"{obj.key} added twice")
        self.known[obj.key] = obj.metadata.resource_version
        self.calls.append(f"add {obj.key}")

    def on_update(self, old: Any, new: Any) -> None:
        self._expect(self.known.get(old.key) == old.metadata.resource_version, f"{old.key}: not the old one")
        self.known[new.key] = new.metadata.resource_version
        self.calls.append(f"update {new.key}")

    def on_delete(self, obj: Any) -> None:
        self._expect(self.known.pop(obj.key, "") == obj.metadata.resource_version, f"{obj.key}: not the last one")
        self.calls.append(f"delete {obj.key}")

    def _expect(self, condition: bool, problem: str) -> None:
        if not condition:
            self.problems.append(problem)
