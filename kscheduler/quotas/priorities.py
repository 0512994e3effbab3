"""The priorities of the pods that are counted, by namespace: where no pod is less important, none can be evicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


class Priorities:
    """Which priorities the pods of each namespace have. Pods are known by their uids."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, Counter[int]] = {}  # namespace -> priority -> number of pods above zero
        self._of_pods: dict[str, tuple[str, int]] = {}  # uid -> namespace, priority

    def add(self, namespace: str, uid: str, priority: int) -> None:
        """Add a pod, unless it is there already."""
        if uid not in self._of_pods:
            self._of_pods[uid] = namespace, priority
            self.count(namespace, priority, 1)

    def add_all(self, namespace: str, uids: Sequence[str], priority: int) -> None:
        """Add pods of one priority, unless they are there already."""
        of_pods, before = self._of_pods, len(self._of_pods)
        if of_pods.keys().isdisjoint(uids):
            of_pods.update(dict.fromkeys(uids, (namespace, priority)))
        else:
            for uid in uids:
                of_pods.setdefault(uid, (namespace, priority))
        self.count(namespace, priority, len(of_pods) - before)

    def drop(self, uid: str) -> None:
        """Remove a pod as it was added; unknown ones are ignored."""
        known = self._of_pods.pop(uid, None)
        if known is not None:
            self.count(*known, -1)

    def count(self, namespace: str, priority: int, number: int) -> None:
        """Count so many more pods of a priority, or fewer if `number` is negative."""
        pods = self._by_namespace.get(namespace)
        if pods is None:
            pods = self._by_namespace[namespace] = Counter()
        pods[priority] += number
        if not pods[priority]:
            del pods[priority]
        if not pods:
            del self._by_namespace[namespace]

    def lowest(self, namespace: str) -> int | None:
        """Return the lowest priority of the namespace's pods; None if it has none."""
        return min(self._by_namespace.get(namespace, ()), default=None)

    def namespaces(self) -> Iterable[str]:
        """Return the namespaces that have pods."""
        return self._by_namespace.keys()
