"""Which pods are with extenders now: one at a time for each extender, in the order of the queue.

A pod waits for all extenders that have a say in it. While it waits for one, later pods may not take the others away
from it; so each extender sees the pods in the order in which kube-scheduler would show them to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kscheduler.cache.cache import Cache
from kscheduler.clock import Clock
from kscheduler.cycle.binding_tasks import BackgroundTasks
from kscheduler.cycle.bindings import Bindings
from kscheduler.extenders.cycle import ExtenderCycle
from kscheduler.queue.pod_info import Lane, QueuedPodInfo
from kscheduler.queue.scheduling_queue import SchedulingQueue

log = logging.getLogger(__name__)


class ExtenderLanes:
    """`on_change` is called whenever an extender is free again."""

    def __init__(
        self,
        queue: SchedulingQueue,
        cache: Cache,
        cycle: ExtenderCycle,
        bindings: Bindings,
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        self._queue = queue
        self._cache = cache
        self._cycle = cycle
        self._bindings = bindings
        self._clock = clock
        self._tasks = BackgroundTasks("a cycle with extenders", on_change)
        self._busy: set[int] = set()  # extenders, by position

    def __len__(self) -> int:
        """Pods that are with extenders."""
        return len(self._tasks)

    def start_next(self, now: float) -> None:
        """Give each extender that is free its next pod."""
        taken = set(self._busy)  # or spoken for
        for lane in self._queue.lanes():
            if taken.isdisjoint(lane):
                queued = self._queue.pop(now, lane)
                if queued is None:
                    continue
                self._busy.update(lane)
                self._tasks.start(self._run(queued, lane))
            taken.update(lane)

    async def _run(self, queued: QueuedPodInfo, lane: Lane) -> None:
        try:
            cycle = await self._cycle.schedule(queued)
        except asyncio.CancelledError:
            self._queue.requeue_after_error(queued, self._clock.now())
            raise
        except Exception:
            # A bug of ours must cost this pod an attempt, not everybody the scheduler.
            log.exception("scheduling cycle failed", extra={"pod": queued.pod_info.key})
            self._cache.forget(queued.pod_info.uid)
            self._queue.requeue_after_error(queued, self._clock.now())
        else:
            if cycle is not None:
                self._bindings.start(cycle)
        finally:
            self._busy.difference_update(lane)

    async def cancel(self) -> None:
        """Stop asking. No decision is lost by it: none has been made for these pods."""
        await self._tasks.cancel()
