"""DynamicResources: allocates devices to the ResourceClaims of pods, and to extended resources that classes back.

At Filter the unallocated claims of the pod are allocated on each node on trial, unless the number of free devices
decides the result; then Reserve allocates them. Reserve keeps the allocation for the chosen node in flight, and
PreBind writes it. A claim that is allocated already limits the pod to nodes where it can be used. Texts and order are
kube-scheduler's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from msgspec.structs import replace

from kscheduler._fast import Scores, Verdicts, clear_raw, normalize, set_raws
from kscheduler.api.devices import FINALIZER, AllocationResult, ResourceClaim
from kscheduler.api.labels import NodeTerm, compile_node_selector_term
from kscheduler.api.objects import (
    ContainerExtendedResourceRequest,
    NodeAllocatableResourceClaimStatus,
    NodeSelector,
    Pod,
)
from kscheduler.api.resources import pod_resources
from kscheduler.cel.selectors import selectors_for
from kscheduler.devices.allocator import Allocator
from kscheduler.devices.selection import Selectors
from kscheduler.devices.slices import OPTIONAL_NODE_OPERATIONS, skips_operations
from kscheduler.errors import DecodeError, InternalError
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.cycle_state import HAS_PLACED, CycleState
from kscheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    ONE_GROUP,
    Action,
    ClusterEvent,
    EventResource,
    Registration,
)
from kscheduler.framework.faults import CycleFault, running
from kscheduler.framework.interface import Handle, PostFilterResult, PreFilterResult
from kscheduler.framework.normalize import default_normalize
from kscheduler.framework.plugins.dynamicresources import conditions, extended_resources, hints
from kscheduler.framework.plugins.dynamicresources.asked import AskedClaims
from kscheduler.framework.plugins.dynamicresources.binding import ClaimBinding, NotWritten, Timeouts
from kscheduler.framework.plugins.dynamicresources.claim_rows import NOT_AVAILABLE, ClaimRows
from kscheduler.framework.plugins.dynamicresources.claim_search import CANNOT_ALLOCATE, ClaimSearch
from kscheduler.framework.plugins.dynamicresources.claims import (
    NotReady,
    check_requests,
    consumers_of,
    find_claims,
    skips_node_operations,
)
from kscheduler.framework.plugins.dynamicresources.conditions import ConditionsFailed, ConditionsTimedOut
from kscheduler.framework.plugins.dynamicresources.deallocation import Deallocation
from kscheduler.framework.plugins.dynamicresources.node_resources import NodeResources
from kscheduler.framework.plugins.dynamicresources.preparation import ClaimPreparation
from kscheduler.framework.plugins.dynamicresources.scoring import MAX_ALTERNATIVES, score_of
from kscheduler.framework.plugins.dynamicresources.state import NodeAllocation, PodClaims
from kscheduler.framework.status import SKIP, Code, Status, error_status, unresolvable, unschedulable
from kscheduler.snapshot.free_devices import FreeDevices
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.resource_owners import ResourceOwners
from kscheduler.snapshot.row_outcomes import RowOutcomes

NAME = "DynamicResources"
_CLAIMS = "DynamicResources/claims"
_BEGUN = "DynamicResources/begun"
_MEMBERS = "DynamicResources/members"

DEFAULT_TIMEOUTS = Timeouts()

NO_STATE = error_status("not found")

_MAX_SCORE = 1 << 20  # more than claims with prioritised lists for all of their devices can have


class DynamicResources:
    """DynamicResources of one profile, with its scheduler name for metrics."""

    name = NAME
    signs_metadata = False
    gates_with = "resource_claims"
    concerned_by = ("pod.spec.resource_claims", "resources.total.scalars")

    def __init__(
        self,
        handle: Handle,
        profile: str = "",
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        selectors: Selectors | None = None,
    ) -> None:
        self._handle = handle
        self._devices = handle.devices
        self._release = handle.release
        self._releases_by_pod = handle.release.pods_release_group_claims and handle.devices.accepts_groups
        self._nothing_to_deallocate = _unschedulable(handle.release.no_claims_reason)
        self._selectors = selectors or selectors_for(handle.release)
        self._node_resources = NodeResources(handle, self._selectors) if handle.release.counts_node_resources else None
        self.completes_pods = self._node_resources is not None
        self._binding = ClaimBinding(handle, profile, timeouts)
        self._deallocation = Deallocation(handle.devices, self._binding, handle.rng)
        self._hints = hints.ClaimHints(handle.devices)
        self._free = FreeDevices(handle.table, handle.devices, handle.release, self._selectors)
        filter_s = timeouts.filter_s if handle.release.has("DRASchedulerFilterTimeout") else 0.0
        self._search = search = ClaimSearch(handle, self._selectors, filter_s)
        asked, owners = AskedClaims(handle.devices), ResourceOwners(handle.table)
        shared = handle, search, asked, self._free, owners, self._binding, self._node_resources
        self._rows = ClaimRows(*shared)
        self._preparation = ClaimPreparation(*shared)
        # For each pod of a batch: without a call in between.
        self.prepare_claims = self._preparation.prepare
        self.awaits_allocation = self._preparation.awaits_allocation
        self._heeds_operations = handle.release.devices.has_optional_node_operations

    # --- queue ---

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        try:
            find_claims(pod.pod, self._devices)
        except NotReady as missing:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (str(missing),), NAME)
        return None

    def events_to_register(self) -> Sequence[Registration]:
        comes = Action.ADD | Action.UPDATE
        of_nodes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        of_claims = comes | Action.DELETE if self._release.requeues_at_claim_deletion else comes
        claim = ClusterEvent(EventResource.RESOURCE_CLAIM, of_claims)
        generated = ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
        registered = (
            Registration(ClusterEvent(EventResource.NODE, of_nodes)),
            Registration(claim, self._hints.after_claim, hints.BY_CLAIMS),
            Registration(generated, self._hints.after_pod, ONE_GROUP),
            Registration(ClusterEvent(EventResource.DEVICE_CLASS, comes)),
            Registration(ClusterEvent(EventResource.RESOURCE_SLICE, comes)),
        )
        if self._node_resources is None:
            return registered
        # kube-scheduler does not ask for these.
        shrinks = ClusterEvent(EventResource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)
        of_room = ASSIGNED_POD_DELETE, shrinks
        return (*registered, *(Registration(each, self._after_room, hints.WITH_RESOURCES) for each in of_room))

    def _after_room(self, waiting: Pod, old: object, new: object) -> bool:
        """Return whether room on a node may help the pod, since its devices may take something of their node."""
        if self._node_resources is None or not self._devices.slices.takers:
            return False
        if new is None and isinstance(old, Pod) and old.spec.resource_claims:
            return False  # the end of its claims wakes pods, once its devices are free as well
        try:
            claims = find_claims(waiting, self._devices)
        except NotReady:
            return False
        if pod_resources(waiting).total.scalars:  # devices may back them
            return True
        return self._rows.may_take(PodClaims(claims, allocator=self._search.new_allocator()), self._node_resources)

    # --- filter ---

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        extended = self._search.extended_resources(pod) if pod.resources.total.scalars else None
        if state.group is not None and self._devices.accepts_groups:
            _members(state.group)[pod.uid] = PodClaims([])
        if not pod.pod.spec.resource_claims and not extended:
            return None, SKIP
        try:
            claims = find_claims(pod.pod, self._devices)
            consumers = consumers_of(pod.pod, self._devices.groups) if self._devices.accepts_groups else []
        except NotReady as missing:
            state.write(_CLAIMS, PodClaims([]))
            return None, unresolvable(str(missing))
        cycle = PodClaims(claims, extended=extended or {}, consumers=consumers)
        if extended:
            special = self._devices.special_claim(pod.pod) or self._search.new_special(pod.pod)
            claims.append(special)
            cycle.has_special, cycle.special_uid = True, special.metadata.uid
        if not claims:
            return None, SKIP
        status = self._look_at(cycle, state.group)
        # PostFilter deallocates none of the claims if PreFilter has turned the pod down.
        state.write(_CLAIMS, cycle if status is None else PodClaims([]))
        if status is None and state.group is not None and self._devices.accepts_groups:
            _members(state.group)[pod.uid] = cycle
        return None, status

    def _look_at(self, cycle: PodClaims, group: CycleState | None) -> Status | None:
        """Find where allocated claims can be used, and prepare to allocate the others.

        A claim whose allocation is in flight counts as allocated for the members of the gang that has begun it, which
        are placed together: `group` is what they share. Returns None, or why that is impossible.
        """
        devices = self._devices
        cycle.nodes = [None] * len(cycle.claims)
        cycle.allocations = [None] * len(cycle.claims)
        needs_allocator = False
        for position, claim in enumerate(cycle.claims):
            allocation = claim.status.allocation
            if allocation is None:
                needs_allocator = True
                allocation = devices.pending_allocation(claim.metadata.uid)
                if allocation is not None:
                    if group is None or claim.metadata.uid not in _begun(group):
                        return unresolvable(f"resource claim {claim.key} is in the process of being allocated")
                    cycle.shared[position] = allocation
            if allocation is not None:
                if allocation.node_selector is not None:
                    try:
                        cycle.nodes[position] = _compile(allocation.node_selector)
                    except DecodeError as error:
                        return error_status(str(error), error)
                continue
            if not cycle.is_special(position):
                status = check_requests(claim, devices)
                if status is not None:
                    return status
        if needs_allocator:
            cycle.allocator = self._search.new_allocator()
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        cycle = state.read(_CLAIMS, PodClaims)
        # 1. Which extended resources does the node not have itself?
        special: ResourceClaim | None = None
        mappings: list[ContainerExtendedResourceRequest] = []
        if cycle.has_special:
            found = self._search.special_on(cycle, pod.pod, node)
            if isinstance(found, Status):
                return found
            special, mappings = found
            if special is None and not cycle.of_user:
                return None
        # 2. Can allocated claims be used here? Those that cannot are counted once nothing else is wrong.
        unavailable = [position for position in range(len(cycle.claims)) if self._is_unavailable(cycle, position, node)]
        if self._node_resources is not None:
            refused = self._refuse_sharing(self._node_resources, cycle, pod, node)
            if refused is not None:
                return refused
        if self._heeds_operations and cycle.shared:
            refused = _refuse_operations(cycle, node)
            if refused is not None:
                return refused
        # 3. Can the others be allocated?
        results: list[AllocationResult] = []
        if cycle.allocator is not None:
            allocated = self._search.allocate(cycle.allocator, cycle, special, node)
            if isinstance(allocated, Status):
                return allocated
            results = allocated
        # 4. Does the pod fit with what the devices take of the node?
        statuses: Sequence[NodeAllocatableResourceClaimStatus] = ()
        if self._node_resources is not None:
            taken = self._node_resources.check(cycle, pod, node, cycle.with_shared(results))
            if isinstance(taken, Status):
                return taken
            statuses = taken
        if unavailable:
            cycle.unavailable.update(unavailable)
            return NOT_AVAILABLE
        if cycle.allocator is not None or statuses:
            cycle.by_node[node.name] = NodeAllocation(cycle.with_shared(results), special, mappings, statuses)
        return None

    def _refuse_sharing(
        self, node_resources: NodeResources, cycle: PodClaims, pod: PodInfo, node: NodeInfo
    ) -> Status | None:
        """Return why the pod cannot use an allocated claim here: what its devices take is another pod's already."""
        for position in range(len(cycle.claims)):
            if not self._is_elsewhere(cycle, position, node):
                refused = node_resources.refuse_sharing(cycle, position, pod.pod, node)
                if refused is not None:
                    return refused
        return None

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        cycle = state.read(_CLAIMS, PodClaims)
        cycle.rejections = [CANNOT_ALLOCATE]
        for row in self._rows.to_search(cycle, pod, table, verdicts, code):
            node = table.at(row)
            status = self.filter(state, pod, node)
            if cycle.outcomes is not None:
                _note(cycle, cycle.outcomes, row, node.name, status)
            if status is None:
                continue
            if not status.is_rejected:
                raise CycleFault(running("Filter", self, status))
            if status not in cycle.rejections:  # there are few
                cycle.rejections.append(status)
            verdicts.reject(row, code, cycle.rejections.index(status))

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return state.read(_CLAIMS, PodClaims).rejections[detail]

    def _is_elsewhere(self, cycle: PodClaims, position: int, node: NodeInfo) -> bool:
        """Return whether a claim has an allocation that cannot be used on this node."""
        terms, claim = cycle.nodes[position], cycle.claims[position]
        if terms is not None and not any(term.matches(node.labels, node.name) for term in terms):
            return True
        return (
            self._heeds_operations
            and skips_node_operations(claim.status.allocation)
            and not skips_operations(node.node)
        )

    def _is_unavailable(self, cycle: PodClaims, position: int, node: NodeInfo) -> bool:
        claim = cycle.claims[position]
        if self._is_elsewhere(cycle, position, node):
            return True
        if claim.status.allocation is None or not self._binding.awaits_conditions:
            return False
        try:
            return not conditions.is_ready(claim) and self._binding.is_overdue(claim)
        except ConditionsFailed:
            return True

    # --- when no node fits ---

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        cycle = state.get(_CLAIMS, PodClaims)
        if cycle is None and NAME not in state.skip_filter:
            # PreFilter has not run, as another plugin's rejected the pod: kube-scheduler ends the chain with an error.
            return None, NO_STATE
        if cycle is None or not cycle.claims:
            return None, self._nothing_to_deallocate
        taken_back = self._deallocation.of_pod(cycle, pod)
        if taken_back is None and self._may_release_for_group(state.group):
            taken_back = self._deallocation.of_group(pod.pod)
        return None, _unschedulable(self._release.claims_kept_reason) if taken_back is None else taken_back

    def repetition(self, pod: PodInfo) -> Callable[[PodInfo], bool] | None:
        """Return how to repeat that there is nothing to take back from a pod without claims."""
        return None if self.concerns(pod) else _holds

    def _may_release_for_group(self, group: CycleState | None) -> bool:
        """Return whether a pod of a gang may take claims back for its PodGroup; `group`: what the gang's pods share."""
        return group is not None and self._releases_by_pod and not group.get(HAS_PLACED, bool)

    def release_claims(self, shared: CycleState, pods: Sequence[PodInfo], *, has_placed: bool) -> Status | None:
        """Take claims back for a gang that could not be placed; see `Deallocation.of_gang`.

        `shared`: what its members shared while they were planned.
        """
        if not self._devices.accepts_groups:
            return None
        return self._deallocation.of_gang(shared.get(_MEMBERS, dict) or {}, pods, has_placed=has_placed)

    # --- score ---

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        cycle = state.get(_CLAIMS, PodClaims)
        found = None if cycle is None else cycle.by_node.get(node.name)
        if cycle is None or found is None:
            if cycle is not None and cycle.outcomes is not None:
                return cycle.outcomes.scores[node.row], None
            place = None if cycle is None else cycle.alternatives.get(node.row)
            return 0 if place is None else MAX_ALTERNATIVES - place, None
        try:
            return score_of(cycle.claims, found.results), None
        except InternalError as error:
            return 0, error_status(str(error), error)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> Status | None:
        default_normalize(scores, reverse=False)
        return None

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        cycle = state.get(_CLAIMS, PodClaims)
        if cycle is not None and cycle.outcomes is not None:
            set_raws(verdicts, scores, memoryview(cycle.outcomes.scores).cast("B"), 0, _MAX_SCORE)
            return
        clear_raw(verdicts, scores)
        if cycle is None or not (cycle.by_node or cycle.alternatives):
            return
        for row in verdicts.feasible_rows():
            found = cycle.by_node.get(table.at(row).name)
            if found is not None:
                scores.set_raw(row, score_of(cycle.claims, found.results))
            elif row in cycle.alternatives:
                scores.set_raw(row, MAX_ALTERNATIVES - cycle.alternatives[row])

    def normalize_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        normalize(verdicts, scores, False)

    # --- reserve ---

    def concerns(self, pod: PodInfo) -> bool:
        if pod.pod.spec.resource_claims:
            return True
        scalars = pod.resources.total.scalars
        return bool(scalars) and not self._devices.resources.isdisjoint(scalars)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        cycle = state.get(_CLAIMS, PodClaims)
        if cycle is None:
            prepared = self._preparation.prepared
            if prepared is not None and prepared[0] == pod.uid:  # placed by kernels
                cycle, self._preparation.prepared, self._search.drawn = prepared[1], None, None
                state.write(_CLAIMS, cycle)
        if cycle is None or cycle.allocator is None:
            return None
        unallocated = cycle.unallocated()
        if cycle.shared:
            unallocated = sorted([*unallocated, *((place, cycle.claims[place]) for place in cycle.shared)])
        found = cycle.by_node.get(node_name)
        if found is None and cycle.is_counted:
            allocated = self._allocate_counted(cycle, cycle.allocator, pod.pod, node_name)
            if isinstance(allocated, Status):
                return allocated
            found = allocated
        if found is None or not found.results:
            if all(cycle.is_special(position) for position, _ in unallocated):
                return None  # device plugins provide the pod's extended resources on this node
            return error_status("claim allocation not found for node")
        results = found.results
        if len(results) != len(unallocated):
            return error_status(
                f"internal error, have {len(results)} allocations, {len(unallocated)} claims to allocate, "
                f"want {len(unallocated)} claims"
            )
        for (position, claim), allocation in zip(unallocated, results, strict=True):
            cycle.allocations[position] = allocation
            if found.special is not None and cycle.is_special(position):
                claim = found.special
            status = self._keep_in_flight(claim, allocation)
            if status is not None:
                return status
            if state.group is not None:
                cycle.in_gang = True
                _begun(state.group).add(claim.metadata.uid)
        return None

    def _allocate_counted(
        self, cycle: PodClaims, allocator: Allocator, pod: Pod, node_name: str
    ) -> NodeAllocation | Status | None:
        """Allocate the claims on a node that has enough free devices, as Filter would have done.

        Returns None if the pod needs no devices there.
        """
        node = self._handle.table.get(node_name)
        if node is None:
            return error_status(f'node "{node_name}" not found')
        special: ResourceClaim | None = None
        mappings: list[ContainerExtendedResourceRequest] = []
        if cycle.has_special:
            wanted = self._search.special_on(cycle, pod, node)
            if isinstance(wanted, Status):
                return wanted
            special, mappings = wanted
            if special is None and not cycle.of_user:
                return None
        results = self._search.allocate(allocator, cycle, special, node)
        if isinstance(results, Status):
            return results
        found = cycle.by_node[node_name] = NodeAllocation(results, special, mappings)
        return found

    def _keep_in_flight(self, claim: ResourceClaim, allocation: AllocationResult) -> Status | None:
        metadata, finalizers = claim.metadata, claim.metadata.finalizers or []
        if FINALIZER not in finalizers:
            metadata = replace(metadata, finalizers=[*finalizers, FINALIZER])
        allocated = replace(claim, metadata=metadata, status=replace(claim.status, allocation=allocation))
        try:
            self._devices.begin_allocation(claim.metadata.uid, allocated)
        except InternalError as error:
            text = f"internal error, couldn't signal allocation for claim {claim.metadata.name}: {error}"
            return error_status(text, error)
        return None

    def assumed(self, state: CycleState, pod: PodInfo, node_name: str) -> PodInfo:
        cycle = state.get(_CLAIMS, PodClaims)
        found = None if cycle is None else cycle.by_node.get(node_name)
        if self._node_resources is None or found is None or not found.statuses:
            return pod
        return self._node_resources.on_node(pod, found.statuses)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        cycle = state.get(_CLAIMS, PodClaims)
        if cycle is not None:
            self._binding.take_back(cycle, pod.pod)

    # --- bind ---

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return SKIP if state.get(_CLAIMS, PodClaims) is None else None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        try:
            await self._binding.bind(state.read(_CLAIMS, PodClaims), pod.pod, node_name)
        except (NotWritten, ConditionsFailed, ConditionsTimedOut) as error:
            return error_status(str(error))  # without the error: that is read as the answer to binding the pod
        return None

    # --- the compiled lane ---

    def sign_pod(self, pod: PodInfo) -> bool:
        return bool(pod.pod.spec.resource_claims)

    def compile_claims(self, draft: ClassDraft, key: Hashable) -> None:
        if isinstance(key, RowOutcomes):
            draft.filter_asked(key.marks(self._handle.table.columns))
        else:
            draft.says_filter()

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        if any(extended_resources.is_backable(name) for name in pod.resources.total.scalars):
            draft.depends_on(Source.DEVICES)
        draft.says_score()
        return True


