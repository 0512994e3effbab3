"""Checks that a pod fits on a node with what its devices take of the node's own resources, such as cpu and memory.

Behind the feature gate DRANodeAllocatableResources. NodeResourcesFit does not count that for a pod without a node, so
this is checked here, together with all else that the pod requests. On the node it counts as the pod's status says.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kscheduler.api.devices import AllocationResult, DeviceRequestAllocationResult, ResourceClaim
from kscheduler.api.exact_quantity import QuantityError
from kscheduler.api.objects import NodeAllocatableResourceClaimStatus, Pod
from kscheduler.api.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGEPAGES_PREFIX,
    MEMORY,
    Resources,
    claimed_resources,
    is_of_pods,
    pod_resources,
    stated_by,
    stated_by_containers,
)
from kscheduler.devices.errors import AllocationError
from kscheduler.devices.matching import DeviceMatcher
from kscheduler.devices.node_resources import NodeResourcesError, NodeShares
from kscheduler.devices.selection import Selectors
from kscheduler.errors import DecodeError
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.dynamicresources.asked import MAX_KEPT, Asked
from kscheduler.framework.plugins.dynamicresources.claims import is_reserved_for, made_claims
from kscheduler.framework.plugins.dynamicresources.state import PodClaims
from kscheduler.framework.status import Status, error_status, unresolvable, unschedulable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.row_outcomes import ClaimsKey

_NATIVE = CPU, MEMORY, EPHEMERAL_STORAGE
Statuses = list[NodeAllocatableResourceClaimStatus]


class NodeResources:
    """The checks of one profile, as a release of kube-scheduler makes them."""

    def __init__(self, handle: Handle, selectors: Selectors) -> None:
        self._devices = handle.devices
        self._or_group = handle.release.has_group_claims
        self._sums_resizes_apart = handle.release.sums_resizes_apart
        self._is_old = handle.release.devices.maps_node_resources_only
        self._shares = NodeShares(mappings_only=self._is_old)
        self._matcher = DeviceMatcher(handle.devices.slices.features, selectors)
        self._known: dict[ClaimsKey, bool] = {}  # what claims ask for -> what `may_take` says of it
        self._known_of = -1  # the generation of the devices for which this is known

    # --- may the pod's devices take anything? ---

    def may_take(self, asked: Asked) -> bool:
        """Return whether claims without an allocation may get devices that take something, on any node."""
        takers = self._devices.slices.takers
        if not takers:
            return False
        if self._known_of != takers.generation or len(self._known) >= MAX_KEPT:
            self._known_of = takers.generation
            self._known.clear()
        known = self._known.get(asked.key)
        if known is None:
            known = self._known[asked.key] = takers.may_match(asked.queries, self._matcher)
        return known

    def has_taken(self, allocation: AllocationResult) -> bool:
        """Return whether an allocation may have devices that take something."""
        takers = self._devices.slices.takers
        if not takers:
            return False
        return any(takers.has((each.driver, each.pool, each.device)) for each in allocation.devices.results or ())

    def concerns_on(self, claims: Sequence[ResourceClaim], pod: Pod, node: NodeInfo) -> bool:
        """Return whether allocated claims may keep the pod off the node by what their devices take."""
        return any(
            self._refuse_used(claim, pod, node) is not None
            if self._is_old
            else claim.status.allocation is not None and self.has_taken(claim.status.allocation)
            for claim in claims
        )

    def concerns_allocated(self, cycle: PodClaims) -> bool:
        """Return whether allocated claims may keep the pod off some node by what their devices take."""
        for position, claim in enumerate(cycle.claims):
            if claim.status.allocation is not None:
                if self._is_old or self.has_taken(claim.status.allocation):  # 1.36 looks at the pods of the node
                    return True
            elif position in cycle.shared and self.has_taken(cycle.shared[position]):
                return True
        return False

    # --- may a claim be shared? ---

    def refuse_sharing(self, cycle: PodClaims, position: int, pod: Pod, node: NodeInfo) -> Status | None:
        """Return why the pod cannot use an allocated claim here, because its resources are another pod's already.

        A claim whose allocation is in flight for another member of the pod's gang counts as allocated, too.
        """
        claim = cycle.claims[position]
        if self._is_old:
            return None if claim.status.allocation is None else self._refuse_used(claim, pod, node)
        if claim.status.allocation is None and position not in cycle.shared:
            return None
        if cycle.stands_for_resources is None:
            cycle.stands_for_resources = self._find_standing(cycle)
        if position not in cycle.stands_for_resources:
            return None  # overhead is each pod's own
        is_others = bool(claim.status.reserved_for) and not is_reserved_for(claim, pod, or_group=self._or_group)
        if is_others or position in cycle.shared:
            name = f"node allocatable resource claim {claim.metadata.name}"
            return unresolvable(f"{name} has a mapped device and cannot be shared across pods")
        return None

    def _refuse_used(self, claim: ResourceClaim, pod: Pod, node: NodeInfo) -> Status | None:
        """Do that as 1.36 does, which looks for pods on the node that have resources through the claim."""
        users = {
            uid
            for uid, other in node.pods.items()
            if other.pod.metadata.namespace == pod.metadata.namespace
            for status in other.pod.status.node_allocatable_resource_claim_statuses or ()
            if status.resource_claim_name == claim.metadata.name
        }
        name = f"node allocatable resource claim {claim.metadata.name}"
        if len(users) > 1:
            return unresolvable(f"{name} shared by multiple pods")
        if users and pod.metadata.uid not in users:
            return unresolvable(f"{name} is already used by another pod")
        return None

    def _find_standing(self, cycle: PodClaims) -> frozenset[int]:
        """Return the positions of the allocated claims with a device that stands for resources of its node."""
        return frozenset(
            position
            for position, claim in enumerate(cycle.claims)
            if (allocation := claim.status.allocation or cycle.shared.get(position)) is not None
            and any(self._stands_for_any(result) for result in allocation.devices.results or ())
        )

    def _stands_for_any(self, result: DeviceRequestAllocationResult) -> bool:
        try:
            device = self._devices.slices.find_device((result.driver, result.pool, result.device))
        except (AllocationError, DecodeError):
            return False
        return device is not None and self._shares.stands_for_any(device)

    # --- does the pod fit? ---

    def check(
        self, cycle: PodClaims, pod: PodInfo, node: NodeInfo, results: Sequence[AllocationResult]
    ) -> Statuses | Status:
        """Return what the pod's claims would take of the node, or why it does not fit there with that.

        `results`: the allocations of its claims that have none written, in order.
        """
        # For a claim that the pod names twice devices are found twice, as in kube-scheduler: the last ones count.
        unwritten = (claim.key for claim in cycle.claims if claim.status.allocation is None)
        given, claims = dict(zip(unwritten, results, strict=False)), list[tuple[ResourceClaim, AllocationResult]]()
        for claim in cycle.claims:
            allocation = claim.status.allocation
            if allocation is None:
                allocation = given.get(claim.key)
            elif self._is_old:
                continue
            if allocation is not None and self._takes_any(allocation, node):
                claims.append((claim, allocation))
        if not claims:
            return []
        # 1. What they take.
        try:
            statuses = self._statuses(claims, pod.pod, node)
        except (NodeResourcesError, AllocationError, DecodeError, QuantityError) as error:
            return error_status(str(error))
        unused = next((each for each in statuses if self._is_old and not each.containers), None)
        if unused is not None:
            text = "node-allocatable resource claim not referenced by any container within the pod"
            return unresolvable(f"claim {unused.resource_claim_name}: {text}")
        # 2. Do the requests and limits of the pod as a whole leave room for it, and does the node?
        try:
            short = self._exceeds_pod(pod.pod, statuses) or _exceeds_node(self._demand(pod.pod, statuses), node)
        except DecodeError as error:
            return error_status(str(error))
        return statuses if short is None else short

    def _takes_any(self, allocation: AllocationResult, node: NodeInfo) -> bool:
        for result in allocation.devices.results or ():
            try:
                device = self._devices.slices.find_device((result.driver, result.pool, result.device), node.node)
            except (AllocationError, DecodeError):
                continue
            if device is not None and self._shares.takes_any(device):
                return True
        return False

    def _statuses(self, claims: Sequence[tuple[ResourceClaim, AllocationResult]], pod: Pod, node: NodeInfo) -> Statuses:
        """Return what claims take, by name. Raises NodeResourcesError, AllocationError, DecodeError, QuantityError."""
        slices, found = self._devices.slices, dict[str, NodeAllocatableResourceClaimStatus]()
        for claim, allocation in claims:
            status = self._shares.of_claim(
                claim,
                allocation,
                lambda result: slices.find_device((result.driver, result.pool, result.device), node.node),
            )
            if status is not None:
                found[claim.metadata.name] = status
        users = _users(pod)
        return [replace(found[name], containers=users.get(name)) for name in sorted(found)]

    def _demand(self, pod: Pod, statuses: Statuses) -> Resources:
        counted = replace(pod, status=replace(pod.status, node_allocatable_resource_claim_statuses=statuses))
        return pod_resources(counted, sums_resizes_apart=self._sums_resizes_apart, counts_claims=True).total

    def _exceeds_pod(self, pod: Pod, statuses: Statuses) -> Status | None:
        """Return why the requests or limits of the pod as a whole are too small. Raises DecodeError."""
        if pod.spec.resources is None or not statuses:
            return None
        # 1. Its requests must cover those of its containers and what devices take.
        requested = {name: each for name, each in stated_by(pod.spec, "requests").items() if is_of_pods(name)}
        short = _exceeded(requested, stated_by_containers(pod, "requests"), claimed_resources(statuses))
        if short:
            covers = f"pod level request for {short} is insufficient to cover"
            return unresolvable(f"{covers} the aggregated container and node-allocatable DRA requests")
        limits = stated_by(pod.spec, "limits")
        return None if self._is_old or not limits else _exceeds_limits(pod, limits, statuses)

    # --- the pod on its node ---

    def on_node(self, pod: PodInfo, statuses: Sequence[NodeAllocatableResourceClaimStatus]) -> PodInfo:
        """Return the pod as it counts on a node once it is there."""
        status = replace(pod.pod.status, node_allocatable_resource_claim_statuses=[*statuses])
        return PodInfo(replace(pod.pod, status=status), self._sums_resizes_apart, counts_claims=True)


def _exceeds_limits(pod: Pod, limits: dict[str, int], statuses: Statuses) -> Status | None:
    """Return why the limits of the pod as a whole are too small; none for those that it does not have."""
    # 1. Of hugepages, nobody can have more than that: all together count.
    huge = {name: each for name, each in limits.items() if name.startswith(HUGEPAGES_PREFIX)}
    short = _exceeded(huge, stated_by_containers(pod, "limits"), claimed_resources(statuses))
    if short:
        covers = f"pod level limit for {short} is insufficient to cover"
        return unresolvable(f"{covers} the aggregated container and node-allocatable DRA limits")
    # 2. Of others, each container counts by itself, if it has a limit.
    others = limits.keys() - huge.keys()
    for container in pod.spec.containers:
        own = {name: each for name, each in stated_by(container, "limits").items() if name in others}
        short = _exceeded({name: limits[name] for name in own}, own, claimed_resources(statuses, container.name))
        if short:
            covers = f"pod level limit for {short} is insufficient to cover"
            return unresolvable(f"{covers} the limit and DRA overhead for container {container.name}")
    return None


def _exceeded(most: dict[str, int], stated: dict[str, int], of_claims: dict[str, int]) -> str:
    """Return the first resource, by name, of which there is more than the most; "" if there is none."""
    for name in sorted(most):
        if stated.get(name, 0) + of_claims.get(name, 0) > most[name]:
            return name
    return ""


def _users(pod: Pod) -> dict[str, list[str]]:
    """Return the names of the containers that use each claim, by the claim's name; init containers are first."""
    made = made_claims(pod)
    names = {each.name: each.resource_claim_name or made.get(each.name) for each in pod.spec.resource_claims or ()}
    users: dict[str, list[str]] = {}
    for container in (*(pod.spec.init_containers or ()), *pod.spec.containers):
        for used in (container.resources.claims if container.resources else None) or ():
            name = names.get(used.name)
            if name is not None:
                users.setdefault(name, []).append(container.name)
    return users


def _exceeds_node(demand: Resources, node: NodeInfo) -> Status | None:
    """Return what the node has too little of for a pod that needs so much in all; other scalars are not looked at."""
    short: list[str] = []
    is_hopeless = False
    huge = [name for name in demand.scalars if name.startswith(HUGEPAGES_PREFIX)]
    for name in (*(each for each in _NATIVE if demand.amount(each) > 0), *huge):
        needed = demand.amount(name)
        if needed > node.free_of(name):
            short.append(f"Insufficient {name}")
            is_hopeless |= needed > node.allocatable.resources.amount(name)
    if not short:
        return None
    return unresolvable(*short) if is_hopeless else unschedulable(*short)
