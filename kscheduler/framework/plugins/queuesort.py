"""PrioritySort: higher priority first, then the pod that has been queued longer."""

from __future__ import annotations

NAME = "PrioritySort"


class PrioritySort:
    name = NAME

    def sort_key(self, priority: int, timestamp: float) -> tuple[float, ...]:
        return (-priority, timestamp)
