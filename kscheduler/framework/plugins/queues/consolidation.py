"""Moves pods to other nodes so that a waiting one fits, where there is room enough, but not on any one node.

KAI-Scheduler calls it consolidation. Pods are evicted only if each of them would have another node at once, in the same
plan: nobody loses anything but the time to start again. So only pods move that a controller creates again, and that are
preemptible, as the waiting pod must be; to whom they belong does not matter. The waiting pod is nominated to the node.

Nothing is moved back and forth: a pod younger than five minutes stays, which pods are that have just been moved, and
longer each time that it is moved (`quotas.stays`); and as long as moved pods are on their way (`quotas.moves`) no
others are. Meanwhile the new places are kept for them (`quotas.kept_places`) from pods that are in queues. What bounds
the cost of a search are the constants below; after one in vain none begins for some time (`Pace`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from kscheduler.api.objects import Pod
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import Candidate, Findings
from kscheduler.framework.interface import Handle, ProfileHandle
from kscheduler.framework.plugins.queues.new_places import NewPlaces, Place
from kscheduler.framework.plugins.queues.victims import Check, no_victims
from kscheduler.framework.preemption.executor import ACCEPTED_S
from kscheduler.framework.preemption.importance import by_importance, created_s
from kscheduler.framework.preemption.pace import Pace
from kscheduler.framework.preemption.sparing import spare
from kscheduler.framework.preemption.violations import split
from kscheduler.framework.status import Status, unresolvable
from kscheduler.quotas.kept_places import KeptPlace, controller_of, owner_of
from kscheduler.quotas.queues import Amounts
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

MOST_LOOKED_AT = 64  # nodes whose pods are looked at: those that lack least
MOST_TRIED = 16  # of them with dry runs
MOST_TRIALS = 500  # of pods that move, on other nodes
S_PER_NODE, S_PER_POD, S_PER_TRIAL = 5e-6, 2e-5, 2e-4  # what a search costs, as far as the machine does not decide
# Controllers whose pods are not created again elsewhere: static pods belong to their node.
TIED_TO_NODES = frozenset({"DaemonSet", "Node"})

NO_OTHER_PLACE = unresolvable("Pods there that would have to move have no other place")
NOT_YET = unresolvable("Whether pods there could move is tried later")


class Consolidation:
    """The moves that the pods of one profile ask for."""

    def __init__(self, handle: Handle, queues: ShareQueues) -> None:
        self._handle = handle
        self._queues = queues
        self._moves = queues.moves
        self._pace = Pace()

    def is_possible(self, check: Check) -> bool:
        """False if nobody may be moved for the pod, whatever nodes there are. `check`: what PreFilter found."""
        demand, queues = check.demand, self._queues
        if demand.queue not in queues.leaves or not demand.is_preemptible:
            return False
        is_anybody_there = any(name in queues.leaves for name in queues.priorities.namespaces())
        return is_anybody_there and check.view.why_refused(demand) is None

    def search(self, state: CycleState, pod: PodInfo, check: Check, nodes: Sequence[NodeInfo]) -> Findings:
        """Return the first node found where others may move away, as the only candidate, with the pods that move.

        The caller evicts them. If it is too early to search, the pod is tried again later.
        """
        now = self._handle.evictions.wall()
        wait_s = max(self._moves.wait_s(now, self._is_ending), self._pace.wait_s(now))
        if wait_s:
            self._handle.retry(pod, max(wait_s, self._pace.next_turn_s(pod.uid, now)))
            return _all(nodes, NOT_YET)
        search = _Search(self._handle, self._queues, state, pod, check, now)
        candidate = search.run(nodes)
        findings = search.findings
        if candidate is not None:
            self._moves.begin((victim.pod for victim in candidate.victims), now, search.places)
            for victim in candidate.victims:
                self._moves.stays.moved(controller_of(victim.pod), created_s(victim), now)
            findings.add(candidate.node_name, candidate)
        else:
            self._pace.was_in_vain(now, search.cost_s)
            if search.wait_s is not None:
                self._handle.retry(pod, search.wait_s)
        return findings

    def keeps_places(self) -> bool:
        """Return True if places are kept for pods that are moved."""
        places = self._moves.places
        if not places or not self._moves.wait_s(self._handle.evictions.wall(), self._is_ending):
            return False
        places.settle(self._is_on, lambda uid: self._queues.charged(uid) is not None)
        return bool(places)

    def retry_after_moves(self, pod: PodInfo) -> None:
        """Have a pod tried again when those that are moved should have got nodes: no event need come."""
        self._handle.retry(pod, self._moves.expected_s(self._handle.evictions.wall()))

    def _is_on(self, uid: str, node_name: str) -> bool:
        node = self._handle.table.get(node_name)
        return node is not None and uid in node.pods

    def _is_ending(self, pod: Pod) -> bool:
        """Return True if a pod is still there, and about to go."""
        current = self._handle.evictions.current(pod.key)
        if current is None or current.metadata.uid != pod.metadata.uid:
            return False
        endings = self._handle.endings
        accepted = endings.accepted.get(pod.metadata.uid)
        if accepted is not None and abs(self._handle.evictions.wall() - accepted) < ACCEPTED_S:
            return True
        return current.metadata.deletion_timestamp is not None or endings.is_chosen(pod.metadata.uid)


class _Search:
    """The search for pods that may move for one that waits."""

    def __init__(
        self, handle: Handle, queues: ShareQueues, state: CycleState, pod: PodInfo, check: Check, now: float
    ) -> None:
        self._handle = handle
        self._queues = queues
        self._state = state
        self._pod = pod
        self._demand = check.demand
        self._now = now
        self._profile: ProfileHandle = handle.profiles[state.decider or pod.pod.spec.scheduler_name]
        self._ending = self._queues.ending | handle.endings.accepted.keys() | handle.endings.chosen()
        self._places = NewPlaces(handle, queues, pod, self._amounts_of, MOST_TRIALS)
        self.places: list[KeptPlace] = []  # of those that move, once they are found
        self._nodes = self._pods = 0  # that were looked at
        self.findings = Findings(1)
        self.wait_s: float | None = None  # until a pod is old enough to be moved

    @property
    def cost_s(self) -> float:
        return self._nodes * S_PER_NODE + self._pods * S_PER_POD + self._places.trials * S_PER_TRIAL

    def run(self, nodes: Sequence[NodeInfo]) -> Candidate | None:
        found = None
        if self._is_enough_in_sum():
            for node, choices in self._promising(nodes):
                for choice in choices:
                    found = found or self._try(node, choice)
                if found is not None:
                    break
                self.findings.add(node.name, NO_OTHER_PLACE)
        none = no_victims(self._pod)
        for node in nodes:
            if node.name not in self.findings.statuses:
                self.findings.add(node.name, none)
        return found

    # --- where room may come from ---

    def _is_enough_in_sum(self) -> bool:
        """Return False if all nodes together have too little free room for the pod."""
        table = self._handle.table
        self._nodes += len(table)
        missing = dict(self._demand.amounts)
        for node in table:
            for resource in list(missing):
                missing[resource] -= max(node.free_of(resource), 0)
                if missing[resource] <= 0:
                    del missing[resource]
            if not missing:
                return True
        return False

    def _promising(self, nodes: Sequence[NodeInfo]) -> list[tuple[NodeInfo, list[list[PodInfo]]]]:
        """Return the nodes where enough pods may move, each with choices of them, where fewest must move first."""
        self._nodes += len(nodes)
        lacking: list[tuple[float, int, dict[str, int]]] = []
        for number, node in enumerate(nodes):
            lack = self._lack_of(node)
            if lack:  # else it is not room that the pod lacks there
                share = max(amount / self._demand.amounts[resource] for resource, amount in lack.items())
                lacking.append((share, number, lack))
        lacking.sort(key=lambda each: each[:2])
        found: list[tuple[int, int, list[list[PodInfo]]]] = []
        for rank, (_, number, lack) in enumerate(lacking[:MOST_LOOKED_AT]):
            node = nodes[number]
            self._pods += len(node.pods)
            movable = [pod for pod in node.pods.values() if self._may_move(pod, node)]
            choices = list(self._choices(movable, lack))
            if choices:
                found.append((min(map(len, choices)), rank, choices))
        found.sort(key=lambda each: each[:2])
        return [(nodes[lacking[rank][1]], choices) for _, rank, choices in found[:MOST_TRIED]]

    def _lack_of(self, node: NodeInfo) -> dict[str, int]:
        """Return what the node has too little of for the pod, by resource."""
        lack = {resource: amount - node.free_of(resource) for resource, amount in self._demand.amounts.items()}
        return {resource: amount for resource, amount in lack.items() if amount > 0}

    def _may_move(self, other: PodInfo, node: NodeInfo) -> bool:
        queues, pod = self._queues, other.pod
        theirs = queues.charged(other.uid)
        if theirs is None or not theirs.is_preemptible or theirs.queue not in queues.leaves:
            return False
        # One that is more important in the same queue would take the room before the waiting pod does.
        if theirs.queue == self._demand.queue and other.priority > self._pod.priority:
            return False
        if other.uid in self._ending or not _is_made_again(pod) or pod.spec.scheduler_name not in self._handle.profiles:
            return False
        # Whether volumes and devices could follow is not known; gangs are placed as a whole.
        if other.uses_storage or pod.spec.resource_claims or pod.spec.scheduling_group is not None:
            return False
        groups = self._handle.victim_groups
        if groups is not None and groups.is_member(other):
            return False
        if split([other], self._handle.budgets, stops_at_overdrawn=False)[0] or not self._places.has_any(other, node):
            return False
        created = created_s(other)
        stay_s = queues.moves.stays.stay_s(controller_of(pod), created)
        left = created + stay_s - self._now
        if 0.0 < left <= stay_s:
            self.wait_s = left if self.wait_s is None else min(self.wait_s, left)
            return False
        return True

    def _choices(self, movable: Sequence[PodInfo], lack: Amounts) -> Iterator[list[PodInfo]]:
        """Yield sets of pods whose leaving gives the node what it lacks: one of few pods, and one of small pods."""
        relevant = [pod for pod in movable if self._use_of(pod, lack) > 0.0]
        if any(sum(self._amount_of(pod, resource) for pod in relevant) < amount for resource, amount in lack.items()):
            return
        smallest_first = sorted(relevant, key=self._size_of)
        few = self._enough_of(smallest_first, lack, self._most_useful)
        small = self._enough_of(smallest_first, lack, self._first_useful)
        most = self._queues.moves.most
        if len(few) <= most:
            yield few
        if len(small) <= most and {pod.uid for pod in small} != {pod.uid for pod in few}:
            yield small

    def _enough_of(
        self, pods: Sequence[PodInfo], lack: Amounts, choose: Callable[[Sequence[PodInfo], Amounts], PodInfo]
    ) -> list[PodInfo]:
        """Take pods until nothing is lacking, or one more than may move: of those left, the one that is chosen.

        All pods together must be enough.
        """
        left, lacks = list(pods), dict(lack)
        taken: list[PodInfo] = []
        while lacks and len(taken) <= self._queues.moves.most:
            pod = choose(left, lacks)
            left.remove(pod)
            taken.append(pod)
            for resource in list(lacks):
                lacks[resource] -= self._amount_of(pod, resource)
                if lacks[resource] <= 0:
                    del lacks[resource]
        return taken

    def _most_useful(self, pods: Sequence[PodInfo], lacks: Amounts) -> PodInfo:
        """Return the pod that gives most of what is lacking, the first of equal ones."""
        return max(pods, key=lambda pod: self._use_of(pod, lacks))

    def _first_useful(self, pods: Sequence[PodInfo], lacks: Amounts) -> PodInfo:
        """Return the first pod that gives anything of what is lacking."""
        return next(pod for pod in pods if self._use_of(pod, lacks) > 0.0)

    # --- would it do? ---

    def _try(self, node: NodeInfo, leaving: Sequence[PodInfo]) -> Candidate | None:
        """Return the node as a candidate if the pod fits there without these pods, and each that moves has a place."""
        what_if = self._profile.what_if(self._state, self._pod, node.name)
        # 1. They leave, and those come back that are not needed, the largest first.
        faults = [what_if.remove(other) for other in leaving]
        if any(faults) or what_if.fits() is not None:
            return None
        largest_first = sorted(leaving, key=self._size_of, reverse=True)
        moving = spare(what_if, largest_first, lambda: what_if.fits() is None)
        if isinstance(moving, Status) or not moving:
            return None
        if split(moving, self._handle.budgets, stops_at_overdrawn=False)[0]:
            return None
        # 2. Each gets another node.
        places = self._places.find(moving[::-1], node)
        if places is None:
            return None
        # 3. The pod fits beside them, wherever they are.
        faults = [what_if.add_elsewhere(again, at) for again, at in places]
        if any(faults) or what_if.fits() is not None:
            return None
        self._log(node, places)
        self.places = [
            KeptPlace(other.uid, controller_of(other.pod), theirs, at.name)
            for other, (_, at) in zip(moving[::-1], places, strict=True)
            if (theirs := self._queues.charged(other.uid)) is not None
        ]
        return Candidate(node.name, tuple(by_importance(moving, self._now)))

    def _log(self, node: NodeInfo, places: Sequence[Place]) -> None:
        moves = ", ".join(f"{again.key} to {at.name}" for again, at in places)
        log.info("pods may move to make room", extra={"pod": self._pod.key, "node": node.name, "moves": moves})

    # --- amounts ---

    def _amounts_of(self, pod: PodInfo) -> Amounts:
        return self._queues.demands.amounts_of(pod.pod)

    def _amount_of(self, pod: PodInfo, resource: str) -> int:
        return self._amounts_of(pod).get(resource, 0)

    def _use_of(self, pod: PodInfo, lacks: Amounts) -> float:
        """Return how much of what is lacking the pod would leave, as the sum of the parts of all resources."""
        return sum(min(self._amount_of(pod, resource) / amount, 1.0) for resource, amount in lacks.items())

    def _size_of(self, pod: PodInfo) -> float:
        """Return the size of a pod, by which those that move compare: as a part of the waiting pod's at most."""
        return max(self._amount_of(pod, resource) / amount for resource, amount in self._demand.amounts.items())


def _all(nodes: Sequence[NodeInfo], status: Status) -> Findings:
    findings = Findings(1)
    for node in nodes:
        findings.add(node.name, status)
    return findings


def _is_made_again(pod: Pod) -> bool:
    """Return True if a controller creates the pod again when it is gone, wherever it then fits."""
    owner = owner_of(pod)
    return owner is not None and owner.kind not in TIED_TO_NODES
