"""The instances of one plugin: lent for a call, or to a pod for its binding cycle; discarded after any fault.

    idle -- run --> lent -- no fault --> idle      hold(uid) ... run(work, uid) ... release(uid): a pod has an instance
                     |                             from Reserve to PostBind, so that the guest's data about the pod
                     +-- fault --> closed          stays in its memory; then that is idle again, unless broken

Any thread may call; an instance is lent to one at a time. The observer is called by the thread that called the pool.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kscheduler.clock import Clock
from kscheduler.errors import KSchedulerError
from kscheduler.wasm.engine import (
    DEFAULT_LIMITS,
    PAGE_BYTES,
    FaultKind,
    GuestFault,
    HostFunction,
    Instance,
    Limits,
    Module,
    Wasi,
)
from kscheduler.wasm.faults import with_output
from kscheduler.wasm.quarantine import Admission, Quarantine, QuarantineRules

T = TypeVar("T")

# Instances of one plugin. On a busy machine some hundred pods bind at a time. With the default memory limit that is
# 16 GiB if all memories are full, but most guests are small.
MAX_INSTANCES = 256
MAX_IDLE = 8  # idle instances that are kept; more are only needed while many pods bind
SPARE = 8  # not lent to pods for their binding, so that scheduling can go on; at most an eighth of all instances


class FailurePolicy(enum.Enum):
    """What a guest's fault means for the pod: its cycle fails, or the plugin is ignored."""

    FAIL = "fail"  # the attempt ends with an error
    IGNORE = "ignore"  # the plugin has no influence on the pod


class Unavailable(KSchedulerError):
    """The guest was not called: it is quarantined, all its instances are in use, or the pool is closed."""


class PoolObserver(Protocol):
    """Receives what happens in a pool, for metrics and Events."""

    def wasm_called(self, plugin: str, seconds: float, fault: str) -> None:
        """Record how long a call took and its kind of fault: "" for none, "unavailable" if the guest was not called."""
        ...

    def wasm_sizes(self, plugin: str, instances: int, memory_pages: int) -> None:
        """Record the number of instances, and the memory pages of the most recently used instance."""
        ...

    def wasm_quarantined(self, plugin: str, quarantined: bool, reason: str) -> None:
        """Record that a quarantine begins (`reason` is the last fault) or ends (`reason` is "")."""
        ...


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """The options for making and calling a plugin's instances."""

    functions: Sequence[HostFunction] = ()
    limits: Limits = DEFAULT_LIMITS
    wasi: Wasi | None = None
    policy: FailurePolicy = FailurePolicy.FAIL
    setup: Callable[[Instance], None] | None = None  # called after `start`, to configure the guest
    max_instances: int = MAX_INSTANCES
    quarantine: QuarantineRules = QuarantineRules()  # noqa: RUF009 (frozen)


@dataclass(slots=True)
class Outcome(Generic[T]):
    """The outcome of one call: a value, or a fault."""

    seconds: float = 0.0
    value: T | None = None
    fault: GuestFault | Unavailable | None = None


