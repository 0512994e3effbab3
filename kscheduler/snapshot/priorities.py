"""The number of pods on nodes by priority, which shows if preemption could find any victim."""

from __future__ import annotations

from collections import Counter

from kscheduler.snapshot.pod_info import PodInfo


class Priorities:
    """Counts by priority, updated by the node table. Clusters have few distinct priorities."""

    __slots__ = ("_pods",)

    def __init__(self) -> None:
        self._pods: dict[int, int] = {}  # priority -> pods; never zero

    @property
    def lowest(self) -> int | None:
        """The lowest priority of any pod on a node; None without pods."""
        return min(self._pods, default=None)

    def clear(self) -> None:
        self._pods.clear()

    def add(self, pod: PodInfo) -> None:
        self._pods[pod.priority] = self._pods.get(pod.priority, 0) + 1

    def remove(self, pod: PodInfo) -> None:
        left = self._pods[pod.priority] - 1
        if left:
            self._pods[pod.priority] = left
        else:
            del self._pods[pod.priority]

    def check(self, expected: Counter[int]) -> None:
        """Assert that the counts equal `expected`: priority -> pods. Raises AssertionError."""
        assert self._pods == expected, f"priorities counted {self._pods}, the pods have {dict(expected)}"
