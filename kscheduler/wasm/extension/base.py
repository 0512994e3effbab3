"""The common part of all plugins of the extension ABI: instances, attempts, faults, and new versions of the guest."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ClusterEvent
from kscheduler.framework.faults import CycleFault, running
from kscheduler.framework.interface import Handle, PreFilterResult
from kscheduler.framework.status import Code, Status
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.arguments import IGNORE, WasmArguments
from kscheduler.wasm.binding_threads import BindingThreads
from kscheduler.wasm.engine import FuncType, GuestFault, Instance, Limits, Module, Wasi
from kscheduler.wasm.extension.cluster_events import read_events
from kscheduler.wasm.extension.cycles import MAX_OPEN, MAX_OPEN_UNBOUND, Cycle, Cycles, PreFiltered
from kscheduler.wasm.extension.encoding.objects import ObjectEncoder
from kscheduler.wasm.extension.host.call import Call, invoke
from kscheduler.wasm.extension.host.functions import host_functions
from kscheduler.wasm.extension.host.klog import Klog
from kscheduler.wasm.extension.host.scheduler import SchedulerFunctions
from kscheduler.wasm.extension.host.world import World
from kscheduler.wasm.extension.results import Fault, fault_status, fault_text, status_of
from kscheduler.wasm.extension.rows import Answer, Ends, Sharing, ask_rows
from kscheduler.wasm.extension.search import Search, Searches
from kscheduler.wasm.extension.surroundings import Surroundings
from kscheduler.wasm.guest_log import GuestLog
from kscheduler.wasm.loading.abi import EXTENSION_EXPORTS
from kscheduler.wasm.loading.compiling import Version
from kscheduler.wasm.loading.fetch import LoadError
from kscheduler.wasm.loading.guest import Follower
from kscheduler.wasm.pool import Outcome, Pool, PoolOptions, Unavailable

log = logging.getLogger(__name__)

# Guests of this ABI are small, and each pod between Reserve and PostBind may hold an instance.
MAX_INSTANCES = 512

BINDING_EXPORTS = frozenset({"reserve", "unreserve", "permit", "prebind", "bind", "postbind"})
FOLLOWING_EXPORTS = frozenset({"addpod", "removepod"})
POINT_EXPORTS = frozenset(EXTENSION_EXPORTS)
_BEGINNING = frozenset({"enqueue", "prefilter", "prescore"})  # each instance runs these, so it has their data


class GuestSource(Protocol):
    """The part of `loading.guest.Guest` that a plugin uses: its arguments and its compiled version."""

    name: str
    arguments: WasmArguments

    @property
    def version(self) -> Version: ...

    def follow(self, follower: Follower) -> None: ...


class ExtensionPlugin:
    """A guest's plugin without extension points; `plugin_class` adds the guest's, which are classes in `points`."""

    name: ClassVar[str] = ""
    guest: ClassVar[GuestSource]
    surroundings: ClassVar[Surroundings]

    def __init__(self, args: object, handle: Handle) -> None:
        """Make the plugin. `args` is not used, because the guest has its arguments.

        Raises LoadError if the guest cannot start.
        """
        arguments = self.guest.arguments
        self.table = handle.table
        self._is_ignored = arguments.failure_policy == IGNORE
        self._sharing = Sharing()
        self._searches = Searches()
        self._resumed: Search | None = None  # the search that the current cycle resumes
        self._clock = self.surroundings.clock or _Stopwatch(handle.stopwatch)
        self._options = self._pool_options(arguments, handle)
        version = self.guest.version
        self.exports = exports_of(version.module)
        self._sees_all_nodes = sees_all_nodes(version.module)
        pool = self._new_pool(version)
        binds = bool(self.exports & BINDING_EXPORTS)
        self._cycles = Cycles(pool, MAX_OPEN if binds else MAX_OPEN_UNBOUND)
        self._adapt_cycles()
        _start(pool)
        self._events = self._register(pool)
        self.guest.follow(self)

    def _pool_options(self, arguments: WasmArguments, handle: Handle) -> PoolOptions:
        encoder = self.surroundings.encoder or ObjectEncoder(self.surroundings.whole)
        world = self._world = World(handle.table, encoder)
        functions = host_functions(
            SchedulerFunctions(
                self.name, arguments.guest_config.reveal(), world, handle.waiting_pods, self.surroundings
            ),
            Klog(
                self.name,
                arguments.log_severity,
                GuestLog(self.name, self._clock.now, self.surroundings.log_rules),
            ),
        )
        return PoolOptions(
            functions=functions,
            limits=Limits(memory_bytes=arguments.memory_bytes, deadline_s=arguments.deadline_s),
            wasi=Wasi(args=[arg.reveal() for arg in arguments.args]),
            max_instances=MAX_INSTANCES,
            quarantine=self.surroundings.quarantine,
        )

    def _new_pool(self, version: Version) -> Pool:
        return Pool(self.name, version.module, self._options, self._clock, self.surroundings.observer)

    def _register(self, pool: Pool) -> tuple[ClusterEvent, ...]:
        if "enqueue" not in self.exports:
            return read_events(b"", self.name)
        call = Call()
        try:
            pool.run(lambda instance: invoke(instance, "enqueue", call), export="enqueue")
        except (GuestFault, Unavailable) as fault:
            raise LoadError(fault_text("enqueue", fault)) from fault
        return read_events(call.events, self.name)

    def events_to_register(self) -> Sequence[ClusterEvent]:
        """Return the cluster events of the guest's first version; later versions cannot change them."""
        return self._events

    # --- new versions of the guest ---

    def try_out(self, version: Version) -> None:
        """Raise if this version of the guest cannot start an instance. Implements `Follower`."""
        pool = self._new_pool(version)
        try:
            _start(pool)
        finally:
            pool.close()

    def replace(self, version: Version) -> None:
        """Switch to this version of the guest.

        Attempts that have begun end on the previous one. Implements `Follower`.
        """
        old, self._cycles.pool = self._cycles.pool, self._new_pool(version)
        self.exports = exports_of(version.module)
        self._sees_all_nodes = sees_all_nodes(version.module)
        self._adapt_cycles()
        old.close()

    # --- inside ---

    @property
    def pool(self) -> Pool:
        """The pool of the guest's instances that attempts get from now on."""
        return self._cycles.pool

    def cycle(self, state: CycleState, pod: PodInfo) -> Cycle:
        """Return the pod's attempt: stored in the state, resumed from an interrupted search for nodes, or new."""
        cycle = state.get(self.name, Cycle)
        if cycle is None:
            cycle = self._resume(pod) if state.may_wait else None
            cycle = cycle or Cycle(self._cycles, pod, self._world.whole(pod.pod))
            state.write(self.name, cycle)
        return cycle

    def _resume(self, pod: PodInfo) -> Cycle | None:
        """Resume the search for feasible nodes in which the pod's last cycle was interrupted; None if there is none."""
        self._resumed = search = self._searches.take(pod)
        if search is None:
            return None
        if search.version is not self.pool.module:
            self._resumed = None
            search.cycle.release()
            return None
        search.cycle.is_resumed = True
        return search.cycle

    def _adapt_cycles(self) -> None:
        """Let every attempt to schedule a pod begin with the guest's export `prefilter`, if it has one.

        That is so even if the profile lacks the plugin at PreFilter.
        """
        self._cycles.begins_with = _begin if "prefilter" in self.exports else None
        self._cycles.follows_pods = bool(self.exports & FOLLOWING_EXPORTS)

    def status(self, export: str, cycle: Cycle, call: Call) -> Status | None:
        """Call an export that returns only a status, and return that; success if the guest does not have the export."""
        if export not in self.exports:
            return None
        try:
            code = cycle.run(export, lambda instance: invoke(instance, export, call))
        except (GuestFault, Unavailable) as fault:
            return self.failed(export, cycle.pod, fault)
        return status_of(export, code, call.reason)

    async def ask_apart(self, export: str, cycle: Cycle, call: Call) -> Any:
        """Call an export on another thread and return its result. Raises GuestFault or Unavailable."""
        threads = self.surroundings.threads
        later: list[Callable[[], None]] | None = None if threads is None else []
        call.later = cycle.later = later
        try:
            return await cycle.run_apart(threads, export, lambda instance: invoke(instance, export, call))
        finally:
            for action in later or ():
                action()

    def is_divided(self, export: str) -> bool:
        """Return whether the nodes of one call may be divided among several instances; the user's setting decides.

        Without a setting they may if the guest has no export that could read what this export left in memory about a
        node.
        """
        arguments = self.guest.arguments
        if arguments.parallel is not None or arguments.pure:
            return arguments.pure or bool(arguments.parallel)
        return self.exports & POINT_EXPORTS <= _BEGINNING | {export}

    def answers(self, export: str, cycle: Cycle, rows: Sequence[int], ends: Ends) -> list[Answer]:
        """Call `filter` or `score` for each node of these rows of the node table; return the answers other than 0.

        `ends` returns True for a result after which further nodes are not needed. Raises GuestFault or Unavailable.
        """
        names = self.table.names_at(rows)
        if self._sharing.is_worth_it(export, len(rows)) and self.is_divided(export):
            return self._shared_answers(export, cycle, rows, ends)
        call, started = Call(cycle.shown), time.perf_counter()
        found = cycle.run(export, lambda instance: ask_rows(instance, export, call, rows, names, ends))
        self._sharing.note(export, len(rows), time.perf_counter() - started)
        return found

    def _shared_answers(self, export: str, cycle: Cycle, rows: Sequence[int], ends: Ends) -> list[Answer]:
        """Call `filter` or `score` for each node of these rows, on several instances of the guest in parallel.

        The first nodes go to the attempt's own instance. Returns the answers other than 0.
        """
        pool, parts = cycle.begun(), self._sharing.parts(rows)
        calls, works = self._works(export, cycle, parts, ends)
        first, *others = works
        attempts: list[Callable[[], Outcome[list[Answer]]]] = [partial(pool.attempt, first, cycle.key)]
        attempts += [partial(pool.attempt, partial(self._begin_and, cycle, work)) for work in others]
        found: list[Answer] = []
        for call, work, outcome in zip(calls, works, self._sharing.run(attempts), strict=True):
            if isinstance(outcome.fault, Unavailable):  # there is no other instance: use the attempt's own
                found += cycle.run(export, work)
            else:
                cycle.report(export, outcome)
                if outcome.fault is not None:
                    cycle.release()
                    raise outcome.fault
                found += outcome.value or ()
            for action in call.later or ():
                action()
            if found and ends(found[-1][1]):
                break
        return found

    def _works(
        self, export: str, cycle: Cycle, parts: Sequence[Sequence[int]], ends: Ends
    ) -> tuple[list[Call], list[Callable[[Instance], list[Answer]]]]:
        """Return, for each part of the rows (nodes), a Call that collects the guest's actions, and the work to do.

        The work is a function of the instance on which it is done.
        """
        calls = [Call(cycle.shown, later=[]) for _ in parts]
        works: list[Callable[[Instance], list[Answer]]] = [
            partial(ask_rows, export=export, call=call, rows=part, names=self.table.names_at(part), ends=ends)
            for call, part in zip(calls, parts, strict=True)
        ]
        return calls, works

    def _begin_and(self, cycle: Cycle, work: Callable[[Instance], list[Answer]], instance: Instance) -> list[Answer]:
        """Do the work on an instance other than the attempt's own.

        That instance first gets the calls with which the attempt began, such as `prefilter`.
        """
        if self._cycles.begins_with is not None:
            invoke(instance, "prefilter", Call(cycle.shown, later=[]))
        if cycle.filtered is not None and "prescore" in self.exports:
            invoke(instance, "prescore", Call(cycle.shown, filtered=cycle.filtered, later=[]))
        return work(instance)

    async def answers_apart(
        self, threads: BindingThreads, export: str, cycle: Cycle, rows: Sequence[int], ends: Ends
    ) -> list[Answer]:
        """Call `filter` or `score` for each node of these rows on other threads, so that the event loop is not blocked.

        Returns the answers other than 0. `ends` returns True for a result after which further nodes are not needed.
        """
        started = time.perf_counter()
        found = await self._answers_apart(threads, export, cycle, rows, ends)
        self._sharing.note(export, len(rows), time.perf_counter() - started)
        return found

    async def _answers_apart(
        self, threads: BindingThreads, export: str, cycle: Cycle, rows: Sequence[int], ends: Ends
    ) -> list[Answer]:
        is_divided, pool = self.is_divided(export), self.pool
        parts = self._sharing.parts(rows) if is_divided else [rows]
        calls, works = self._works(export, cycle, parts, ends)
        cycle.later = calls[0].later
        try:
            if not is_divided:
                return await cycle.run_apart(threads, export, works[0])
            attempts = [partial(pool.attempt, partial(self._begin_and, cycle, work)) for work in works]
            outcomes = await asyncio.gather(*(threads.run(attempt) for attempt in attempts))
        finally:
            cycle.later = None
            for call in calls:
                for action in call.later or ():
                    action()
        found: list[Answer] = []
        for outcome in outcomes:
            pool.report(outcome, export)
            if outcome.fault is not None:
                raise outcome.fault
            found += outcome.value or ()
            if found and ends(found[-1][1]):
                break
        return found

    def ask_pre_filter(self, cycle: Cycle) -> PreFiltered:
        """Call `prefilter` and return its result; success if the guest does not have that export.

        If the pod's attempt continues a search for nodes that was interrupted, the result of its earlier call is
        returned.
        """
        if "prefilter" not in self.exports:
            return None, None
        if cycle.is_resumed:  # another `prefilter` would make the guest forget its later answers
            cycle.is_resumed = False
            return cycle.pre_filtered
        cycle.pre_filtered = self._ask_pre_filter(cycle)
        return cycle.pre_filtered

    def _ask_pre_filter(self, cycle: Cycle) -> PreFiltered:
        call = Call(cycle.shown)
        try:
            code = cycle.run_first("prefilter", lambda instance: invoke(instance, "prefilter", call))
        except (GuestFault, Unavailable) as fault:
            return None, self.failed("prefilter", cycle.pod, fault)
        names = PreFilterResult(frozenset(call.node_names)) if call.node_names else None
        return names, status_of("prefilter", code, call.reason)

    def ask_pre_score(self, cycle: Cycle, filtered: Sequence[str]) -> None:
        """Call `prescore` with the feasible nodes, and record in the cycle if it returns Skip. Raises CycleFault."""
        cycle.filtered = filtered
        status = self.status("prescore", cycle, Call(cycle.shown, filtered=filtered))
        if status is not None and status.code is Code.SKIP:
            cycle.is_unscored = True
        elif status is not None:
            raise CycleFault(running("PreScore", self, status))

    def failed(self, export: str, pod: PodInfo, fault: Fault) -> Status | None:
        if not self._is_ignored:
            return fault_status(export, fault)
        log.warning(
            "guest failed and is skipped",
            extra={"plugin": self.name, "pod": pod.key, "err": fault_text(export, fault)},
        )
        return None


def exports_of(module: Module) -> frozenset[str]:
    return frozenset(name for name, kind in module.exports.items() if isinstance(kind, FuncType))


def sees_all_nodes(module: Module) -> bool:
    """Return whether a guest's answer about one node may depend on others, as it imports functions that list them."""
    return any(each.name in ("nodeList", "nodeImageStates") for each in module.imports)


def _start(pool: Pool) -> None:
    """Start one instance, so that a guest that cannot start is found at once. Raises LoadError."""
    try:
        pool.warm()
    except GuestFault as fault:
        output = f"{fault.output.rstrip()}\n" if fault.output else ""
        why = f"{output}module[1] function[_start] failed: {fault}"
        raise LoadError(f"failed to create a guest pool: wasm: instantiate error: {why}") from fault


def _begin(instance: Instance, cycle: Cycle) -> None:
    invoke(instance, "prefilter", Call(cycle.shown, later=cycle.later))


class _Stopwatch:
    """A Clock that reads the Handle's stopwatch; it times how long a failing guest is not called."""

    def __init__(self, stopwatch: Callable[[], float]) -> None:
        self.now = stopwatch
        self.wall = stopwatch
