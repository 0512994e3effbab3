"""The attempts of pods, and the instance of the guest that each attempt holds.

A guest's data about a pod is in the memory of one instance, from `prefilter`, which resets it, to the end of the
binding. So an attempt holds an instance of its own:

    first call: hold, `prefilter` -- calls ... -- Reserve, Permit: kept for it -- PostBind or Unreserve: released
                  ^                       |
                  +--- begun again -------+ after the instance was lost to a fault, or taken for a newer attempt

The end of an attempt without a binding is not reported. Its instance is released when its cycle state is collected, or
earlier, when too many newer attempts have begun. If such an attempt calls the guest again, it begins again: a guest's
answers depend only on its inputs and on its data since the last `prefilter`.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from kscheduler.api.documents import PodDocument
from kscheduler.api.objects import Pod
from kscheduler.framework.interface import PreFilterResult
from kscheduler.framework.status import Status
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.binding_threads import BindingThreads
from kscheduler.wasm.engine import GuestFault, Instance
from kscheduler.wasm.pool import Outcome, Pool, Unavailable

T = TypeVar("T")

PreFiltered = tuple[PreFilterResult | None, Status | None]

Begin = Callable[[Instance, "Cycle"], object]  # runs `prefilter`, which resets the guest's data

MAX_OPEN = 64  # attempts before their binding that may hold an instance
MAX_OPEN_UNBOUND = 4  # the limit for guests without binding exports, where nothing is lost with an instance


class Cycle:
    """One attempt to schedule one pod, with the guest's instance that serves it; stored in the CycleState.

    A clone for a dry run may have its own instance.
    """

    def __init__(self, cycles: Cycles, pod: PodInfo, shown: Pod | PodDocument) -> None:
        """Create an attempt that has not begun. `shown` is the pod object that the guest receives."""
        self.pod = pod
        self.shown = shown
        self.statuses: list[Status] = []  # statuses of Filter, by detail of a rejected row
        self.wants_pre_score = False  # `prescore` must be called once the feasible nodes are known
        self.is_unscored = False  # the guest answered Skip at PreScore
        self.filtered: Sequence[str] | None = None  # the feasible nodes that `prescore` was called with
        self.look: bytes | None = None  # digest of the pod by which answers are kept
        self.pre_filtered: PreFiltered = (None, None)  # the guest's answer at PreFilter
        self.is_resumed = False  # the next PreFilter belongs to this attempt, which was interrupted
        self.is_binding = False
        self.later: list[Callable[[], None]] | None = None  # collects the actions of `prefilter`; None: done at once
        self._cycles = cycles
        self.key = cycles.new_key(pod)  # the attempt's name as the holder of an instance
        self._pool: Pool | None = None  # the pool of its instance; None before the first call and after the last
        self._is_apart = False  # another thread uses the instance; `Cycles.lock` guards this and `_pool`
        self._turn = threading.Lock()  # held by other threads in a call, which may go on when its caller has gone

    def run(self, export: str, work: Callable[[Instance], T]) -> T:
        """Run `work`, the calls of one export, on the attempt's instance, which is taken first if needed.

        Raises GuestFault or Unavailable.
        """
        if self._pool is None:
            self._cycles.begin(self)
        return self._run(export, work)

    def run_first(self, export: str, work: Callable[[Instance], T]) -> T:
        """Run `work`, the call of `prefilter` that begins the attempt, on the instance of the guest that it gets."""
        if self._pool is None:
            self._cycles.hold(self)
        return self._run(export, work)

    def begun(self) -> Pool:
        """Begin the attempt if needed, i.e. take an instance and call `prefilter`; return the pool of the instance.

        Raises GuestFault or Unavailable.
        """
        if self._pool is None:
            self._cycles.begin(self)
        assert self._pool is not None
        return self._pool

    def report(self, export: str, outcome: Outcome[Any]) -> None:
        """Report the outcome of a call that was made for the attempt on another instance."""
        (self._cycles.pool if self._pool is None else self._pool).report(outcome, export)

    async def run_apart(self, threads: BindingThreads | None, export: str, work: Callable[[Instance], T]) -> T:
        """Run `work`, the calls of one export, on the attempt's instance, but on another thread.

        `threads` None: run it on this thread. Raises GuestFault or Unavailable.
        """
        if threads is None:
            return self.run(export, work)
        is_held = self._pool is not None
        if not is_held:
            self._cycles.make_room(self)
            self._pool = self._cycles.pool
        pool = self._pool
        assert pool is not None
        outcome: Outcome[T] = Outcome()
        for name, outcome in await threads.run(lambda: self._attempt_apart(pool, is_held, export, work)):
            pool.report(outcome, name)
        if outcome.fault is not None:
            self.release()
            raise outcome.fault
        return cast(T, outcome.value)

    def _attempt_apart(
        self, pool: Pool, is_held: bool, export: str, work: Callable[[Instance], T]
    ) -> list[tuple[str, Outcome[T]]]:
        """Make the calls on another thread; return (export, outcome) of each, up to the first fault."""
        outcomes: list[tuple[str, Outcome[Any]]] = []
        begin = self._cycles.begins_with
        with self._turn:
            if not self._enter_apart(pool):
                return [(export, Outcome(fault=Unavailable(f"plugin {pool.plugin}: the attempt has ended")))]
            try:
                if not is_held:
                    pool.hold(self.key)
                    if begin is not None:
                        begun = pool.attempt(lambda instance: begin(instance, self), self.key)
                        outcomes.append(("prefilter", begun))
                        if begun.fault is not None:
                            return outcomes
                outcomes.append((export, pool.attempt(work, self.key)))
            except (GuestFault, Unavailable) as fault:  # there was no instance to hold
                outcomes.append((export, Outcome(fault=fault)))
            finally:
                self._leave_apart(pool)
        return outcomes

    def _enter_apart(self, pool: Pool) -> bool:
        """Mark the instance as used by this thread; False if it was released while the thread waited for it."""
        with self._cycles.lock:
            self._is_apart = self._pool is pool
            return self._is_apart

    def _leave_apart(self, pool: Pool) -> None:
        with self._cycles.lock:
            self._is_apart = False
            is_over = self._pool is not pool
        if is_over:
            pool.release(self.key)

    def _run(self, export: str, work: Callable[[Instance], T]) -> T:
        assert self._pool is not None
        outcome = self._pool.attempt(work, self.key)
        self._pool.report(outcome, export)
        if outcome.fault is not None:
            self.release()
            raise outcome.fault
        return cast(T, outcome.value)

    def hold(self, pool: Pool) -> None:
        """Reserve an instance of the pool for the attempt."""
        pool.hold(self.key)
        self._pool = pool

    def bind(self) -> None:
        """Keep the guest's instance until the end of the binding, so that newer attempts cannot take it any more."""
        if not self.is_binding:
            self.is_binding = True
            self._cycles.forget(self)

    def release(self) -> None:
        """Release the instance; may be called twice.

        If another thread uses it, that thread releases it when it is done.
        """
        with self._cycles.lock:
            pool, self._pool = self._pool, None
            is_apart = self._is_apart
        if pool is not None:
            self._cycles.forget(self)
            if not is_apart:
                pool.release(self.key)

    def clone(self) -> Cycle:
        """Return a copy for a preemption's dry run, whose `addpod` and `removepod` must not affect this attempt."""
        return Cycle(self._cycles, self.pod, self.shown) if self._cycles.follows_pods else self

    def __del__(self) -> None:
        if self._pool is not None:  # released later, since this may run at any moment, also inside of the pool
            self._cycles.dropped.append((self._pool, self.key))


