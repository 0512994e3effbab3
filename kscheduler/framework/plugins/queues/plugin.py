"""Queues at its extension points: PreFilter asks the pod's queue, PostFilter gets it room by the rules of queues.

The rules are KAI-Scheduler's (`quotas`). It has no Reserve: what pods use is counted by `ShareQueues` when the cache
assumes and forgets them. The order in which queues get their turn is the active queue's (`queue/queues_in_turn.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from kscheduler.api.objects import Pod
from kscheduler.config.queues import QUEUES
from kscheduler.errors import DecodeError, InternalError
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import Candidate, Findings
from kscheduler.framework.events import ONE_GROUP, SHARE_QUEUES, Action, ClusterEvent, EventResource, Registration
from kscheduler.framework.interface import Handle, PostFilterSteps, PreFilterResult
from kscheduler.framework.plugins.queues.consolidation import Consolidation
from kscheduler.framework.plugins.queues.kept_room import nodes_kept
from kscheduler.framework.plugins.queues.new_places import UID_PREFIX
from kscheduler.framework.plugins.queues.texts import refusal
from kscheduler.framework.plugins.queues.use_to_come import use_to_come
from kscheduler.framework.plugins.queues.victims import Preempting, Reclaiming, Way, no_victims
from kscheduler.framework.preemption.candidates import Cost, cost, least_cost
from kscheduler.framework.preemption.evaluator import PostFilterAnswer
from kscheduler.framework.preemption.within_quotas import QuotaPreemption
from kscheduler.framework.status import Status, unresolvable, unschedulable
from kscheduler.quotas.kept_places import KeptPlace
from kscheduler.quotas.pod_demand import NO_QUEUE, Demand
from kscheduler.quotas.share_room import ShareRoom
from kscheduler.quotas.share_view import ShareView
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

NAME = QUEUES
NO_NODES: Set[str] = frozenset()
ROOM_KEPT = unresolvable("Room there is kept for pods of other queues")


@dataclass(frozen=True, slots=True)
class QueueCheck:
    """What PreFilter found: the pod's demand, and the view of what queues use. It belongs to its cycle state."""

    demand: Demand
    view: ShareView
    are_others_moving: bool = False  # whose places are kept
    kept: Set[str] = NO_NODES  # names of nodes whose room is meant for other pods, and not for this one

    def clone(self) -> QueueCheck:
        return replace(self, view=self.view.clone())


