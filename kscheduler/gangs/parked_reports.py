"""Reports to the pods of a gang that is not tried what it lacks: its PodGroup, or more pods.

The pods of a gang come one after another, so that nearly each gang lacks some for a moment. Hence what a gang lacks is
reported once it has lacked it for some seconds, as an Event and the condition PodScheduled of each of its pods. By
our own rules, room that was made for them by evictions is kept no longer then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kscheduler.api.objects import Pod
from kscheduler.client.write_permission import WritePermission
from kscheduler.clock import Clock
from kscheduler.framework.status import Status, unresolvable
from kscheduler.gangs.gang import PLUGIN, GangKey
from kscheduler.gangs.gang_queue import GangQueue
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.texts import lack
from kscheduler.gangs.tracked_gang import Lack
from kscheduler.queue.pod_info import Pool

DELAY_S = 5.0  # from the moment at which a gang was found to lack something
AWAITED_BY_ALL = frozenset({Lack.OBJECT, Lack.MEMBERS, Lack.GATES, Lack.ROOT, Lack.GROUPS})


class ParkedReports:
    """`run` is a task. `report` records for a pod why it is not tried, as `ScheduleOne.report_not_scheduled` does."""

    def __init__(
        self,
        registry: Registry,
        queue: GangQueue,
        report: Callable[[Pod, Status, str | None], None],
        permission: WritePermission,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._queue = queue
        self._report = report
        self._permission = permission
        self._clock = clock
        self._due: dict[GangKey, float] = {}  # gang -> when to look at it, the soonest first
        self._some = asyncio.Event()

    def parked(self, key: GangKey) -> None:
        """Take note that a gang lacks something. What kube-scheduler waits for as well is not reported."""
        tracked = self._registry.get(key)
        if tracked is not None and self._registry.rules.follows_kubernetes and tracked.lack in AWAITED_BY_ALL:
            return
        if key not in self._due:
            self._due[key] = self._clock.now() + DELAY_S
            self._some.set()

    async def run(self) -> None:
        while True:
            await self._some.wait()
            while self._due:
                key, due = next(iter(self._due.items()))
                await asyncio.sleep(max(due - self._clock.now(), 0.0))
                self._due.pop(key, None)
                self._report_lack(key)
            self._some.clear()

    def _report_lack(self, key: GangKey) -> None:
        tracked, stand_in = self._registry.get(key), self._queue.stand_in(key)
        if tracked is None or stand_in is None or stand_in.pool is not Pool.PARKED:
            return
        if not self._permission.may_write():
            self.parked(key)
            return
        status = unresolvable(lack(tracked)).of(PLUGIN)
        nomination = None if self._registry.rules.follows_kubernetes else ""
        for queued in stand_in.members.values():
            self._report(queued.pod_info.pod, status, nomination)