class Cycles:
    """All current attempts to schedule pods of one plugin, with the instances of its guest that they hold."""

    def __init__(self, pool: Pool, max_open: int) -> None:
        self.pool = pool  # the pool of attempts that begin from now on
        self.follows_pods = False  # whether the guest has `addpod` or `removepod`
        self.begins_with: Begin | None = None  # None for a guest without `prefilter`
        self.lock = threading.Lock()
        self._max_open = max_open
        self._numbers = itertools.count()
        self._open: dict[str, weakref.ref[Cycle]] = {}  # attempts whose instance may be taken, oldest first
        self.dropped: deque[tuple[Pool, str]] = deque()  # instances of collected attempts, to be released

    def new_key(self, pod: PodInfo) -> str:
        """Return a new name for an attempt, under which it holds an instance of the pool."""
        return f"{pod.uid}/{next(self._numbers)}"

    def begin(self, cycle: Cycle) -> None:
        self.hold(cycle)
        begin = self.begins_with
        if begin is not None:
            cycle.run_first("prefilter", lambda instance: begin(instance, cycle))

    def hold(self, cycle: Cycle) -> None:
        self.make_room(cycle)
        cycle.hold(self.pool)

    def make_room(self, cycle: Cycle) -> None:
        """Register an attempt, and release instances of collected attempts and of the oldest beyond the limit."""
        while self.dropped:
            pool, key = self.dropped.popleft()
            self._open.pop(key, None)
            pool.release(key)
        if not cycle.is_binding:
            while len(self._open) >= self._max_open:
                oldest = self._open.pop(next(iter(self._open)))()
                if oldest is not None:
                    oldest.release()
            self._open[cycle.key] = weakref.ref(cycle)

    def forget(self, cycle: Cycle) -> None:
        """Exclude this attempt's instance from those that may be taken from it for newer attempts."""
        self._open.pop(cycle.key, None)
