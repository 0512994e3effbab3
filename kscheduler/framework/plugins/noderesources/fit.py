"""NodeResourcesFit: the node must have free what a pod requests; the score follows from what is then used.

Used, for scoring: what pods on the node request, with the non-zero defaults for cpu and memory, plus the incoming pod's
request. A resource that the node does not have does not count, nor does an extended resource that the pod does not
request. For the scoring strategies see `strategies`.

An extended resource that a device class backs is not asked of a node that has none of it: there DynamicResources
allocates devices, and they count for the score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kscheduler._fast import (
    CPU,
    ENTRY_BITS,
    EPHEMERAL_STORAGE,
    FEASIBLE,
    MEMORY,
    TOO_MANY_PODS,
    UNRESOLVABLE,
    PodRequest,
    Scores,
    Verdicts,
    entry_bit,
    filter_fit,
)
from kscheduler.api.resources import PodResources, is_extended
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import Demands
from kscheduler.framework.events import ASSIGNED_POD_DELETE, Action, ClusterEvent, EventResource, Registration
from kscheduler.framework.interface import Handle, PreFilterResult
from kscheduler.framework.plugins.noderesources.backed import Backing, Stocks
from kscheduler.framework.plugins.noderesources.hints import Hints
from kscheduler.framework.plugins.noderesources.strategies import LeastAllocated, Strategy, Use
from kscheduler.framework.status import Code, Status
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "NodeResourcesFit"
TOO_MANY_PODS_REASON = "Too many pods"
_REQUEST = "NodeResourcesFit/request"
_SCORE_REQUEST = "NodeResourcesFit/score"
_STOCKS = "NodeResourcesFit/stocks"

# (resource name, weight): kube-scheduler's defaults.
DEFAULT_RESOURCES = (("cpu", 1), ("memory", 1))


class Fit:
    """NodeResourcesFit. It ignores the extended resources `ignored`, and those of the domains `ignored_groups`."""

    name = NAME
    signs_metadata = False

    def __init__(
        self,
        handle: Handle,
        resources: Sequence[tuple[str, int]] = DEFAULT_RESOURCES,
        ignored: frozenset[str] = frozenset(),
        ignored_groups: frozenset[str] = frozenset(),
        strategy: Strategy | None = None,
    ) -> None:
        self._table = handle.table
        self._strategy = strategy or LeastAllocated()
        self._weights = [(handle.table.resources.column(name), weight) for name, weight in resources]
        self._ignored = ignored
        self._ignored_groups = ignored_groups
        self._backing = Backing(handle)
        self._release = handle.release
        self._hints = Hints(self._is_ignored, handle.devices, sums_resizes_apart=handle.release.sums_resizes_apart)

    # --- filter ---

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        state.write(_REQUEST, self._filter_request(pod))
        return None, None

    def _filter_request(self, pod: PodInfo) -> PodRequest:
        request = self._table.request_of(pod)
        if not self._ignored and not self._ignored_groups:
            return request
        names = self._table.resources.names
        kept = [(column, amount) for column, amount in request.entries if not self._is_ignored(names[column])]
        return PodRequest(kept, request.non_zero_cpu, request.non_zero_memory)

    def _is_ignored(self, name: str) -> bool:
        """Return True for an extended resource that the arguments name as ignored; others cannot be ignored."""
        if not self._ignored and not self._ignored_groups:
            return False
        group = name.partition("/")[0]
        return is_extended(name) and (name in self._ignored or group in self._ignored_groups)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        detail = self._detail(state, pod, node)
        return self.explain(state, pod, detail) if detail else None

    def _detail(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Return bits for what the node lacks, 0 if it has room."""
        request = state.read(_REQUEST, PodRequest)
        detail = 0
        if len(node.pods) + 1 > node.allocatable.pods:
            detail |= TOO_MANY_PODS
        columns = self._table.columns
        backed = self._backing.columns(pod)
        for place, (column, amount) in enumerate(request.entries):
            if amount > node.free(column):
                if column in backed and not columns.allocatable(node.row, column):
                    continue
                detail |= entry_bit(place)
                if amount > columns.allocatable(node.row, column):
                    detail |= UNRESOLVABLE
        return detail

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        request, backed = state.read(_REQUEST, PodRequest), self._backing.columns(pod)
        if not backed:
            filter_fit(table.columns, verdicts, request, code)
            return
        # Where nodes have none of the backed resources, only the others count. Reasons name resources by their place.
        others = [entry for entry in request.entries if entry[0] not in backed]
        is_in_place = tuple(others) == request.entries[: len(others)]
        for row in self._backing.owners(backed) if is_in_place else range(table.columns.rows):
            if verdicts.code(row) == FEASIBLE and (detail := self._detail(state, pod, table.at(row))):
                verdicts.reject(row, code, detail)
        if is_in_place:
            without = PodRequest(others, request.non_zero_cpu, request.non_zero_memory)
            filter_fit(table.columns, verdicts, without, code)

    def demands(self, state: CycleState, pod: PodInfo) -> Demands | None:
        return None if self._backing.columns(pod) else Demands(request=state.read(_REQUEST, PodRequest))

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        request = state.read(_REQUEST, PodRequest)
        names = self._table.resources.names
        reasons = [TOO_MANY_PODS_REASON] if detail & TOO_MANY_PODS else []
        own = request.entries if len(request.entries) <= ENTRY_BITS else request.entries[: ENTRY_BITS - 1]
        reasons += [
            f"Insufficient {names[column]}" for place, (column, _) in enumerate(own) if detail & entry_bit(place)
        ]
        shared = request.entries[len(own) :]  # have one bit together
        if shared and detail & entry_bit(len(own)):
            reasons.append(f"Insufficient {names[shared[0][0]]}, or another of {len(shared)} resources")
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if detail & UNRESOLVABLE else Code.UNSCHEDULABLE
        return Status(code, tuple(reasons), NAME)

    # --- score ---

    def pre_score(self, state: CycleState, pod: PodInfo) -> Status | None:
        state.write(_SCORE_REQUEST, self._score_request(pod))
        if pod.resources.total.scalars:
            stocks = self._backing.stocks(pod, (column for column, _ in self._weights))
            if stocks is not None:
                state.write(_STOCKS, stocks)
        return None

    def _score_request(self, pod: PodInfo) -> PodRequest:
        # The incoming pod is scored by its containers alone, without pod-level resources: kube-scheduler's quirk.
        resources = pod.resources
        return self._table.resources.compile(
            resources.containers_only, resources.score_cpu_milli, resources.score_memory
        )

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        request, stocks = state.read(_SCORE_REQUEST, PodRequest), state.get(_STOCKS, Stocks)
        return self._strategy.score(list(self._uses(node, request, stocks))), None

    def _uses(self, node: NodeInfo, request: PodRequest, stocks: Stocks | None) -> Iterator[Use]:
        """Yield the usage of each resource that counts for the node's score, with the pod there."""
        for column, weight in self._weights:
            capacity = self._table.columns.allocatable(node.row, column)
            own = self._own_request(request, column)
            if own <= 0 and column > EPHEMERAL_STORAGE:
                continue
            used = self._used(node, column)
            if capacity <= 0 and stocks is not None:
                capacity, used = stocks.of(node.node, column)
            if capacity > 0:
                yield Use(used + own, capacity, weight)

    def _own_request(self, request: PodRequest, column: int) -> int:
        if column == CPU:
            return request.non_zero_cpu
        if column == MEMORY:
            return request.non_zero_memory
        return dict(request.entries).get(column, 0)

    def _used(self, node: NodeInfo, column: int) -> int:
        if column in (CPU, MEMORY):
            return node.non_zero_requested[column]
        return node.requested_of(column)

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        if state.get(_STOCKS, Stocks) is not None:
            for row in verdicts.feasible_rows():
                scores.set_raw(row, self.score(state, pod, table.at(row))[0])
            return
        request = state.read(_SCORE_REQUEST, PodRequest)
        self._strategy.score_table(table.columns, verdicts, scores, request, self._weights)

    def score_placement(self, pods: Sequence[PodInfo], rows: Sequence[int]) -> int:
        """Return how full some nodes are with these pods of a group, 0..100, as kube-scheduler 1.37 scores placements.

        As by the strategy MostAllocated, on the sums over the nodes; what the configured strategy is does not matter.
        """
        columns, total, weights = self._table.columns, 0, 0
        requests = [self._score_request(pod) for pod in pods]
        for column, weight in self._weights:
            requested, capacity = sum(self._own_request(request, column) for request in requests), 0
            if requested == 0 and column > EPHEMERAL_STORAGE:
                continue
            for row in rows:
                if allocatable := columns.allocatable(row, column):
                    capacity += allocatable
                    requested += self._used(self._table.at(row), column)
            if capacity:
                total += weight * (min(requested, capacity) * 100 // capacity)
                weights += weight
        return total // weights if weights else 0

    # --- the compiled lane ---

    def sign_pod(self, pod: PodInfo) -> PodResources:
        return pod.resources

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        request = self._filter_request(pod)
        if request != self._table.request_of(pod):  # some of it is ignored, and counted all the same
            return False
        if pod.resources.total.scalars:
            draft.depends_on(Source.DEVICES)
            if backed := self._backing.columns(pod):
                # Devices stand for these where no node has them itself.
                draft.depends_on(Source.OBJECTS)
                if self._backing.owners(backed) or any(column in backed for column, _ in self._weights):
                    return False
                others = [entry for entry in request.entries if entry[0] not in backed]
                without = PodRequest(others, request.non_zero_cpu, request.non_zero_memory)
                draft.filter_fit(without, counted=request)
                self._strategy.compile(draft, self._score_request(pod), self._weights)
                return True
        draft.filter_fit(request)
        self._strategy.compile(draft, self._score_request(pod), self._weights)
        return True

    # --- queue ---

    def events_to_register(self) -> Sequence[Registration]:
        of_nodes = ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        of_pods = (
            ASSIGNED_POD_DELETE,
            ClusterEvent(EventResource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN),
            ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_SCALE_DOWN),
        )
        of_classes = ClusterEvent(EventResource.DEVICE_CLASS, Action.ADD | Action.UPDATE)
        registered = (
            *(Registration(event, self._hints.after_pod, self._hints.for_pods) for event in of_pods),
            Registration(of_nodes, self._hints.after_node, self._hints.for_nodes),
        )
        if not self._release.has("DRAExtendedResource"):
            return registered
        return (*registered, Registration(of_classes, self._hints.after_class, self._hints.for_pods))
