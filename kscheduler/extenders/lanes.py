"""Runs the scheduling cycles of pods with extenders concurrently, but each extender handles one pod at a time.

A pod waits until all extenders interested in it are free; meanwhile, later pods may not use any of them. So each
extender sees the pods in the order of the queue, as with kube-scheduler.
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
    """Starts a pod's scheduling cycle when all its extenders are free. `on_change` is called when a cycle ends."""

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
        self._busy: set[int] = set()  # positions of the extenders that handle a pod

    def __len__(self) -> int:
        """Return the number of scheduling cycles in progress."""
        return len(self._tasks)

    def start_next(self, now: float) -> None:
        """Start a cycle for each pod whose extenders are all free, in the order of the queue."""
        taken = set(self._busy)  # or waited for by an earlier pod
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
            # A bug must cost this pod an attempt, and not end the scheduler.
            log.exception("scheduling cycle failed", extra={"pod": queued.pod_info.key})
            self._cache.forget(queued.pod_info.uid)
            self._queue.requeue_after_error(queued, self._clock.now())
        else:
            if cycle is not None:
                self._bindings.start(cycle)
        finally:
            self._busy.difference_update(lane)

    async def cancel(self) -> None:
        """Cancel all cycles in progress, none of which has decided yet, and return their pods to the queue."""
        await self._tasks.cancel()
