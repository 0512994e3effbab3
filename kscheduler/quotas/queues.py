"""Queues with shares: a tree of tenants who divide a cluster, as in KAI-Scheduler.

Only leaves hold jobs; a queue's amounts include those of the queues below it. Amounts are integers in the units of
`quotas.amounts`, by resource name. None stands for unlimited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

Amounts = Mapping[str, int]  # resource name -> amount
Weight = int | Fraction

NOTHING: Amounts = {}


@dataclass(slots=True)
class Share:
    """What a queue is promised, may use, uses and wants of one resource."""

    deserved: int | None = 0  # promised; None: all there is
    limit: int | None = None  # the most it may use
    weight: Weight = 1  # of the queue among its siblings, when they divide what is not promised
    allocated: int = 0
    allocated_non_preemptible: int = 0  # the part of it that cannot be reclaimed
    request: int = 0  # allocated, and what its pending jobs ask for
    usage: Fraction = Fraction(0)  # in the past, as a part of the cluster
    fair: int = 0  # its fair share; see `fair_share.divide`

    @property
    def requestable(self) -> int:
        """The part of the request that is within the limit."""
        return self.request if self.limit is None else min(self.limit, self.request)

    @property
    def allocatable(self) -> int | None:
        """What the queue may use before others may reclaim: its fair share, at least what it deserves."""
        if self.deserved is None:
            return self.limit
        most = max(self.deserved, self.fair)
        return most if self.limit is None else min(self.limit, most)


@dataclass(slots=True, eq=False)
class Queue:
    name: str
    parent: Queue | None = None
    priority: int = 100
    created: str = ""  # RFC 3339; older queues come first where all else is equal
    shares: dict[str, Share] = field(default_factory=dict)  # by resource
    preempt_min_s: float | None = None  # how long its jobs run at least; see `min_runtime`
    reclaim_min_s: float | None = None
    _path: tuple[Queue, ...] = ()  # remembered; empty until it is asked for

    def path(self) -> tuple[Queue, ...]:
        """Return this queue and those above it, up to the root. From then on no queue of it may get another parent."""
        if not self._path:
            self._path = (self,) if self.parent is None else (self, *self.parent.path())
        return self._path

    def allocated(self) -> dict[str, int]:
        return {resource: share.allocated for resource, share in self.shares.items()}


def is_within(used: int, most: int | None) -> bool:
    """Return True if an amount is not above a bound, which may be unlimited."""
    return most is None or used <= most
