"""A gang's scheduling cycle: plans all its members in one step, then begins all their bindings, or none.

It never awaits, so that no other decision comes between. If the minimum is not reached, everything is taken back; each
member returns to the queue with the reason, and the gang after them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from kscheduler.api.objects import Pod
from kscheduler.clock import Clock
from kscheduler.cycle.schedule_batch import ScheduleBatch
from kscheduler.cycle.schedule_one import NO_STATE, BindingCycle, ScheduleOne
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.search_outcomes import Rejection
from kscheduler.framework.status import Status, error_status, unschedulable
from kscheduler.gangs.domains import DomainIndex
from kscheduler.gangs.faces import Helpful
from kscheduler.gangs.gang import PLUGIN
from kscheduler.gangs.gang_queue import GangQueue, Outcome
from kscheduler.gangs.member_reviews import NOTHING_NOTED, MemberReviews
from kscheduler.gangs.planner import MOST_KINDS, Failed, Plan, Planner
from kscheduler.gangs.preemption.whole import NOT_TRIED, Answer, WholePreemption
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.reports import GangReports
from kscheduler.gangs.reservations import Reservations
from kscheduler.gangs.stand_in import StandIn
from kscheduler.gangs.texts import not_in_one_domain, not_permitted, not_placed, other_pod_failed, too_few
from kscheduler.gangs.topology_planner import TopologyPlanner
from kscheduler.gangs.tracked_gang import Stage, TrackedGang
from kscheduler.gangs.undo_log import Placed
from kscheduler.queue.pod_info import NOBODY, QueuedPodInfo

log = logging.getLogger(__name__)


class Ended(NamedTuple):
    """How an attempt ended, and why it failed."""

    outcome: Outcome
    text: str = ""
    waits: bool = False  # until the pods are gone that are evicted for the gang


class GangCycle:
    """Decides gangs. `dispatch` starts the binding of a decided member."""

    def __init__(
        self,
        queue: GangQueue,
        registry: Registry,
        planner: Planner,
        one: ScheduleOne,
        *,
        dispatch: Callable[[BindingCycle], None],
        clock: Clock,
        stopwatch: Callable[[], float],
        reports: GangReports | None = None,
        preemption: WholePreemption | None = None,
        domains: DomainIndex | None = None,
        reservations: Reservations | None = None,
        reviews: MemberReviews | None = None,
    ) -> None:
        """`preemption`: evicts pods for gangs that do not fit; None: nobody is evicted. `domains`: of node labels.

        `reservations`: room for gangs that have failed for long; None: none is kept. `reviews`: of members that are to
        be explained; None: none is.
        """
        self.planner = planner
        planner.reviews = self._reviews = reviews
        self._topology = None if domains is None else TopologyPlanner(planner, domains, planner.nomination_of)
        self._preemption = preemption
        self.reservations = reservations
        self._noted = NOTHING_NOTED  # of the attempt that is under way
        self._queue = queue
        self._registry = registry
        self._one = one
        self._dispatch = dispatch
        self._clock = clock
        self._stopwatch = stopwatch
        self._reports = reports

    def run(self, stand_in: StandIn) -> None:
        """Decide a gang in flight. A fault costs it an attempt, and nobody else anything."""
        began = self._stopwatch()
        self._noted = NOTHING_NOTED
        if self.reservations is not None:
            self.reservations.begin(stand_in.gang_key)
        try:
            ended = self._run(stand_in)
        except MemoryError:
            raise
        except Exception as error:
            log.exception("a gang could not be decided; it is tried again", extra={"gang": str(stand_in.gang_key)})
            self._queue.return_gang(stand_in, Outcome.FAULT, self._clock.now())
            ended = Ended(Outcome.FAULT, f"a fault of the scheduler: {type(error).__name__}")
        if self.reservations is not None:
            outcome, waits = (None, False) if ended is None else (ended.outcome, ended.waits)
            self.reservations.finish(stand_in.gang_key, outcome, evicts=waits)
        if ended is not None and self._reports is not None:
            seconds, profile = self._stopwatch() - began, stand_in.pod_info.pod.spec.scheduler_name
            self._reports.tried(stand_in.gang_key, ended.outcome, ended.text, seconds, self._noted.stopped_by)
            self._reports.measured(stand_in.gang_key, ended.outcome, profile, seconds, waits=ended.waits)

    def _run(self, stand_in: StandIn) -> Ended | None:
        started = self._clock.now()
        members = self._one.leave_out(list(stand_in.flying.values()))
        tracked = self._registry.get(stand_in.gang_key)
        if not members or tracked is None:
            self._queue.return_gang(stand_in, Outcome.PLACED, started)
            return None
        # At least one pod is needed: else surplus without a node would count as a success for ever.
        missing = max(self._missing(tracked), 1)
        plan = self._plan(tracked, members, missing)
        if plan.reaches(missing):
            return self._commit(stand_in, plan, missing, started)
        return self._reject(stand_in, plan, missing, started)

    def _plan(self, tracked: TrackedGang, members: Sequence[QueuedPodInfo], missing: int) -> Plan:
        topology = None if tracked.gang is None else tracked.gang.topology
        if topology is None or self._topology is None:
            return self.planner.plan(members, missing)
        return self._topology.plan(topology, members, missing, self._nodes_of(tracked))

    def _nodes_of(self, tracked: TrackedGang) -> list[str]:
        """Return the nodes of members that are placed and stay."""
        states = (
            self.planner.cache.get(uid)
            for uid, member in tracked.members.items()
            if member.stage in (Stage.ASSUMED, Stage.BOUND) and not self._is_leaving(member.pod)
        )
        return [state.node_name for state in states if state is not None]

    def _missing(self, tracked: TrackedGang) -> int:
        """Return how many members must be placed to reach the minimum. Those on nodes that are leaving do not count."""
        leaving = sum(
            member.stage in (Stage.ASSUMED, Stage.BOUND) and self._is_leaving(member.pod)
            for member in tracked.members.values()
        )
        return max(tracked.min_members - (tracked.placed - leaving), 0)

    def _is_leaving(self, pod: Pod) -> bool:
        if self._preemption is None:
            return pod.metadata.deletion_timestamp is not None
        return self._preemption.is_leaving(pod)

    def _commit(self, stand_in: StandIn, plan: Plan, missing: int, started: float) -> Ended:
        """Begin the bindings of the placed members; the surplus that has no node waits."""
        # 1. Permit plugins may reject members; none is bound before all have been asked.
        held = self._hold(plan, started)
        failed = plan.failed
        if self._still_evicts(stand_in, failed):  # the room that they wait for stays theirs
            failed = [Failed(each.queued, _nominated_as_before(each.rejection), each.has_node) for each in failed]
        self._return_failed(failed, started)
        if len(held) < missing:
            self._note(plan)
            return self._give_up(stand_in, held, missing, started)
        # 2. Bind.
        self._remember(plan, held, started)
        for cycle in held:
            self._bind(cycle)
        # 3. The surplus preempts together, in an attempt of its own: no event need come before it.
        self._return(stand_in, Outcome.PLACED, () if self._may_preempt(stand_in, plan.failed) else plan.failed)
        return Ended(Outcome.PLACED)

    def _may_preempt(self, stand_in: StandIn, failed: Sequence[Failed]) -> bool:
        """Return True if there may be pods to evict for members that fitted nowhere, while others were placed."""
        tracked = self._registry.get(stand_in.gang_key)
        members = [each.queued for each in failed if each.queued.uid in stand_in.arrivals]
        if self._preemption is None or tracked is None or not members:
            return False
        return self._preemption.may_begin(tracked, stand_in.pod_info, members)

    def _still_evicts(self, stand_in: StandIn, failed: Sequence[Failed]) -> bool:
        """Return True if pods are being evicted for some of the members that have no node yet."""
        tracked = self._registry.get(stand_in.gang_key)
        if self._preemption is None or tracked is None or not failed:
            return False
        return self._preemption.still_evicts(tracked, stand_in.pod_info, [each.queued for each in failed])

    def _hold(self, plan: Plan, started: float) -> list[BindingCycle]:
        """Run Permit for all placed members. Returns the cycles of those that no plugin rejected."""
        held: list[BindingCycle] = []
        try:
            for placed in plan.placed:
                cycle = self._one.hold_reserved(_cycle_of(placed, started))
                if cycle is not None:
                    held.append(cycle)
        except BaseException:
            for cycle in held:
                self._one.withdraw(cycle)
            withdrawn = {cycle.pod.uid for cycle in held}
            for placed in [each for each in plan.placed if each.queued.uid not in withdrawn]:
                plan.placed.take_back(placed)
            raise
        return held

    def _remember(self, plan: Plan, held: Sequence[BindingCycle], started: float) -> None:
        """Record the decisions, so that `kscheduler explain` can say why a member is where it is."""
        uids = {cycle.pod.uid for cycle in held}
        placed = [each for each in plan.placed if each.queued.uid in uids]
        if self._reviews is not None:
            self._reviews.placed(placed, plan.within)
        nodes, feasible = [each.node_name for each in placed], [each.feasible for each in placed]
        self._one.record_placed([each.queued for each in placed], nodes, feasible, started)

    def _bind(self, cycle: BindingCycle) -> None:
        """Start the binding of a member; a fault costs it an attempt, and the others go on."""
        try:
            self._dispatch(cycle)
        except MemoryError:
            raise
        except Exception:
            log.exception("the binding of a gang's member could not begin", extra={"pod": cycle.pod.key})
            self._one.withdraw(cycle)
            self._queue.requeue_after_error(cycle.queued, self._clock.now())

    def _give_up(self, stand_in: StandIn, held: Sequence[BindingCycle], missing: int, started: float) -> Ended:
        """Release what is held, since Permit plugins have rejected too many members, which are in the queue already."""
        rejecting = [
            queued.unschedulable_plugins for uid, queued in stand_in.flying.items() if uid in stand_in.arrivals
        ]
        status = unschedulable(not_permitted(stand_in.gang_key, missing, len(held))).of(PLUGIN)
        self._noted = self._noted._replace(stopped_by="")  # it is Permit plugins that stop it
        for cycle in held:
            self._one.withdraw(cycle)
            self._settle(cycle.queued, _rejection(status), started)
        self._queue.return_gang(stand_in, Outcome.REJECTED, self._clock.now(), frozenset().union(*rejecting) - {PLUGIN})
        return Ended(Outcome.REJECTED, status.message)

    def _reject(self, stand_in: StandIn, plan: Plan, missing: int, started: float) -> Ended:
        """Take back what was placed; every member returns to the queue with a reason."""
        self._note(plan)
        would_fit = [placed.queued for placed in plan.placed]
        tracked, room = self._registry.get(stand_in.gang_key), self.reservations
        nodes = None
        if room is not None and tracked is not None and plan.fault is None and self._missing(tracked):
            nodes = room.nodes_to_watch(stand_in, tracked, plan)
        answer = self._preempt(stand_in, plan, missing)
        if room is not None and tracked is not None and nodes is not None and not answer.nominations:
            room.look(stand_in, tracked, self._returning(stand_in), plan, missing, nodes)
        status, outcome = self._why(stand_in, plan, missing, len(would_fit))
        status = _with_text(status, answer.text)
        nominated = answer.nominations
        if room is not None and stand_in.gang_key in room.held and not answer.evicts:
            nominated = {}  # its room is what is reserved, whatever its pods' statuses show of earlier evictions
        for each in [*plan.failed, *([] if plan.fault is None else [plan.fault])]:
            rejection = each.rejection
            # That it fits on no node of one domain says nothing about the others.
            status_of_its_own = status if plan.refusal else _with_text(rejection.status, answer.text)
            nomination = nominated.get(each.queued.uid, "")
            self._settle(each.queued, Rejection(status_of_its_own, rejection.diagnosis, nomination), started)
        for queued in (*would_fit, *plan.not_tried):
            self._settle(queued, _rejection(status, nominated.get(queued.uid, "")), started)
        # The placed ones would perhaps go elsewhere, and leave their nodes to those that failed.
        elsewhere = [*would_fit, *plan.not_tried] if plan.domains else would_fit
        self._return(stand_in, outcome, plan.failed, self._rejecting(stand_in, plan), elsewhere)
        return Ended(outcome, status.message, waits=answer.evicts)

    def _rejecting(self, stand_in: StandIn, plan: Plan) -> Set[str]:
        """Return the plugins that may have rejected members in domains that were not looked at; Gangs, for labels."""
        if not plan.refusal:
            return NOBODY
        if not plan.domains:
            # Nodes with the labels help, or that the placed pods of the gang go elsewhere, which any event may mean.
            tracked = self._registry.get(stand_in.gang_key)
            return {PLUGIN} if tracked is not None and not tracked.placed else NOBODY
        framework = self._one.decider_of(stand_in.pod_info)
        return {*framework.pre_filters, *framework.filters, PLUGIN}

    def _preempt(self, stand_in: StandIn, plan: Plan, missing: int) -> Answer:
        """Evict pods for the gang if that helps, and take back what was placed."""
        tracked = self._registry.get(stand_in.gang_key)
        is_possible = plan.failed or plan.domains
        if self._preemption is None or tracked is None or plan.fault is not None or not is_possible:
            plan.placed.undo()
            return NOT_TRIED
        members = self._returning(stand_in)
        wanted = missing if self._missing(tracked) else len(members)  # surplus needs no number of nodes at once
        return self._preemption.look(tracked, stand_in.pod_info, members, plan, missing, wanted=wanted)

    def _returning(self, stand_in: StandIn) -> list[QueuedPodInfo]:
        """Return the members in flight that have not been deleted meanwhile."""
        return [queued for queued in stand_in.flying.values() if self._queue.will_return(queued.uid)]

    def _why(self, stand_in: StandIn, plan: Plan, missing: int, would_fit: int) -> tuple[Status, Outcome]:
        """Return the status of members that are not at fault themselves, and how the attempt ended."""
        if plan.fault is not None:
            fault = plan.fault.rejection.status
            return error_status(other_pod_failed(fault.message), fault.error), Outcome.FAULT
        if plan.refusal:
            name, why = "", ""
            if plan.failed:
                first = plan.failed[0]
                name, why = first.queued.pod_info.pod.metadata.name, first.rejection.message
            text = not_in_one_domain(stand_in.gang_key, plan.refusal, name, why)
            return unschedulable(text).of(PLUGIN), Outcome.REJECTED
        if not plan.failed:
            text = too_few(stand_in.gang_key, missing, would_fit + len(plan.not_tried))
            return unschedulable(text).of(PLUGIN), Outcome.REJECTED
        first = plan.failed[0]
        name = first.queued.pod_info.pod.metadata.name
        text = not_placed(stand_in.gang_key, missing, would_fit, name, first.rejection.message)
        return unschedulable(text).of(PLUGIN), Outcome.REJECTED

    def _return_failed(self, failed: Sequence[Failed], started: float) -> None:
        for each in failed:
            self._settle(each.queued, each.rejection, started)

    def _note(self, plan: Plan) -> None:
        """Keep what `kscheduler explain` says of a rejected gang: who would have fitted, and who stopped it."""
        if self._reviews is not None:
            self._noted = self._reviews.noted(self._plans_of(plan))

    def _plans_of(self, plan: Plan) -> Sequence[Plan]:
        """Return the plans of the gangs that are decided together."""
        return [plan]

    def _settle(self, queued: QueuedPodInfo, rejection: Rejection, started: float) -> None:
        fitted = self._noted.fitted.get(queued.uid)
        if fitted is not None and not rejection.diagnosis.total_nodes:
            rejection = replace(rejection, diagnosis=replace(rejection.diagnosis, fitted=fitted))
        framework = self._one.decider_of(queued.pod_info)
        self._one.settle(queued, framework, CycleState(), rejection, started, looks_back=False)

    def _return(
        self,
        stand_in: StandIn,
        outcome: Outcome,
        failed: Sequence[Failed],
        rejecting: Set[str] = NOBODY,
        elsewhere: Sequence[QueuedPodInfo] = (),
    ) -> None:
        """Return the gang, to wait for what may help a member that failed, or one in `elsewhere` to get another node.

        `rejecting`: plugins that may have rejected members beside those that are known to.
        """
        first: QueuedPodInfo | None = None
        plugins: Set[str] = rejecting
        pending: Set[str] = NOBODY
        others: Sequence[Helpful] = ()
        kinds = self._kinds_of(failed, rejecting)
        if elsewhere and (failed or rejecting):
            self._add_kinds(kinds, stand_in, elsewhere)
        if kinds:
            (first, plugins, pending), *others = kinds.values()
        self._queue.return_gang(stand_in, outcome, self._clock.now(), plugins, pending, first, others)

    def _kinds_of(self, failed: Sequence[Failed], rejecting: Set[str]) -> dict[object, Helpful]:
        """Return one member of each kind that failed, in order, with the plugins that rejected any of the kind."""
        kinds: dict[object, Helpful] = {}
        for each in failed:
            diagnosis, kind = each.rejection.diagnosis, self.planner.kind_of(each.queued)
            known = kinds.get(kind) or Helpful(each.queued, rejecting, NOBODY)
            if not known.plugins >= diagnosis.unschedulable_plugins or diagnosis.pending_plugins:
                plugins = known.plugins | diagnosis.unschedulable_plugins
                known = Helpful(known.member, plugins, known.pending_plugins | diagnosis.pending_plugins)
            kinds[kind] = known
        return kinds

    def _add_kinds(self, kinds: dict[object, Helpful], stand_in: StandIn, elsewhere: Sequence[QueuedPodInfo]) -> None:
        """Add members of further kinds, which any plugin that judges nodes may keep from better ones."""
        framework = self._one.decider_of(stand_in.pod_info)
        plugins = {*framework.pre_filters, *framework.filters, PLUGIN}
        most = len(kinds) + MOST_KINDS
        for queued in elsewhere:
            kind = self.planner.kind_of(queued)
            if kind not in kinds:
                kinds[kind] = Helpful(queued, plugins)
            if len(kinds) == most:
                break


def _cycle_of(placed: Placed, started: float) -> BindingCycle:
    state = NO_STATE if placed.state is None else placed.state
    return BindingCycle(placed.queued, placed.framework, state, placed.node_name, started, placed.state is None)


def _rejection(status: Status, nomination: str = "") -> Rejection:
    """Return a rejection with a status that no node gave."""
    diagnosis = Diagnosis(0)
    diagnosis.blame(status)
    return Rejection(status, diagnosis, nomination)


def _nominated_as_before(rejection: Rejection) -> Rejection:
    """Return the rejection of a pod that keeps its nomination."""
    return Rejection(rejection.status, rejection.diagnosis, None)


def _with_text(status: Status, text: str) -> Status:
    """Return a status whose message is followed by a text; "" for none."""
    if not text:
        return status
    return Status(status.code, (f"{status.message} {text}",), status.plugin, status.error)


class GangBatch(ScheduleBatch):
    """Decides pods as ScheduleBatch does, and gangs, which the queue returns alone, by their own cycle."""

    gangs: GangCycle  # set by who builds it

    def run(self, now: float, most: int) -> int:
        reservations = self.gangs.reservations
        if reservations is not None:
            reservations.wake_others()
        return super().run(now, most)

    def _decide(self, popped: Sequence[QueuedPodInfo], now: float) -> int:
        first = popped[0]
        if type(first) is not StandIn:
            return super()._decide(popped, now)
        members = len(first.flying)
        self.gangs.run(first)
        return members

    def _alone(self, queued: QueuedPodInfo) -> bool:
        if type(queued) is not StandIn:
            return super()._alone(queued)
        self.gangs.run(queued)
        return True
