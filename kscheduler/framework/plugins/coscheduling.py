"""Coscheduling: a profile that enables it has pods scheduled as the gang that their label names.

The scheduler does that itself, in `gangs`, for all profiles. Of scheduler-plugins' plugin only the order of the queue
is left here, which is that of PrioritySort: a gang keeps the place of its first pod in any case.
"""

from __future__ import annotations

NAME = "Coscheduling"


class Coscheduling:
    name = NAME

    def sort_key(self, priority: int, timestamp: float) -> tuple[float, ...]:
        return (-priority, timestamp)