def _begun(group: CycleState) -> set[str]:
    """Return the uids of the claims that members of a gang have begun to allocate while they are placed together."""
    begun: set[str] | None = group.get(_BEGUN, set)
    if begun is None:
        begun = set()
        group.write(_BEGUN, begun)
    return begun


def _members(group: CycleState) -> dict[str, PodClaims]:
    """Return the claims of those members of a gang, by uid, whose PreFilter has run while they are placed together."""
    members: dict[str, PodClaims] | None = group.get(_MEMBERS, dict)
    if members is None:
        members = {}
        group.write(_MEMBERS, members)
    return members


def _refuse_operations(cycle: PodClaims, node: NodeInfo) -> Status | None:
    """Return why an allocation in flight cannot be used here: it has operations that this kubelet cannot skip."""
    if not skips_operations(node.node):
        for position, shared in cycle.shared.items():
            if skips_node_operations(shared):
                text = f"resource claim {cycle.claims[position].key} allocation requires {OPTIONAL_NODE_OPERATIONS}"
                return unresolvable(f"{text} feature on the node")
    return None


def _note(cycle: PodClaims, outcomes: RowOutcomes, row: int, name: str, status: Status | None) -> None:
    """Note what the search has found for a row (node), if that holds until something changes there."""
    if status is None:
        found = cycle.by_node.get(name)
        outcomes.accept(row, 0 if found is None else score_of(cycle.claims, found.results))
    elif status is CANNOT_ALLOCATE:
        outcomes.reject(row)


def _compile(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    return tuple(
        compile_node_selector_term(term, f"nodeSelectorTerms[{place}]")
        for place, term in enumerate(selector.node_selector_terms)
    )


def _holds(pod: PodInfo) -> bool:
    return True


def _unschedulable(reason: str) -> Status:
    return unschedulable(reason) if reason else unschedulable()
