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
import weakref
from collections import deque
from collections.abc import Callable
from typing import TypeVar, cast

from kscheduler.framework.status import Status
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.engine import Instance
from kscheduler.wasm.pool import Outcome, Pool, PoolObserver

T = TypeVar("T")

Begin = Callable[[Instance, PodInfo], object]  # runs `prefilter`, for what the guest forgets and remembers there

MAX_OPEN = 64  # attempts that hold an instance before they come to binding
MAX_OPEN_UNBOUND = 4  # the same where the guest has no say in binding, so that nothing is lost with an instance


class Cycle:
    """One attempt of one pod, in the cycle state of the plugin. What-ifs have their own."""

    def __init__(self, cycles: Cycles, pod: PodInfo) -> None:
        self.pod = pod
        self.statuses: list[Status] = []  # of the nodes that Filter rejected, by detail
        self.wants_pre_score = False  # PreScore is due, as soon as it is known which nodes passed
        self.is_unscored = False  # the guest said SKIP there
        self.is_binding = False
        self._cycles = cycles
        self.key = cycles.new_key(pod)  # under which the pool keeps its instance
        self._pool: Pool | None = None  # that lends the instance; None before the first call and after the last

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
        """Give the instance back; twice is fine."""
        pool, self._pool = self._pool, None
        if pool is not None:
            self._cycles.forget(self)
            pool.release(self.key)

    def clone(self) -> Cycle:
        """For a what-if, in which pods come and go: what the guest knows of them must not reach the attempt."""
        return Cycle(self._cycles, self.pod) if self._cycles.follows_pods else self

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
            cycle.run_first("prefilter", lambda instance: begin(instance, cycle.pod))

    def hold(self, cycle: Cycle) -> None:
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
        cycle.hold(self.pool)

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