class Queues(QuotaPreemption):
    name = NAME

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle, NAME)
        if handle.share_queues is None:
            raise InternalError(f"the plugin {NAME} was to be built where no queues with shares are kept")
        self._queues = queues = handle.share_queues
        self._consolidation = Consolidation(handle, queues) if queues.moves.most else None

    # --- the queue ---

    def events_to_register(self) -> Sequence[Registration]:
        """Register for what may make a queue take a pod, or give it room: pods that go or shrink, and Queue objects."""
        return (
            Registration(ClusterEvent(EventResource.POD, Action.DELETE)),
            Registration(ClusterEvent(EventResource.POD, Action.UPDATE_POD_SCALE_DOWN), self._after_resize, ONE_GROUP),
            Registration(ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_LABEL)),
            Registration(ClusterEvent(SHARE_QUEUES, Action.ALL)),
        )

    def _after_resize(self, waiting: Pod, old: object, new: object) -> bool:
        """Return True if the pod that requests less is the waiting one, or is on a node and in a queue."""
        if not isinstance(new, Pod) or new.metadata.uid == waiting.metadata.uid:
            return True
        return bool(new.spec.node_name) and self._queues.demands.queue_of(new) != NO_QUEUE

    # --- the compiled lane ---

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        try:
            demand = self._queues.demands.of(pod.pod)
        except DecodeError:  # PreFilter reports it
            return None
        return demand.queue, tuple(demand.amounts.items()), demand.is_preemptible

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        """Leave the choice of nodes to kernels: `admitted` says how many pods they may place."""
        return True

    def admitted(self, profile: str, pods: Sequence[PodInfo]) -> int:
        """Return how many of the leading pods PreFilter would pass, each with those before it counted.

        Beside nominated pods none in a queue is, since PreFilter compares those together with them.
        """
        return len(pods) if self._are_all_admitted(profile, pods) else self._admitted_one_by_one(profile, pods)

    def _are_all_admitted(self, profile: str, pods: Sequence[PodInfo]) -> bool:
        """Return True if queues take all these pods together: then they do each after those before it.

        False if there are pods of other profiles, which are not limited.
        """
        if len(self._handle.profiles) > 1 and any(pod.pod.spec.scheduler_name != profile for pod in pods):
            return False
        demands = self._queues.by_demand([pod.pod for pod in pods])
        if self._keeps_room():
            return all(demand.queue == NO_QUEUE for demand, _ in demands)
        return self._queues.turns.admit(demands)

    def _admitted_one_by_one(self, profile: str, pods: Sequence[PodInfo]) -> int:
        queues, room, keeps_room = self._queues, ShareRoom(self._queues), self._keeps_room()
        for number, pod in enumerate(pods):
            demand = queues.demand_of(pod.pod)
            if demand.queue == NO_QUEUE:
                continue
            if pod.pod.spec.scheduler_name == profile and (keeps_room or not room.has(demand)):
                return number
            room.count(demand)  # one of another profile is not limited, and counts all the same
        return len(pods)

    def _keeps_room(self) -> bool:
        """Return True if there are nominated pods, or places that are kept: PreFilter heeds these, kernels do not."""
        moves = self._consolidation
        return bool(self._handle.nominations.by_pod) or (moves is not None and moves.keeps_places())

    # --- the cycle ---

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        queues = self._queues
        demand, view = queues.demands.of(pod.pod), ShareView(queues)
        moves = self._consolidation
        places: Sequence[KeptPlace] = ()
        are_others_moving = False
        if moves is not None and moves.keeps_places():
            places = list(queues.moves.places.before(pod.pod, demand))
            are_others_moving = any(queues.moves.places.besides((pod.pod,)))
        table, nominations = self._handle.table, self._handle.nominations.by_pod
        kept: Set[str] = NO_NODES
        if demand.queue != NO_QUEUE and (nominations or places):
            kept = nodes_kept(table, nominations.values(), queues.demands, pod, demand, places)
        state.write(NAME, QueueCheck(demand, view, are_others_moving, kept))
        if demand.queue == NO_QUEUE:
            return None, None
        why = queues.why_unusable(demand.queue)
        if why:
            return None, unresolvable(why)
        for nomination in nominations.values():
            other = nomination.pod
            is_before = other.uid != pod.uid and other.priority >= pod.priority
            if is_before and table.get(nomination.node_name) is not None:
                view.add(other.pod)
        for place in places:
            if place.demand.priority >= demand.priority and queues.charged(place.uid) is None:
                view.add_demand(UID_PREFIX + place.uid, place.demand)
        refused = view.why_refused(demand)
        if refused is not None:
            queues.refresh()
            return None, unschedulable(refusal(refused, demand))
        return PreFilterResult(frozenset(table.names()) - kept - {""}) if kept else None, None

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        state.read(NAME, QueueCheck).view.add(other.pod)
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        state.read(NAME, QueueCheck).view.remove(other.uid)
        return None

    # --- preemption ---

    def post_filter(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> PostFilterAnswer:
        self._retry_after_moves(state, pod)
        return super().post_filter(state, pod, statuses)

    def propose(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> PostFilterSteps:
        self._retry_after_moves(state, pod)
        return super().propose(state, pod, statuses)

    def _retry_after_moves(self, state: CycleState, pod: PodInfo) -> None:
        """Have the pod tried again when moved pods should have got nodes, if others are on their way.

        It may have to leave them their places, or its queue may have to leave them its share.
        """
        check = state.get(NAME, QueueCheck)
        if check is not None and check.are_others_moving and self._consolidation is not None:
            self._consolidation.retry_after_moves(pod)

    def _could_evict(self, state: CycleState, other: PodInfo, pod: PodInfo) -> bool:
        demand = state.read(NAME, QueueCheck).demand
        if demand.queue == NO_QUEUE:
            return other.priority < pod.priority
        theirs = self._queues.charged(other.uid)
        if theirs is None or not theirs.is_preemptible:
            return False
        if self._queues.moves.is_moving(other.uid):
            return True
        return other.priority < pod.priority if theirs.queue == demand.queue else theirs.queue in self._queues.leaves

    def _try_nodes(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], only_best: bool) -> Findings:
        """Try one way after the other; the first in which there is a candidate is taken. Moves come before all."""
        # Where its queue refuses the pod, nodes whose room is kept have not been left out yet.
        check = state.read(NAME, QueueCheck)
        kept = [node.name for node in nodes if node.name in check.kept] if check.kept else []
        if kept:
            nodes = [node for node in nodes if node.name not in check.kept]
        findings = self._try_ways(state, pod, check, nodes, only_best)
        for name in kept:
            findings.add(name, ROOM_KEPT)
        return findings

    def _try_ways(
        self, state: CycleState, pod: PodInfo, check: QueueCheck, nodes: Sequence[NodeInfo], only_best: bool
    ) -> Findings:
        findings = Findings(len(nodes))
        if self._consolidation is not None and self._consolidation.is_possible(check):
            findings = self._consolidation.search(state, pod, check, nodes)
            if findings.candidates:
                return findings
        for way in self._ways(check.demand, pod):
            found = self._try_way(way, state, pod, nodes, only_best)
            if found.candidates:
                return found
            if way.wait_s is not None:
                self._handle.retry(pod, way.wait_s)
            findings = found
        return findings

    def _try_way(
        self, way: Way, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], only_best: bool
    ) -> Findings:
        """Try the nodes in the order of what their victims cost at least, until no other can be cheaper."""
        profile = self._handle.profiles[state.decider or pod.pod.spec.scheduler_name]
        budgets, now = self._handle.budgets, self._handle.evictions.wall()
        # 1. Nodes without a pod that may be evicted need no dry run.
        findings, none, order = Findings(len(nodes)), no_victims(pod), list[tuple[Cost, int]]()
        for number, node in enumerate(nodes):
            exposed = way.exposed(node)
            if exposed:
                order.append((least_cost(exposed, now), number))
            else:
                findings.add(node.name, none)
        # 2. Dry runs. Of equally cheap nodes the first is chosen, so that numbers are compared as well.
        found: dict[int, Candidate | Status] = {}
        best: tuple[Cost, int] | None = None
        for at_least in sorted(order):
            if only_best and best is not None and best <= at_least:
                break
            number = at_least[1]
            what_if = profile.what_if(state, pod, nodes[number].name)
            check = what_if.state.read(NAME, QueueCheck)
            outcome = way.find(what_if, check, nodes[number], budgets, now)
            outcome = found[number] = self._together(outcome, what_if, pod, way.exposes, way.may_take)
            if isinstance(outcome, Candidate):
                own = cost(outcome, now), number
                best = own if best is None else min(best, own)
        for number in sorted(found):
            findings.add(nodes[number].name, found[number])
        return findings

    def _ways(self, demand: Demand, pod: PodInfo) -> list[Way]:
        """Return the ways in which the pod may get room, in order, without those that are known to fail."""
        now = self._handle.evictions.wall()
        ways: list[Preempting | Reclaiming] = [Preempting(self._queues, demand, pod, now)]
        if demand.queue in self._queues.leaves:
            use, ending = use_to_come(self._handle, self._queues, demand.queue, (pod.pod,))
            ways.insert(0, Reclaiming(self._queues, demand, pod, now, use, ending))
        return [way for way in ways if way.is_possible]

    def _why_in_vain(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> str:
        check = state.read(NAME, QueueCheck)
        if self._consolidation is not None and self._consolidation.is_possible(check):
            return ""
        if self._ways(check.demand, pod):
            return ""
        return self._all_fail(no_victims(pod), self._count_promising(statuses))
