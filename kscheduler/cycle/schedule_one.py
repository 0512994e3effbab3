"""One pod's scheduling cycle, which decides and assumes, and its binding cycle, which writes the decision.

The scheduling cycle never awaits, so each decision sees the one before. The binding cycle runs concurrently with later
scheduling cycles; if it fails, the room on the node is released and the pod returns to the queue.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import msgspec

from kscheduler.api.objects import Pod, PodCondition, PodSpec
from kscheduler.cache.cache import Cache
from kscheduler.client.pod_status import PodStatusLane
from kscheduler.client.protocol import Binding
from kscheduler.client.recorder import EventRecorder
from kscheduler.client.times import rfc3339
from kscheduler.clock import Clock
from kscheduler.cycle.binding_tasks import PreBindSteps, QuickSteps
from kscheduler.cycle.failure_log import FailureLog
from kscheduler.cycle.refused_pods import RefusedPods
from kscheduler.cycle.waiting_pods import WaitingPods
from kscheduler.errors import APIError, Conflict, InternalError, NotFound, NotLeading
from kscheduler.explain.decisions import DecisionLog
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ASSIGNED_POD_DELETE
from kscheduler.framework.faults import not_allowed, not_bound
from kscheduler.framework.known_rejections import KnownRejections
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.framework.status import STATUS_LABELS, Code, Status, code_of, error_status
from kscheduler.observability.log_levels import OUTCOME
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.pod_info import Pool, QueuedPodInfo
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)


# The state of cycles in which no plugin runs after the decision. Nobody writes to it.
NO_STATE = CycleState()


class BindingCycle(msgspec.Struct, eq=False, gc=False):
    """A pod with the node it was assigned to, from assume to the written binding."""

    queued: QueuedPodInfo
    framework: Framework
    state: CycleState
    node_name: str
    started: float  # when the scheduling cycle began
    only_binds: bool = False  # no plugin has anything to do after the decision, except the default binding
    waits: dict[str, float] = {}
    bind_started: float = 0.0  # of a pod that plugins had a say in, when Bind began; 0: not yet

    @property
    def pod(self) -> PodInfo:
        return self.queued.pod_info


class ScheduleOne:
    """Runs the scheduling and the binding cycle of one pod.

    `current_pod` returns the informer's newest object for a pod's key, or None.
    """

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        profiles: Mapping[str, Framework],
        *,
        clock: Clock,
        stopwatch: Callable[[], float],
        measurements: Measurements,
        recorder: EventRecorder,
        statuses: PodStatusLane,
        nominations: Nominations,
        waiting_pods: WaitingPods,
        pre_binds: PreBindSteps,
        quick_steps: QuickSteps,
        current_pod: Callable[[str], Pod | None],
        refused_pods: RefusedPods,
        decisions: DecisionLog | None = None,
        bind_outside: Callable[[PodInfo, str], Awaitable[Status | None]] | None = None,
    ) -> None:
        """Take the parts of the scheduler that cycles use.

        `bind_outside` binds through an extender; it is called before the Bind plugins, and may SKIP as they may.
        """
        self._cache = cache
        self._cached = cache.uids()
        self._queue = queue
        self._profiles = profiles
        self._clock = clock
        self._stopwatch = stopwatch  # what a step costs this machine; the clock may be a simulation's
        self._measure = measurements
        self._recorder = recorder
        self._statuses = statuses
        self._nominations = nominations
        self._waiting_pods = waiting_pods
        self._pre_binds = pre_binds
        self._quick_steps = quick_steps
        self._current_pod = current_pod
        self._refused_pods = refused_pods
        self._decisions = decisions  # kept to explain them later; None: they are not
        self._bind_outside = bind_outside
        self._failures = FailureLog()
        self.rejections: KnownRejections | None = None  # of searches; set by who has the compiled lane

    # --- scheduling cycle ---

    def schedule(self, queued: QueuedPodInfo, *, may_wait: bool = False) -> BindingCycle | None:
        """Decide where the pod goes and assume it there. Returns None, with the pod in the queue, if it fits nowhere.

        With `may_wait` it may raise AnswersToCome, because a plugin needs an answer that takes long; then nothing has
        been decided or changed, and the pod must be tried again once the answer is there.
        """
        started = self._clock.now()
        pod = queued.pod_info
        # 1. Leave out pods that need no decision.
        if self.skips(pod):
            return None
        framework = self.decider_of(pod)
        # 2. Filter, score, select.
        state = CycleState()
        state.may_wait = may_wait
        stopwatch = self._stopwatch()
        found = framework.schedule_pod(state, pod)
        self._measure.algorithm(self._stopwatch() - stopwatch)
        if self.rejections is not None and isinstance(found, Rejection):
            self.rejections.keep(pod, found)
        return self.settle(queued, framework, state, found, started)

    def reject_again(self, queued: QueuedPodInfo) -> bool:
        """Reject a pod that needs a decision, if it is known that a search would; return whether it was rejected."""
        if self.rejections is None:
            return False
        started, pod = self._clock.now(), queued.pod_info
        found = self.rejections.find(pod)
        if found is None:
            return False
        framework = self._profiles[pod.pod.spec.scheduler_name]
        self.settle(queued, framework, NO_STATE, found, started, looks_back=False)
        return True

    def decider_of(self, pod: PodInfo) -> Framework:
        """Return the profile that decides about the pod: its own, or one that takes the pod over.

        The pod keeps its schedulerName.
        """
        own = self._profiles[pod.pod.spec.scheduler_name]
        return self._profiles.get(own.decider_of(pod), own) if own.hands_over else own

    def settle(
        self,
        queued: QueuedPodInfo,
        framework: Framework,
        state: CycleState,
        found: Decision | Rejection,
        started: float,
        *,
        looks_back: bool = True,
    ) -> BindingCycle | None:
        """Assume the pod on the node found, or reject it.

        `looks_back`: this was the framework's latest search, so that its results can still be explained.
        """
        if self._decisions is not None:
            self._decisions.decided(queued, framework, state, found, started, looks_back=looks_back)
        if isinstance(found, Rejection):
            self._reject(queued, framework, found.status, started, found)
            return None
        # 3. Assume: the next decision sees the room taken, and no longer a mere nomination.
        pod, completing = queued.pod_info, framework.completing
        assumed = pod if completing is None else completing.assumed(state, pod, found.node_name)
        self._cache.assume(assumed, found.node_name)
        return self._hold(BindingCycle(queued, framework, state, found.node_name, started, framework.only_binds(pod)))

    def record_placed(
        self, placed: Sequence[QueuedPodInfo], node_names: Sequence[str], feasible: Sequence[int], now: float
    ) -> None:
        """Have decisions of the compiled lane remembered. `feasible`: on how many nodes each pod fitted."""
        if self._decisions is not None:
            self._decisions.placed(placed, node_names, feasible, now)

    def begin_bindings(
        self, placed: Sequence[QueuedPodInfo], node_names: Sequence[str], started: float
    ) -> list[BindingCycle | None]:
        """Begin the binding cycles of assumed pods; None for pods that Reserve and Permit plugins have a say in.

        Changes nothing but nominations, so that it may be called again after a fault.
        """
        cycles: list[BindingCycle | None] = []
        nominations, profiles = self._nominations, self._profiles
        spec: PodSpec | None = None
        for at, queued in enumerate(placed):
            pod = queued.pod_info
            if pod.pod.spec is not spec:  # pods of one template share it
                spec = pod.pod.spec
                framework = profiles[spec.scheduler_name]
                only_binds = framework.only_binds(pod)
            if not only_binds:
                cycles.append(None)
                continue
            # What `_reserve` does where no plugin has a say, as for nearly all pods.
            if nominations.by_pod and pod.uid in nominations.by_pod:
                nominations.remove(pod.uid)
            cycles.append(BindingCycle(queued, framework, NO_STATE, node_names[at], started, True))
        return cycles

    def hold(self, queued: QueuedPodInfo, node_name: str, started: float) -> BindingCycle | None:
        """Run Reserve and Permit for an assumed pod; None, with the pod in the queue, if a plugin rejects it."""
        framework = self._profiles[queued.pod_info.pod.spec.scheduler_name]
        only_binds = framework.only_binds(queued.pod_info)
        state = NO_STATE if only_binds else CycleState()
        return self._hold(BindingCycle(queued, framework, state, node_name, started, only_binds))

    def hold_reserved(self, cycle: BindingCycle) -> BindingCycle | None:
        """Run Permit for an assumed pod for which Reserve has run. Returns None, as `hold` does, if it is rejected."""
        return self._hold(cycle, is_reserved=True)

    def _hold(self, cycle: BindingCycle, *, is_reserved: bool = False) -> BindingCycle | None:
        """Run Reserve and Permit. If a plugin rejects the pod or a fault occurs, the assumed room is released."""
        try:
            return self._reserve(cycle, is_reserved=is_reserved)
        except Exception:
            self.withdraw(cycle)
            raise

    def withdraw(self, cycle: BindingCycle) -> None:
        """Release everything that is held for a cycle that ended with a fault."""
        self._waiting_pods.remove(cycle.pod.uid)
        self._undo(cycle)

    def _reserve(self, cycle: BindingCycle, *, is_reserved: bool) -> BindingCycle | None:
        pod, framework, state = cycle.queued.pod_info, cycle.framework, cycle.state
        if pod.uid in self._nominations.by_pod:
            self._nominations.remove(pod.uid)
        # 4. Reserve and Permit.
        if not cycle.only_binds:
            status = None if is_reserved else framework.run_reserve(state, pod, cycle.node_name)
            if status is None:
                status, cycle.waits = framework.run_permit(state, pod, cycle.node_name)
            if status is not None:
                self._undo(cycle)
                self._reject(cycle.queued, framework, status, cycle.started)
                return None
        # 5. From here on others may decide about a pod that has to wait; and wake the pods that plugins named.
        if cycle.waits:
            self._waiting_pods.add(pod, cycle.waits)
        if state.pods_to_activate:
            self._activate(state)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("pod assumed", extra={"pod": pod.key, "node": cycle.node_name})
        return cycle

    def _activate(self, state: CycleState) -> None:
        self._queue.activate(list(state.pods_to_activate), self._clock.now())
        state.pods_to_activate.clear()

    def leave_out(self, popped: Sequence[QueuedPodInfo]) -> list[QueuedPodInfo]:
        """Return the pods that need a decision, and end the attempts of the others."""
        assumed = self._cached
        for queued in popped:
            pod = queued.pod_info
            if pod.uid in assumed or pod.pod.metadata.deletion_timestamp is not None:
                return [queued for queued in popped if not self.skips(queued.pod_info)]
        return list(popped)  # as nearly always

    def skips(self, pod: PodInfo) -> bool:
        """Return True, and end the attempt, if there is nothing to decide: the pod is terminating or assumed."""
        is_ending = pod.pod.metadata.deletion_timestamp is not None
        if not is_ending and self._cache.get(pod.uid) is None:
            return False
        if is_ending:
            note = f"skip schedule deleting pod: {pod.key}"
            self._record_event(pod.pod, "Warning", "FailedScheduling", "Scheduling", note)
            self._nominations.remove(pod.uid)  # as in kube-scheduler, for which pods that left the queue need no room
        self._queue.done(pod.uid)
        return True

    def is_gone(self, pod: PodInfo) -> bool:
        """Return True, and end the attempt, if the pod was deleted, bound or terminated while extenders were called."""
        current = self._current_pod(pod.key)
        if self._is_still_pending(pod) and current is not None and current.metadata.deletion_timestamp is None:
            return False
        self._queue.done(pod.uid)
        self._nominations.remove(pod.uid)
        return True

    # --- binding cycle ---

    async def bind(self, cycle: BindingCycle, write: Callable[[BindingCycle, Binding], None] | None = None) -> None:
        """Run the binding cycle: write the decision, or undo it. Raises nothing but cancellation.

        If only the default binding is left once PreBind has run, `write` is called with it, and the caller finishes the
        cycle; None: the binding is written here.
        """
        if self._bind_outside is not None or not cycle.framework.binds_by_default:
            write = None
        try:
            status = await self._prepare(cycle)
            if status is None and self._cache.table.get(cycle.node_name) is None:
                # The apiserver would bind it all the same, to be deleted with all pods of nodes that are gone.
                status = error_status(f'node "{cycle.node_name}" was deleted before the pod was bound to it')
            if status is None:
                cycle.bind_started = self._clock.now()
                if write is None:
                    status = await self._bind(cycle)
        except MemoryError:
            raise
        except Exception as error:  # a bug of ours must cost this pod an attempt, and not its place in the queue
            log.exception("binding cycle failed", extra={"pod": cycle.pod.key})
            status = error_status(f"binding cycle failed: {type(error).__name__}", error)
        except BaseException:
            self._waiting_pods.remove(cycle.pod.uid)
            raise
        if status is None and write is not None:
            metadata = cycle.queued.pod_info.pod.metadata
            write(cycle, Binding(metadata.namespace, metadata.name, metadata.uid, cycle.node_name))
        else:
            self.finish_binding(cycle, status)

    def direct_binding(self, cycle: BindingCycle) -> Binding | None:
        """Return the binding if only that is left to write, else None; queued status patches of the pod are dropped."""
        if self._bind_outside is not None or not cycle.only_binds:
            return None
        metadata, known = cycle.queued.pod_info.pod.metadata, self._statuses.known
        if known and metadata.uid in known:
            self._statuses.withdraw(metadata.uid)
        return Binding(metadata.namespace, metadata.name, metadata.uid, cycle.node_name)

    def finish_binding(self, cycle: BindingCycle, outcome: Status | APIError | None) -> None:
        """End the cycle of a pod that is bound, or that is not because of `outcome`: then the decision is given back.

        The pod's attempt ends whatever fault that meets.
        """
        try:
            if cycle.waits:
                self._waiting_pods.remove(cycle.queued.pod_info.uid)
            if outcome is None:
                self._bound(cycle)
            elif isinstance(outcome, Status):
                self._not_bound(cycle, outcome)
            else:
                self._not_bound(cycle, not_bound(outcome))
        except MemoryError:
            raise
        except Exception:
            log.exception("the work after a binding failed", extra={"pod": cycle.pod.key, "bound": outcome is None})
            if outcome is None:
                self._queue.done(cycle.pod.uid)
                self._cache.finish_binding(cycle.pod.uid, self._clock.now())
                self._statuses.forget(cycle.pod.uid)
                return
            self._cache.forget(cycle.pod.uid)
            if cycle.queued.pool is not Pool.GONE:
                self._queue.requeue_after_error(cycle.queued, self._clock.now())

    async def _prepare(self, cycle: BindingCycle) -> Status | None:
        """Do what comes before Bind. Returns None if the pod may be bound."""
        pod, node_name = cycle.queued.pod_info, cycle.node_name
        # 1. Is there anything to do before the pod can be bound?
        status, has_pre_bind = self._pre_flight(cycle)
        # 2. Then the pod's nominated node is written for others to see; and Permit plugins may have asked to wait.
        if status is None and (has_pre_bind or cycle.waits):
            status = await self._wait_on_permit(cycle)
        # 3. PreBind.
        if status is None and has_pre_bind:
            on_turn = partial(self._pre_binds.note_turn, pod.uid)
            pre_bind = cycle.framework.run_pre_bind(cycle.state, pod, node_name, on_turn)
            status = await self._pre_binds.run(pod.uid, pre_bind)
        if status is None:
            self._statuses.withdraw(pod.uid)
        return status

    async def _bind(self, cycle: BindingCycle) -> Status | None:
        if self._bind_outside is not None:
            status = await self._bind_outside(cycle.pod, cycle.node_name)
            if code_of(status) is not Code.SKIP:
                return status
        with self._quick_steps.step():
            return await cycle.framework.run_bind(cycle.state, cycle.pod, cycle.node_name)

    def _pre_flight(self, cycle: BindingCycle) -> tuple[Status | None, bool]:
        """Return the fault of a PreBind plugin, or None, and whether any PreBind plugin has something to do."""
        status = cycle.framework.run_pre_bind_pre_flights(cycle.state, cycle.queued.pod_info, cycle.node_name)
        if status is None:
            return None, True
        return (None if status.code is Code.SKIP else status), False

    async def _wait_on_permit(self, cycle: BindingCycle) -> Status | None:
        """Write the pod's nomination, then wait for the Permit plugins that answered WAIT, if any did."""
        if not cycle.waits:
            with self._quick_steps.step():
                await self._statuses.nominate(cycle.queued.pod_info.pod, cycle.node_name)
            return None
        started = self._clock.now()
        waiting = self._waiting_pods.get(cycle.pod.uid)
        if waiting is None:
            raise InternalError(f"pod {cycle.pod.key} was to wait for {sorted(cycle.waits)}, but does not")
        await self._statuses.nominate(cycle.pod.pod, cycle.node_name)
        status = await waiting.wait()
        self._waiting_pods.remove(cycle.pod.uid)
        self._measure.permit_waited(STATUS_LABELS[code_of(status)], self._clock.now() - started)
        return None if status is None else not_allowed(status)

    def _bound(self, cycle: BindingCycle) -> None:
        pod, now = cycle.queued.pod_info, self._clock.now()
        uid, refused_pods = pod.uid, self._refused_pods
        self._queue.done(uid)
        self._cache.finish_binding(uid, now)
        refused_pods.bound_at = now
        if refused_pods.refused_at:
            refused_pods.bound()
        if self._decisions is not None:
            self._decisions.bound(uid, now)
        if uid in self._statuses.known:
            self._statuses.forget(uid)
        faults = () if cycle.only_binds else cycle.framework.run_post_bind(cycle.state, pod, cycle.node_name)
        for fault in faults:
            log.error("post-bind plugin failed", extra={"pod": pod.key, "plugin": fault.plugin, "err": fault.message})
        self._measure.scheduled(
            cycle.framework.profile,
            attempt_s=now - cycle.started,
            bind_s=now - (cycle.bind_started or cycle.started),
            since_first_attempt_s=now - (cycle.queued.initial_attempt_timestamp or cycle.started),
            attempts=cycle.queued.attempts,
        )
        if cycle.queued.was_flushed:
            self._measure.scheduled_after_flush()
        if cycle.state.pods_to_activate:
            self._activate(cycle.state)
        self._recorder.record_scheduled(pod.pod, cycle.node_name)
        if log.isEnabledFor(OUTCOME):
            log.log(OUTCOME, "pod bound", extra={"pod": pod.key, "node": cycle.node_name})

    def _not_bound(self, cycle: BindingCycle, status: Status) -> None:
        if isinstance(status.error, Conflict):
            self._measure.bind_conflict()
        if cycle.only_binds or cycle.bind_started:
            bind_s = self._clock.now() - (cycle.bind_started or cycle.started)
            self._measure.bind_failed(cycle.framework.profile, bind_s)
        if isinstance(status.error, NotFound):
            log.info("pod was deleted before it was bound", extra={"pod": cycle.pod.key, "node": cycle.node_name})
        self._give_back(cycle)
        self._reject(cycle.queued, cycle.framework, status, cycle.started)
        self._refused_pods.refused(cycle.pod.uid, status.error)

    def _give_back(self, cycle: BindingCycle) -> None:
        """Undo Reserve and assume, and requeue the rejected pods that the released room may help."""
        is_free = self._undo(cycle)
        if not (is_free or cycle.only_binds):  # the watch had removed the pod before plugins gave back what they kept
            is_free = self._cache.get(cycle.pod.uid) is None
        if is_free:
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, cycle.pod.pod, None, self._clock.now())

    def _undo(self, cycle: BindingCycle) -> bool:
        """Undo Reserve and assume. Returns True if the pod was still assumed."""
        faults = () if cycle.only_binds else cycle.framework.run_unreserve(cycle.state, cycle.pod, cycle.node_name)
        for fault in faults:
            log.error("unreserve plugin failed", extra={"pod": cycle.pod.key, "err": fault.message})
        return self._cache.forget(cycle.pod.uid)

    # --- a pod that goes nowhere ---

    def _reject(
        self,
        queued: QueuedPodInfo,
        framework: Framework,
        status: Status,
        started: float,
        rejection: Rejection | None = None,
    ) -> None:
        """Put the pod back in the queue, and report it: metrics, an Event, the pod's condition."""
        pod, now = queued.pod_info, self._clock.now()
        is_fault = not status.is_rejected
        if rejection is None and self._decisions is not None:
            self._decisions.sent_back(pod.uid, status, now)
        if isinstance(status.error, NotLeading):  # the next leader decides about the pod, and reports what it decides
            log.debug("pod is left to the next leader", extra={"pod": pod.key})
            self._queue.requeue_after_error(queued, now)
            return
        self._measure.not_scheduled(framework.profile, "error" if is_fault else "unschedulable", now - started)
        if not self._is_still_pending(pod):
            self._queue.done(pod.uid)
            self._nominations.remove(pod.uid)
            return
        if is_fault:
            self._failures.log(pod.key, status, now)
            self._queue.requeue_after_error(queued, now)
        else:
            log.debug("pod fits no node", extra={"pod": pod.key, "reason": status.message})
            plugins, pending = _blamed(status, rejection)
            self._queue.add_unschedulable_if_not_present(queued, now, plugins, pending)
        # The next decision must heed the nomination, whenever the watch shows it; from now on the newest object counts.
        nomination = "" if rejection is None else rejection.nomination
        self._nominations.nominate(queued.pod_info, nomination)
        self.report_not_scheduled(queued.pod_info.pod, status, nomination)

    def _is_still_pending(self, pod: PodInfo) -> bool:
        """Return True if the watch still shows the pod, with this uid, without a node."""
        current = self._current_pod(pod.key)
        return current is not None and current.metadata.uid == pod.uid and not current.spec.node_name

    def _record_event(self, pod: Pod, type: str, reason: str, action: str, note: str) -> None:
        controller = pod.spec.scheduler_name
        self._recorder.record(pod, type=type, reason=reason, action=action, note=note, controller=controller)

    def report_not_scheduled(self, pod: Pod, status: Status, nomination: str | None = None) -> None:
        """Report why a pod has no node: an Event, and its condition. `nomination`: None to leave it as it is."""
        message = status.message
        self._record_event(pod, "Warning", "FailedScheduling", "Scheduling", message)
        reason = "Unschedulable" if status.is_rejected else "SchedulerError"
        self._statuses.patch(pod, self._not_scheduled_condition(pod, reason, message), nomination)

    def _not_scheduled_condition(self, pod: Pod, reason: str, message: str) -> PodCondition:
        before = next((old for old in pod.status.conditions or () if old.type == "PodScheduled"), None)
        changes = before is None or before.status != "False"
        return PodCondition(
            type="PodScheduled",
            status="False",
            reason=reason,
            message=message,
            last_transition_time=rfc3339(self._clock.wall()) if changes else None,
            observed_generation=pod.metadata.generation,
        )


def _blamed(status: Status, rejection: Rejection | None) -> tuple[set[str], set[str]]:
    """Return the plugins whose events may help the pod, and those whose events requeue it without backoff."""
    if rejection is not None:
        return rejection.diagnosis.unschedulable_plugins, rejection.diagnosis.pending_plugins
    if status.code is Code.PENDING:
        return set(), {status.plugin}
    return {status.plugin}, set()
