"""Decides many pods in a row: in the compiled lane as far as possible, and one by one where that cannot decide.

Pods are decided in the order of the queue, each with the pods before it counted. A batch ends after a pod that was
decided alone: its preemption, or pods that it requeued, may have to come before the rest, which is therefore put back
in its place in the queue. (The compiled lane decides many pods in one kernel call; the general lane one pod, by calling
each plugin.)
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import attrgetter

from kscheduler._fast.codes import CLASSES_TOGETHER
from kscheduler.cache.cache import Cache
from kscheduler.clock import Clock
from kscheduler.cycle.schedule_one import BindingCycle, ScheduleOne
from kscheduler.explain.decisions import DecisionLog
from kscheduler.framework.compiled_lane import CompiledLane, Placements
from kscheduler.framework.faults import AnswersToCome
from kscheduler.framework.runtime import Framework
from kscheduler.queue.pod_info import Pool, QueuedPodInfo
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

_pod_info_of: Callable[[QueuedPodInfo], PodInfo] = attrgetter("pod_info")

MOST_PODS = 256  # in one batch: some milliseconds of work
LONG_S = 0.004  # batches that take longer become smaller


class ScheduleBatch:
    """Decides the pods of the active queue, many in one call of a kernel (the compiled lane) where possible.

    `dispatch` starts the binding of a decided pod. Without a compiled lane all pods are decided one by one.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        cache: Cache,
        profiles: Mapping[str, Framework],
        one: ScheduleOne,
        lane: CompiledLane | None,
        *,
        dispatch: Callable[[BindingCycle], None],
        clock: Clock,
        stopwatch: Callable[[], float],
        decisions: DecisionLog | None,
    ) -> None:
        self._queue = queue
        self._cache = cache
        self._profiles = profiles
        self._one = one
        self._lane = lane
        self._dispatch = dispatch
        self._clock = clock
        self._stopwatch = stopwatch
        self._decisions = decisions
        self._ask: Callable[[], Awaitable[None]] | None = None  # what the next pod's plugins want to know first
        self.is_waiting = False  # answers of plugins must be awaited before anything else is decided
        self._size = 1  # of the next batch: larger while the lane decides all of it
        self._passes = 0  # of the lane over all nodes, when the last long batch ended

    def run(self, now: float, most: int) -> int:
        """Decide up to `most` pods, and return how many were decided; 0 if none can be decided now."""
        if self._cache.is_torn:
            self._cache.mend()
        # Without a lane, and while decisions are to be explained in full, the next pod is decided by itself.
        lane, decisions = self._lane, self._decisions
        if lane is None or lane.is_broken or (decisions is not None and now >= decisions.spare.from_s):
            return self._run_alone(now)
        # 1. Take them in the order of the queue.
        popped = self._queue.pop_many(now, self._size if self._size < most else most)
        if not popped:
            return 0
        try:
            return self._decide(popped, now)
        except MemoryError:
            raise
        except Exception:
            self._rescue(popped)
            return len(popped)

    def _decide(self, popped: Sequence[QueuedPodInfo], now: float) -> int:
        """Decide popped pods in order, and return how many were tried; the others are back in the queue."""
        batch = self._one.leave_out(popped)
        # 2. Those at the front that the lane can decide.
        started = self._stopwatch()
        decisions = self._decisions
        asked = len(batch) if decisions is None else decisions.first_asked_for(batch, now)
        done = self._place(batch[:asked] if asked < len(batch) else batch, now)
        seconds = self._stopwatch() - started
        if done < len(batch) or self._size < MOST_PODS or seconds >= LONG_S / 2:  # else it stays as it is
            self._size = self._next_size(done, len(batch), seconds)
        if done == len(batch):
            return len(popped)
        # 3. The one that it cannot, or that asks to be explained.
        rest = batch[done:]
        # `asked` is the first pod whose decision is to be explained in full, which the general lane can.
        started = self._stopwatch()
        is_decided = self._alone(rest[0])
        if done == asked and decisions is not None:
            decisions.took(self._stopwatch() - started, now, is_asked_for=True)
        self._queue.put_back(rest[1:] if is_decided else rest)
        return len(popped) - len(rest) + 1

    async def get_answers(self) -> None:
        """Await the answers that plugins need for the next pod, which keeps its place in the queue."""
        ask, self._ask, self.is_waiting = self._ask, None, False
        if ask is not None:
            await ask()

    def forget(self) -> None:
        """Drop what plugins stated for kernels (the compiled lane): from now on they may decide differently."""
        if self._lane is not None:
            self._lane.forget()

    def _next_size(self, done: int, asked: int, seconds: float) -> int:
        """Return the next batch's size: twice this one's, or less if pods were left over or it took long."""
        if done < asked:
            return max(done, 1)
        if seconds > LONG_S:
            return max(int(asked * LONG_S / seconds), self._fewest(asked))
        return min(2 * self._size, MOST_PODS) if seconds < LONG_S / 2 else self._size

    def _fewest(self, asked: int) -> int:
        """Return the least size of the next batch, after one of this many pods that took long.

        In a large cluster it took long where pod classes had to score all nodes. With more pods at once, several
        classes do so in one pass over the nodes, which takes half as long for each.
        """
        passes = self._lane.passes if self._lane is not None else 0
        has_passed = passes != self._passes
        self._passes = passes
        return min(2 * asked, CLASSES_TOGETHER) if has_passed else 1

    def _run_alone(self, now: float) -> int:
        """Decide one pod plugin by plugin, which can be explained in full. Returns 0 without a pod, else 1."""
        queued = self._queue.pop(now)
        if queued is None:
            return 0
        try:
            started = self._stopwatch()
            if not self._alone(queued):
                self._queue.put_back([queued])
            elif self._lane is not None and self._decisions is not None:
                self._decisions.took(self._stopwatch() - started, now)
        except MemoryError:
            raise
        except Exception:
            self._rescue((queued,))
        return 1

    def _place(self, batch: Sequence[QueuedPodInfo], now: float) -> int:
        """Decide the leading pods: place them by kernels (the compiled lane) and start their bindings, or reject them.

        A pod is rejected if it is known that the general lane would do so. Returns how many were decided.
        """
        lane, rejections, done = self._lane, self._one.rejections, 0
        if lane is None:
            return 0
        undecided = list(map(_pod_info_of, batch))
        while done < len(batch):
            del undecided[: len(undecided) - len(batch) + done]
            if rejections is not None and rejections.known and (rejected := self._reject_again(batch, done)):
                done += rejected
                continue
            placements = lane.place_unless_broken(undecided, self._cache.recount)
            placed = len(placements.node_names)
            if not placed:
                if not self._defers(batch[done]):
                    break
                done += 1
                continue
            left, pods = batch[done : done + placed], undecided[:placed]
            cycles, are_assumed = self._assume(left, pods, placements, now)
            node_names = placements.node_names
            for at, queued in enumerate(left):
                node_name, cycle = node_names[at], cycles[at]
                try:
                    if not are_assumed:
                        self._cache.assume(queued.pod_info, node_name)
                    if cycle is None:
                        cycle = self._one.hold(queued, node_name, now)
                    if cycle is not None:
                        self._dispatch(cycle)
                except MemoryError:
                    raise
                except Exception:
                    self._failed(queued, cycle)
            done += placed
            lane.report(placements)
        return done

    def _reject_again(self, batch: Sequence[QueuedPodInfo], first: int) -> int:
        """Reject the pods from the first one on as long as it is known that they fit nowhere; return how many."""
        at, reject_again = first, self._one.reject_again
        while at < len(batch):
            try:
                if not reject_again(batch[at]):
                    break
            except MemoryError:
                raise
            except Exception:
                self._failed(batch[at], None)
            at += 1
        return at - first

    def _assume(
        self, placed: Sequence[QueuedPodInfo], pods: Sequence[PodInfo], placements: Placements, now: float
    ) -> tuple[Sequence[BindingCycle | None], bool]:
        """Assume placed pods together and begin their binding cycles; None for each that is to be begun by itself.

        Returns False with them if that failed: then each is to be assumed by itself, too.
        """
        cycles: Sequence[BindingCycle | None] = [None] * len(placed)
        node_names, are_assumed = placements.node_names, True
        try:
            self._cache.assume_counted(pods, placements.rows, node_names)
        except MemoryError:
            raise
        except Exception:
            log.exception("the pods of a batch could not be assumed together")
            self._cache.recount()
            are_assumed = False
        # Here is no way out but the last line: what is assumed must be bound, or forgotten.
        try:
            self._one.record_placed(placed, node_names, placements.feasible, now)
            if are_assumed:
                cycles = self._one.begin_bindings(placed, node_names, now)
            if log.isEnabledFor(logging.DEBUG):
                for cycle in filter(None, cycles):
                    log.debug("pod assumed", extra={"pod": cycle.pod.key, "node": cycle.node_name})
        except MemoryError:
            raise
        except Exception:
            log.exception("the binding cycles of a batch could not begin together")
        return cycles, are_assumed

    def _defers(self, queued: QueuedPodInfo) -> bool:
        """Put a pod aside that shares a claim whose allocation is being written; return whether it was.

        As kube-scheduler, the plugins would reject it, and try it again once that is written.
        """
        pod = queued.pod_info
        if not pod.pod.spec.resource_claims:
            return False
        plugin = self._profiles[pod.pod.spec.scheduler_name].class_compiler.claiming
        if plugin is None or not plugin.awaits_allocation(pod):
            return False
        return self._queue.defer(queued, self._clock.now(), plugin.name)

    def _alone(self, queued: QueuedPodInfo) -> bool:
        """Decide one pod plugin by plugin. Returns False if plugins wait for answers, so that it must be put back."""
        if queued.pod_info.pod.spec.resource_claims and self._defers(queued):
            return True
        cycle: BindingCycle | None = None
        try:
            cycle = self._one.schedule(queued, may_wait=True)
            if cycle is not None:
                self._dispatch(cycle)
        except MemoryError:
            raise
        except AnswersToCome as waiting:
            self._ask, self.is_waiting = waiting.ask, True
            return False
        except Exception:
            self._failed(queued, cycle)
        return True

    # --- after a bug of ours: it must cost a pod an attempt, not everybody the scheduler ---

    def _failed(self, queued: QueuedPodInfo, cycle: BindingCycle | None) -> None:
        """Release everything that is held for a pod after a fault, and queue the pod again unless it is gone."""
        log.exception("scheduling cycle failed", extra={"pod": queued.pod_info.key})
        if cycle is not None:
            self._one.withdraw(cycle)
        self._cache.forget(queued.pod_info.uid)
        self._requeue(queued)

    def _rescue(self, popped: Sequence[QueuedPodInfo]) -> None:
        """Queue those pods of a failed batch again that were not decided, i.e. are in flight and not assumed."""
        log.exception("a batch failed; its pods are tried again")
        self._cache.recount()
        for queued in popped:
            if not self._cache.is_assumed(queued.uid):
                self._requeue(queued)

    def _requeue(self, queued: QueuedPodInfo) -> None:
        if queued.pool is not Pool.GONE:
            self._queue.requeue_after_error(queued, self._clock.now())
