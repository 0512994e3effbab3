"""Has pods and gangs tried again that may take room of other queues since the fair shares have changed.

Such a pod waits for what the plugins that rejected it wait for, such as room on a node; without this, it would be tried
again only when it has waited for too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kscheduler.clock import Clock
from kscheduler.framework.events import SHARE_DIVISION
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.quotas.division_changes import DivisionChanges
from kscheduler.quotas.pod_demand import NO_QUEUE, Demand
from kscheduler.quotas.share_queues import ShareQueues

GATHER_S = 1.0  # changes of so long are looked at together


class ShareDivisionWatch:
    """Follows `ShareQueues`. `run` is a task. `wake` is called when a pod may be scheduled.

    `demand_of_gang(entry)` returns what a gang in the queue reclaims room for; None for a pod, or if it reclaims none.
    """

    def __init__(
        self,
        queues: ShareQueues,
        queue: SchedulingQueue,
        *,
        clock: Clock,
        wake: Callable[[], None],
        demand_of_gang: Callable[[QueuedPodInfo], Demand | None],
    ) -> None:
        self._queues = queues
        self._queue = queue
        self._demand_of_gang = demand_of_gang
        self._clock = clock
        self._wake = wake
        self._changes = DivisionChanges(queues)
        self._work = asyncio.Event()
        self._work.set()
        queues.on_stale = self._work.set

    async def run(self) -> None:
        while True:
            await self._work.wait()
            await asyncio.sleep(GATHER_S)
            self._work.clear()
            self.look()

    def look(self) -> None:
        """Have pods tried again, after their backoff, if the fair shares have changed so that they may reclaim."""
        if not self._changes.are_helpful():
            return
        known: dict[int, tuple[Demand, bool]] = {}  # id of a demand, which pods of one template share -> the answer

        def is_helped(waiting: QueuedPodInfo) -> bool:
            demand = self._queues.counted_demand(waiting.pod_info.pod)
            if demand.queue == NO_QUEUE:
                return False
            answer = known.get(id(demand))
            if answer is None:
                answer = known[id(demand)] = demand, self._changes.may_reclaim(demand)
            if not answer[1] or type(waiting) is QueuedPodInfo:
                return answer[1]
            whole = self._demand_of_gang(waiting)  # what one pod of it may not, it may not either
            return whole is not None and self._changes.may_reclaim(whole)

        if self._queue.try_again(is_helped, SHARE_DIVISION, self._clock.now()):
            self._wake()
