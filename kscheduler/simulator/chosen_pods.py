"""The log of a simulation's decisions about some pods only.

These pods are decided by the general lane, whose decisions are those of the compiled one, so that plugins can be asked
for their answers. The log itself takes no part in a decision.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

from kscheduler.clock import Clock
from kscheduler.explain.decisions import NOTHING_REVIEWED, DecisionLog
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.framework.stopwatch import stands_still
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo


class ChosenPodsLog(DecisionLog):
    """Asks for the details of every decision about the chosen pods, however long that takes, and of no other.

    Subclasses say in `decided` what they keep; decisions about other pods get there, too, unless the compiled lane
    makes them.
    """

    def __init__(self, pods: Container[str], options: DecisionLogOptions, table: NodeTable, clock: Clock) -> None:
        """Create an empty log. `pods`: namespace/name of the chosen ones."""
        super().__init__(options, table, clock, stands_still)  # details take no time, so the budget is never used up
        self._pods = pods
        self.spare.from_s = math.inf  # no other decision is made in the general lane for its details

    def placed(
        self, placed: Sequence[QueuedPodInfo], node_names: Sequence[str], feasible: Sequence[int], now: float
    ) -> None:
        """Record the chosen ones, which are members of gangs: no other chosen pod gets into the compiled lane."""
        reviewed, self.reviewed = self.reviewed, NOTHING_REVIEWED
        self.ring.add_many(known for queued in placed if (known := reviewed.get(queued.uid)) is not None)

    def first_asked_for(self, batch: Sequence[QueuedPodInfo], now: float) -> int:
        pods = self._pods
        return next((index for index, queued in enumerate(batch) if queued.pod_info.key in pods), len(batch))

    def is_asked_for(self, pod: PodInfo, now: float) -> bool:
        return pod.key in self._pods

    def took(self, seconds: float, now: float, *, is_asked_for: bool = False) -> None:
        """Charge nothing."""