class Pool:
    def __init__(
        self,
        plugin: str,
        module: Module,
        options: PoolOptions,
        clock: Clock,
        observer: PoolObserver | None = None,
    ) -> None:
        self.plugin = plugin
        self.module = module
        self.options = options
        self._clock = clock
        self._observer = observer
        self._pages = 0  # memory pages of the instance used last
        self._lock = threading.Lock()  # guards the seven below
        self._idle: list[Instance] = []
        self._held: dict[str, Instance | None] = {}  # holder's uid -> its instance; None after it was lost to a fault
        self._alive = 0  # number of instances: idle, lent and held
        self._quarantine = Quarantine(options.quarantine)
        self._failing: set[str] = set()  # exports or extension points of which the last call was a fault
        self._latest_fault = ""
        self._is_closed = False

    # --- for the plugin ---

    def warm(self) -> None:
        """Make an instance of the guest in advance if none is idle. Raises GuestFault if the guest fails."""
        self._put_back(self._take(None), None)

    def run(self, work: Callable[[Instance], T], uid: str | None = None, export: str = "") -> T:
        """Run `work` on an instance, or on the one that `uid` holds, and report the outcome; see `report`.

        Raises GuestFault or Unavailable.
        """
        outcome = self.attempt(work, uid)
        self.report(outcome, export)
        if outcome.fault is not None:
            raise outcome.fault
        return outcome.value  # type: ignore[return-value]  # without a fault it is what `work` returned

    def hold(self, uid: str) -> None:
        """Reserve an instance for a pod's binding until `release`; may be called twice.

        Raises Unavailable if none is free.
        """
        if uid in self._held:
            return
        most = self.options.max_instances
        if len(self._held) >= most - min(SPARE, most // 8):
            raise Unavailable(f"plugin {self.plugin}: {len(self._held)} pods that bind hold an instance each")
        try:
            self._check_admitted()
            instance = self._take(None)
        except GuestFault as fault:
            self._failed(fault)
            raise
        with self._lock:
            self._held[uid] = instance

    def release(self, uid: str) -> None:
        """Take back the instance that `uid` holds, at the end of its binding cycle; without one, do nothing."""
        with self._lock:
            instance = self._held.pop(uid, None)
        if instance is not None:
            self._put_back(instance, None)

    @property
    def is_quarantined(self) -> bool:
        return self._quarantine.is_quarantined

    @property
    def instances(self) -> int:
        return self._alive

    @property
    def holders(self) -> int:
        return len(self._held)

    def close(self) -> None:
        """Refuse further calls; instances in use are closed when they are returned. A quarantine ends, too."""
        with self._lock:
            was_quarantined = self._quarantine.is_quarantined and not self._is_closed
            self._is_closed = True
            idle, self._idle = self._idle, []
            self._alive -= len(idle)
        for instance in idle:
            instance.close()
        if was_quarantined and self._observer is not None:
            self._observer.wasm_quarantined(self.plugin, False, "")

    # --- one run, in two halves: the first on any thread, the second on the caller's ---

    def attempt(self, work: Callable[[Instance], T], uid: str | None = None) -> Outcome[T]:
        """Run `work` and return its outcome without reporting it. Only GuestFault and Unavailable count as outcomes.

        Other exceptions are raised.
        """
        outcome: Outcome[T] = Outcome()
        begin = time.perf_counter()
        try:
            self._check_admitted()
            instance = self._take(uid)
            try:
                outcome.value = work(instance)
            except BaseException:
                self._discard(instance, uid)
                raise
            self._put_back(instance, uid)
        except (GuestFault, Unavailable) as fault:
            outcome.fault = fault
        outcome.seconds = time.perf_counter() - begin
        return outcome

    def report(self, outcome: Outcome[T], export: str = "") -> None:
        """Count a call by its outcome, and begin or end a quarantine if that is due.

        `export` is the export or extension point that was called. While one of them keeps failing, successes of others
        do not count: a guest that loops at Filter would else be called for every pod because its PreFilter works.
        """
        fault = outcome.fault
        if self._observer is not None:
            kind = "" if fault is None else fault.kind.value if isinstance(fault, GuestFault) else "unavailable"
            self._observer.wasm_called(self.plugin, outcome.seconds, kind)
        if isinstance(fault, GuestFault):
            with self._lock:
                self._failing.add(export)
            self._failed(fault)
        elif fault is None:
            with self._lock:
                self._failing.discard(export)
                if not self._failing:
                    self._quarantine.succeeded(self._clock.now())

    # --- instances ---

    def _take(self, uid: str | None) -> Instance:
        """Take an instance for one thread: the one that `uid` holds, an idle or a new one.

        Raises Unavailable or GuestFault.
        """
        with self._lock:
            if uid is not None and uid in self._held:
                held = self._held[uid]
                if held is None:
                    raise Unavailable(f"plugin {self.plugin}: the pod's instance was lost to an earlier fault")
                return held
            if self._idle:
                return self._idle.pop()
            if self._is_closed:
                raise Unavailable(f"plugin {self.plugin}: it is being replaced or stopped")
            if self._alive >= self.options.max_instances:
                raise Unavailable(f"plugin {self.plugin}: all its {self._alive} instances are in use")
            self._alive += 1
        try:
            return self._new_instance()
        except BaseException:
            with self._lock:
                self._alive -= 1
            raise

    def _new_instance(self) -> Instance:
        options = self.options
        instance = self.module.instantiate(options.functions, options.limits, wasi=options.wasi)
        try:
            instance.start()
            if options.setup is not None:
                options.setup(instance)
        except BaseException:
            instance.close()
            raise
        return instance

    def _put_back(self, instance: Instance, uid: str | None) -> None:
        if instance.is_broken:
            self._discard(instance, uid)
            return
        self._pages = instance.memory_bytes // PAGE_BYTES
        with self._lock:
            is_held = uid is not None and self._held.get(uid) is instance
            is_kept = is_held or (not self._is_closed and len(self._idle) < MAX_IDLE)
            if not is_kept:
                self._alive -= 1
            elif not is_held:
                self._idle.append(instance)
        if not is_kept:
            instance.close()
        self._report_sizes()

    def _discard(self, instance: Instance, uid: str | None) -> None:
        with self._lock:
            self._alive -= 1
            if uid is not None and self._held.get(uid) is instance:
                self._held[uid] = None
        instance.close()

    # --- quarantine ---

    def _check_admitted(self) -> None:
        """Raise Unavailable during a quarantine. If its time is over, end it, provided that an instance starts."""
        with self._lock:
            admission = self._quarantine.admission(self._clock.now())
        if admission is Admission.ADMITTED:
            return
        if admission is Admission.REFUSED:
            left_s = self._quarantine.left_s(self._clock.now())
            raise Unavailable(
                f"plugin {self.plugin}: quarantined after repeated faults, for {left_s:.1f} s more; "
                f"the latest fault: {self._latest_fault}"
            )
        self.warm()
        with self._lock:
            ended = self._quarantine.succeeded(self._clock.now())
        if ended and self._observer is not None:
            self._observer.wasm_quarantined(self.plugin, False, "")

    def _failed(self, fault: GuestFault) -> None:
        with self._lock:
            self._latest_fault = with_output(fault)
            begins = self._quarantine.failed(self._clock.now()) and not self._is_closed
            idle: list[Instance] = []
            if begins:
                self._failing.clear()  # what fails then counts by itself
                # The cause of the faults may be in the memory of the other instances, too.
                idle, self._idle = self._idle, []
                self._alive -= len(idle)
        for instance in idle:
            instance.close()
        self._report_sizes()
        if begins and self._observer is not None:
            self._observer.wasm_quarantined(self.plugin, True, with_output(fault))

    def _report_sizes(self) -> None:
        """Report the sizes, unless the pool is closed: a closed pool may already have a successor for the plugin."""
        if self._observer is not None and not self._is_closed:
            self._observer.wasm_sizes(self.plugin, self._alive, self._pages)


def bad_answer(message: str) -> GuestFault:
    """Return the fault for an answer of a guest that violates the ABI."""
    return GuestFault(FaultKind.BAD_ANSWER, message)
