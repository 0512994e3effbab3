"""CapacityScheduling at its extension points: PreFilter compares a pod with the quotas, PostFilter preempts by them.

Rules and texts are those of scheduler-plugins' CapacityScheduling; DIFFERENCES.md names where they differ. It has no
Reserve: what pods use is counted by `ElasticQuotas` when the cache assumes and forgets them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from kscheduler.api.objects import Pod
from kscheduler.config.capacity_scheduling import CAPACITY_SCHEDULING
from kscheduler.errors import DecodeError, InternalError
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import Candidate, Findings
from kscheduler.framework.events import ELASTIC_QUOTAS, ONE_GROUP, Action, ClusterEvent, EventResource, Registration
from kscheduler.framework.interface import Handle, PreFilterResult
from kscheduler.framework.plugins.capacityscheduling.victims import Exposed, find_victims, no_victims
from kscheduler.framework.preemption.candidates import Cost, cost, least_cost
from kscheduler.framework.preemption.within_quotas import QuotaPreemption
from kscheduler.framework.status import Status, unschedulable
from kscheduler.quotas.amounts import Request, sum_of
from kscheduler.quotas.elastic import ElasticView
from kscheduler.quotas.room import Room, has_room_for_all
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

NAME = CAPACITY_SCHEDULING
NAMED_NODES = 10  # on more nodes, those without victims are counted only, lest messages become long


@dataclass(frozen=True, slots=True)
class QuotaCheck:
    """What PreFilter found: the pod's request, alone and with the nominated pods that go before it, and the view.

    `in_quota`: with those of its own namespace. `in_all`: with those of all namespaces. The view's trials belong to the
    cycle state in which it is.
    """

    request: Request
    in_quota: Request
    in_all: Request
    view: ElasticView

    def clone(self) -> QuotaCheck:
        return replace(self, view=self.view.clone())


class CapacityScheduling(QuotaPreemption):
    name = NAME

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle, NAME)
        if handle.elastic_quotas is None:
            raise InternalError(f"the plugin {NAME} was to be built where no quotas are kept")
        self._quotas = handle.elastic_quotas

    # --- the queue ---

    def events_to_register(self) -> Sequence[Registration]:
        """Register for what scheduler-plugins' registers for, and for pods that are resized, which count at once here.

        Every deleted pod may help, since a quota may be kept by evicting others on its node.
        """
        return (
            Registration(ClusterEvent(EventResource.POD, Action.DELETE)),
            Registration(ClusterEvent(EventResource.POD, Action.UPDATE_POD_SCALE_DOWN), self._after_resize, ONE_GROUP),
            Registration(ClusterEvent(ELASTIC_QUOTAS, Action.ALL)),
        )

    def _after_resize(self, waiting: Pod, old: object, new: object) -> bool:
        """Return True if the pod that requests less is the waiting one, or is on a node and has a quota."""
        if not isinstance(new, Pod) or new.metadata.uid == waiting.metadata.uid:
            return True
        return bool(new.spec.node_name) and new.metadata.namespace in self._quotas

    # --- the compiled lane ---

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        try:
            return pod.pod.metadata.namespace, self._quotas.request_of(pod.pod)
        except DecodeError:  # PreFilter reports it
            return None

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        """Leave the choice of nodes to kernels: `admitted` says how many pods they may place."""
        return True

    def admitted(self, profile: str, pods: Sequence[PodInfo]) -> int:
        """Return how many of the leading pods PreFilter would pass, each with those before it counted.

        Beside nominated pods none with a quota is, since PreFilter compares those together with them.
        """
        if not len(self._quotas) or self._are_all_admitted(profile, pods):
            return len(pods)
        return self._admitted_one_by_one(profile, pods)

    def _are_all_admitted(self, profile: str, pods: Sequence[PodInfo]) -> bool:
        """Return True if there is room for all these pods together: then there is for each after those before it.

        It takes a comparison for the pods of one namespace and request, not for each pod. False if there are pods of
        other profiles, which are not limited.
        """
        if len(self._handle.profiles) > 1 and any(pod.pod.spec.scheduler_name != profile for pod in pods):
            return False
        quotas = self._quotas
        kinds = quotas.by_kind([pod.pod for pod in pods])
        if self._handle.nominations.by_pod:
            return not any(kind.namespace in quotas for kind in kinds)
        return has_room_for_all(quotas, kinds)

    def _admitted_one_by_one(self, profile: str, pods: Sequence[PodInfo]) -> int:
        quotas = self._quotas
        room, known = Room(quotas), dict[object, Request]()  # signature -> request
        for number, pod in enumerate(pods):
            namespace = pod.pod.metadata.namespace
            if namespace not in quotas:
                continue
            if pod.pod.spec.scheduler_name != profile:  # it is not limited, and counts all the same
                room.count(namespace, quotas.counted_request_of(pod.pod))
                continue
            request = known.get(pod.signature)
            if request is None:
                request = known[pod.signature] = quotas.request_of(pod.pod)
            if self._handle.nominations.by_pod or not room.has(namespace, request):
                return number
            room.count(namespace, request)
        return len(pods)

    # --- the cycle ---

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        view, namespace = self._quotas.view(), pod.pod.metadata.namespace
        request = self._quotas.request_of(pod.pod)
        if not view.has_quota(namespace):
            state.write(NAME, QuotaCheck(request, request, request, view))
            return None, None
        # 1. Nominated pods that go before this one.
        in_quota, in_all = [request], [request]
        for nomination in self._handle.nominations.by_pod.values():
            other = nomination.pod
            if other.uid == pod.uid or self._handle.table.get(nomination.node_name) is None:
                continue
            theirs = other.pod.metadata.namespace
            if theirs == namespace:
                if other.priority >= pod.priority:
                    expected = self._quotas.request_of(other.pod)
                    in_quota.append(expected)
                    in_all.append(expected)
            elif view.has_quota(theirs) and not view.is_over_min(theirs):
                in_all.append(self._quotas.request_of(other.pod))
        check = QuotaCheck(request, sum_of(in_quota), sum_of(in_all), view)
        state.write(NAME, check)
        # 2. Its own quota's max, then what is guaranteed to all.
        if view.exceeds_max(namespace, check.in_quota):
            return None, _rejected(pod, f"ElasticQuota {namespace} is more than Max")
        if view.exceeds_all_min(check.in_all):
            return None, _rejected(pod, "total ElasticQuota used is more than min")
        return None, None

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        state.read(NAME, QuotaCheck).view.add(other.pod)
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        state.read(NAME, QuotaCheck).view.remove(other.pod)
        return None

    # --- preemption ---

    def _could_evict(self, state: CycleState, other: PodInfo, pod: PodInfo) -> bool:
        check = state.read(NAME, QuotaCheck)
        view, mine, theirs = check.view, pod.pod.metadata.namespace, other.pod.metadata.namespace
        if not view.has_quota(mine):
            return not view.has_quota(theirs) and other.priority < pod.priority
        if not view.has_quota(theirs):
            return False
        if theirs == mine:
            return other.priority < pod.priority
        return not view.exceeds_min(mine, check.in_quota) and view.is_over_min(theirs)

    def _try_nodes(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], only_best: bool) -> Findings:
        """Try the nodes in the order of what their victims cost at least, until no other can be cheaper."""
        profile = self._handle.profiles[state.decider or pod.pod.spec.scheduler_name]
        budgets, now = self._handle.budgets, self._handle.evictions.wall()
        # 1. Nodes without a pod that may be evicted need no dry run.
        findings, shared, order = Findings(len(nodes)), no_victims(pod), list[tuple[Cost, int]]()
        exposed = Exposed(state.read(NAME, QuotaCheck), pod).by_node(nodes)
        for number, (node, pods) in enumerate(zip(nodes, exposed, strict=True)):
            if pods:
                order.append((least_cost(pods, now), number))
            else:
                findings.add(node.name, no_victims(pod, node.name) if len(nodes) <= NAMED_NODES else shared)
        # 2. Dry runs. Of equally cheap nodes the first is chosen, so that numbers are compared as well.
        found: dict[int, Candidate | Status] = {}
        best: tuple[Cost, int] | None = None
        for at_least in sorted(order):
            if only_best and best is not None and best <= at_least:
                break
            number = at_least[1]
            what_if = profile.what_if(state, pod, nodes[number].name)
            check = what_if.state.read(NAME, QuotaCheck)
            outcome = find_victims(what_if, check, pod, nodes[number], budgets, now)
            outcome = found[number] = self._together(outcome, what_if, pod, Exposed(check, pod).has)
            if isinstance(outcome, Candidate):
                own = cost(outcome, now), number
                best = own if best is None else min(best, own)
        for number in sorted(found):
            findings.add(nodes[number].name, found[number])
        return findings

    def _why_in_vain(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> str:
        tried = self._count_promising(statuses)
        if tried <= NAMED_NODES or not Exposed(state.read(NAME, QuotaCheck), pod).is_nobody(self._quotas.priorities):
            return ""
        return self._all_fail(no_victims(pod), tried)


def _rejected(pod: PodInfo, why: str) -> Status:
    return unschedulable(f"Pod {pod.key} is rejected in PreFilter because {why}")
