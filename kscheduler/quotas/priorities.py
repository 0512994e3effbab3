"""The priorities of the pods that are counted, by namespace: where no pod is less important, none can be evicted."""

from __future__ import annotations

from collections.abc import Iterable


class Priorities:
    """Which priorities the pods of each namespace have."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[int, int]] = {}  # namespace -> priority -> number of pods, never 0

    def count(self, namespace: str, priority: int, number: int) -> None:
        """Count so many more pods of a priority, or fewer if `number` is negative."""
        pods = self._by_namespace.get(namespace)
        if pods is None:
            pods = self._by_namespace[namespace] = {}
        now = pods.get(priority, 0) + number
        if now:
            pods[priority] = now
            return
        pods.pop(priority, None)
        if not pods:
            del self._by_namespace[namespace]

    def lowest(self, namespace: str) -> int | None:
        """Return the lowest priority of the namespace's pods; None if it has none."""
        return min(self._by_namespace.get(namespace, ()), default=None)

    def namespaces(self) -> Iterable[str]:
        """Return the namespaces that have pods."""
        return self._by_namespace.keys()
