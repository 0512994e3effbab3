"""Which instance serves which attempt of which pod.

What a guest remembers of a pod is in the memory of one instance, from `prefilter`, with which the guest begins anew, to
the end of the binding. So an attempt holds an instance of its own:

    first call: hold, `prefilter` -- calls ... -- Reserve, Permit: bound to it -- PostBind or Unreserve: released
                 ^                       |
                 +--- begun again -------+ the instance is lost to a fault, or taken for a younger attempt

An attempt that never came to binding does not say that it has ended. Its instance comes back when the cycle state goes,
or, should that take long, when too many younger attempts have begun. An attempt that is asked again after that begins
again: the guest is a function of what it is given, and of what it kept since its `prefilter`.
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
from kscheduler.wasm.pool import Outcome, Pool, PoolObserver, Unavailable

T = TypeVar("T")

PreFiltered = tuple[PreFilterResult | None, Status | None]

Begin = Callable[[Instance, "Cycle"], object]  # runs `prefilter`, for what the guest forgets and remembers there

MAX_OPEN = 64  # attempts that hold an instance before they come to binding
MAX_OPEN_UNBOUND = 4  # the same where the guest has no say in binding, so that nothing is lost with an instance


class Cycle:
    """One attempt of one pod, in the cycle state of the plugin. What-ifs have their own."""

    def __init__(self, cycles: Cycles, pod: PodInfo, shown: Pod | PodDocument) -> None:
        """`shown`: the pod as the guest sees it."""
        self.pod = pod
        self.shown = shown
        self.statuses: list[Status] = []  # of the nodes that Filter rejected, by detail
        self.wants_pre_score = False  # PreScore is due, as soon as it is known which nodes passed
        self.is_unscored = False  # the guest said SKIP there
        self.filtered: Sequence[str] | None = None  # the nodes that passed, once the guest was told at PreScore
        self.look: bytes | None = None  # of the pod, where answers are kept by it
        self.pre_filtered: PreFiltered = (None, None)  # what the guest said there
        self.is_resumed = False  # the framework asks PreFilter again, of an attempt that goes on
        self.is_binding = False
        self.later: list[Callable[[], None]] | None = None  # where `prefilter` leaves what it sets going; None: nowhere
        self._cycles = cycles
        self.key = cycles.new_key(pod)  # under which the pool keeps its instance
        self._pool: Pool | None = None  # that lends the instance; None before the first call and after the last
        self._is_apart = False  # another thread is at it; `Cycles.lock` guards this and the one above
        self._turn = threading.Lock()  # of other threads: a call that nobody waits for any more may still go on

    def run(self, export: str, work: Callable[[Instance], T]) -> T:
        """Calls of one export, on the attempt's instance; it is given one if it has none. GuestFault or Unavailable."""
        if self._pool is None:
            self._cycles.begin(self)
        return self._run(export, work)

    def run_first(self, export: str, work: Callable[[Instance], T]) -> T:
        """The same, `work` being the `prefilter` that begins the attempt."""
        if self._pool is None:
            self._cycles.hold(self)
        return self._run(export, work)

    def begun(self) -> Pool:
        """The pool that serves the attempt; it has an instance then. GuestFault or Unavailable."""
        if self._pool is None:
            self._cycles.begin(self)
        assert self._pool is not None
        return self._pool

    def report(self, export: str, outcome: Outcome[Any]) -> None:
        """How a call went that was made for the attempt on another instance."""
        self._cycles.report(self._cycles.pool if self._pool is None else self._pool, export, outcome)

    async def run_apart(self, threads: BindingThreads | None, export: str, work: Callable[[Instance], T]) -> T:
        """The same as `run`, on another thread; here if there are none."""
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
            self._cycles.report(pool, name, outcome)
        if outcome.fault is not None:
            self.release()
            raise outcome.fault
        return cast(T, outcome.value)

    def _attempt_apart(
        self, pool: Pool, is_held: bool, export: str, work: Callable[[Instance], T]
    ) -> list[tuple[str, Outcome[T]]]:
        """(export, how it went), up to the first fault. On the other thread."""
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
            except (GuestFault, Unavailable) as fault:  # no instance was to be had
                outcomes.append((export, Outcome(fault=fault)))
            finally:
                self._leave_apart(pool)
        return outcomes

    def _enter_apart(self, pool: Pool) -> bool:
        """False if the instance was given back while this thread waited."""
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
        self._cycles.report(self._pool, export, outcome)
        if outcome.fault is not None:
            self.release()
            raise outcome.fault
        return cast(T, outcome.value)

    def hold(self, pool: Pool) -> None:
        """Take an instance of the pool."""
        pool.hold(self.key)
        self._pool = pool

    def bind(self) -> None:
        """From now on nobody takes the instance away."""
        if not self.is_binding:
            self.is_binding = True
            self._cycles.forget(self)

    def release(self) -> None:
        """Give the instance back; twice is fine. Another thread that is at it does so when it has ended."""
        with self._cycles.lock:
            pool, self._pool = self._pool, None
            is_apart = self._is_apart
        if pool is not None:
            self._cycles.forget(self)
            if not is_apart:
                pool.release(self.key)

    def clone(self) -> Cycle:
        """For a what-if, in which pods come and go: what the guest knows of them must not reach the attempt."""
        return Cycle(self._cycles, self.pod, self.shown) if self._cycles.follows_pods else self

    def __del__(self) -> None:
        if self._pool is not None:  # garbage may be collected at any moment, also inside of the pool
            self._cycles.dropped.append((self._pool, self.key))


class Cycles:
    """The attempts of one plugin."""

    def __init__(
        self,
        pool: Pool,
        begin: Begin | None,
        observer: PoolObserver | None = None,
        *,
        follows_pods: bool = False,
        max_open: int = MAX_OPEN,
    ) -> None:
        """`begin` is None for a guest without `prefilter`. `follows_pods`: it is told of pods in what-ifs."""
        self.pool = pool  # that serves the attempts which begin from now on
        self.follows_pods = follows_pods
        self.begins_with = begin
        self.lock = threading.Lock()
        self._observer = observer
        self._max_open = max_open
        self._numbers = itertools.count()
        self._open: dict[str, weakref.ref[Cycle]] = {}  # key -> attempts that may have to give way, oldest first
        self.dropped: deque[tuple[Pool, str]] = deque()  # what attempts held that nobody knows any more
        self._failing: set[str] = set()  # exports whose last run was a fault

    def new_key(self, pod: PodInfo) -> str:
        """A pod is tried again and again."""
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
        """For one more attempt."""
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

    def report(self, pool: Pool, export: str, outcome: Outcome[T]) -> None:
        """Tell the pool; but a `prefilter` that goes well says nothing of a `filter` that fails each time."""
        if outcome.fault is not None:
            self._failing.add(export)
        else:
            self._failing.discard(export)
        if outcome.fault is not None or not self._failing:
            pool.report(outcome)
        elif self._observer is not None:
            self._observer.wasm_called(pool.plugin, outcome.seconds, "")

    def forget(self, cycle: Cycle) -> None:
        """It will not have to give way any more."""
        self._open.pop(cycle.key, None)
