"""How long a job runs at least before others may take its room, by KAI-Scheduler's rules.

Queues state it, for reclaim by other queues and for preemption within one. Where a queue states nothing, the next one
above it counts, and zero where none does. For reclaim, the first queue asked is not the victim's own, but the one on
its path just below the lowest common ancestor with the queue that wants the room: tenants agree on it at that level.
"""

from __future__ import annotations

from kscheduler.quotas.queues import Queue
from kscheduler.quotas.reclaim import below_common_ancestor


def preempt_min_s(queue: Queue) -> float:
    """Return the seconds that jobs of a queue run at least before others of the same queue may take their room."""
    return next((each.preempt_min_s for each in queue.path() if each.preempt_min_s is not None), 0.0)


def reclaim_min_s(queue: Queue, theirs: Queue) -> float:
    """Return the seconds that jobs of `theirs` run at least before jobs of `queue` may take their room."""
    _, start = below_common_ancestor(queue, theirs)
    return next((each.reclaim_min_s for each in start.path() if each.reclaim_min_s is not None), 0.0)
