"""The ResourceClaims of a pod: those that its spec names, and those that were made for it from templates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Protocol

from kscheduler.api.devices import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from kscheduler.api.labels import NODE_NAME_FIELD
from kscheduler.api.objects import Pod, PodResourceClaim
from kscheduler.api.pod_groups import PodGroup
from kscheduler.errors import KSchedulerError
from kscheduler.framework.status import Status, error_status, unresolvable
from kscheduler.snapshot.devices import Devices, unknown_claim

GROUPS_API = "scheduling.k8s.io"


class NotReady(KSchedulerError):
    """Raised if a claim of the pod is not there, or not its own, so that the pod has to wait; with kube-scheduler's
    words.
    """


class Claims(Protocol):
    @property
    def claims(self) -> Mapping[str, ResourceClaim]:
        """The newest version of each claim, by namespace/name."""
        ...

    @property
    def accepts_groups(self) -> bool:
        """Whether a claim that was made for a pod's PodGroup is the pod's."""
        ...


# Of an entry of a pod's status: the name in the pod's spec, and the name of the claim that was made from the template,
# None if none is needed. It is used where a function of ours would be a call more for each pod.
_MADE = attrgetter("name", "resource_claim_name")


def made_claims(pod: Pod) -> dict[str, str | None]:
    """Return for each name in the pod's spec the claim that was made from the template, or None if none is needed."""
    return dict(map(_MADE, pod.status.resource_claim_statuses or ()))


def find_claims(pod: Pod, known: Claims) -> list[ResourceClaim]:
    """Return the pod's claims in the order of its spec, in their newest versions. Raises NotReady."""
    # Asked several times for each pod: so this is one function.
    found: list[ResourceClaim] = []
    claims, namespace = known.claims, pod.metadata.namespace
    made: dict[str, str | None] = dict(map(_MADE, pod.status.resource_claim_statuses or ()))
    for entry in pod.spec.resource_claims or ():
        name, is_generated = entry.resource_claim_name, False
        if name is None:
            if entry.name not in made or entry.resource_claim_template_name is None:
                raise _no_claim_yet(pod, entry)
            name, is_generated = made[entry.name], True
            if name is None:
                continue
        key = f"{namespace}/{name}"
        claim = claims.get(key)
        if claim is None:
            raise NotReady(unknown_claim(key))
        if claim.metadata.deletion_timestamp is not None:
            raise NotReady(f'resourceclaim "{name}" is being deleted')
        if is_generated:
            for owner in claim.metadata.owner_references or ():
                if owner.controller:
                    is_owner = owner.uid == pod.metadata.uid
                    break
            else:
                is_owner = False
            if not is_owner:
                _check_group(claim, pod, accepts_groups=known.accepts_groups)
        found.append(claim)
    return found


def _check_group(claim: ResourceClaim, pod: Pod, *, accepts_groups: bool) -> None:
    """Raise NotReady unless a claim that was not made for the pod itself was made for its PodGroup."""
    not_for = f"ResourceClaim {claim.key} was not created for Pod {pod.key}"
    group = group_name(pod)
    if not accepts_groups or group is None:
        raise NotReady(f"{not_for} (Pod is not owner)")
    for owner in claim.metadata.owner_references or ():
        if owner.controller:
            if owner.name == group and owner.kind == "PodGroup" and owner.api_version.startswith(f"{GROUPS_API}/"):
                return
            break
    raise NotReady(f"{not_for} (neither Pod nor PodGroup {group} is the owner)")


def group_name(pod: Pod) -> str | None:
    """Return the name of the PodGroup that the pod belongs to, or None."""
    group = pod.spec.scheduling_group
    return None if group is None else group.pod_group_name or None


def consumers_of(pod: Pod, groups: Mapping[str, PodGroup]) -> list[ResourceClaimConsumerReference]:
    """Return for whom each claim in the pod's spec is to be reserved: the pod's group, if it names it as well.

    The list is empty for a pod without a group: all of its claims are for itself. Raises NotReady if the group is
    unknown. As in kube-scheduler, a claim that is not needed counts here, although `find_claims` leaves it out.
    """
    name = group_name(pod)
    if name is None:
        return []
    key = f"{pod.metadata.namespace}/{name}"
    group = groups.get(key)
    if group is None:
        raise NotReady(f"pod group object not found for pod group {key}")
    of_group = {
        (each.name, each.resource_claim_name, each.resource_claim_template_name)
        for each in group.spec.resource_claims or ()
    }
    own = reference(pod)
    shared = ResourceClaimConsumerReference(GROUPS_API, "podgroups", name, group.metadata.uid)
    return [
        shared if (entry.name, entry.resource_claim_name, entry.resource_claim_template_name) in of_group else own
        for entry in pod.spec.resource_claims or ()
    ]


def claims_of_group(group: PodGroup, known: Claims) -> Iterator[ResourceClaim]:
    """Yield the claims that a PodGroup names, and those that were made for it, in order. Raises NotReady at one that is
    not there.
    """
    made = {each.name: each.resource_claim_name for each in group.status.resource_claim_statuses or ()}
    for entry in group.spec.resource_claims or ():
        name = entry.resource_claim_name
        if name is None:
            if entry.name not in made:
                raise NotReady(f"PodGroup {group.key}: ResourceClaim not created yet")
            name = made[entry.name]
            if name is None:
                continue
        key = f"{group.metadata.namespace}/{name}"
        claim = known.claims.get(key)
        if claim is None:
            raise NotReady(unknown_claim(key))
        owners = claim.metadata.owner_references or ()
        is_made_for = any(each.controller and each.uid == group.metadata.uid for each in owners)
        if entry.resource_claim_name is not None or is_made_for:
            yield claim


def reference(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def _no_claim_yet(pod: Pod, entry: PodResourceClaim) -> NotReady:
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if entry.resource_claim_template_name is None:
        return NotReady(f'pod "{name}", spec.resourceClaim "{entry.name}": none of the supported fields are set')
    return NotReady(f'pod "{name}": ResourceClaim not created yet')


def claim_keys(pod: Pod) -> list[str]:
    """Return the namespace/name of each claim of the pod that has a name by now."""
    found = []
    made: dict[str, str | None] = dict(map(_MADE, pod.status.resource_claim_statuses or ()))
    for entry in pod.spec.resource_claims or ():
        name = entry.resource_claim_name
        if name is None and entry.resource_claim_template_name is not None:
            name = made.get(entry.name)
        if name is not None:
            found.append(f"{pod.metadata.namespace}/{name}")
    return found


def is_reserved_for(claim: ResourceClaim, pod: Pod, *, or_group: bool = False) -> bool:
    """Return whether the claim is reserved for the pod; with `or_group`, or for a PodGroup of its group's name."""
    reserved = claim.status.reserved_for
    if reserved is None:
        return False
    if any(each.uid == pod.metadata.uid for each in reserved):
        return True
    if not or_group or (name := group_name(pod)) is None:
        return False
    return any((each.api_group, each.resource, each.name) == (GROUPS_API, "podgroups", name) for each in reserved)


def only_node(claims: Iterable[ResourceClaim]) -> str | None:
    """Return the name of the node that all these claims are allocated on; None if their allocations do not name one."""
    found: str | None = None
    for claim in claims:
        allocation = claim.status.allocation
        terms = None if allocation is None or allocation.node_selector is None else allocation.node_selector
        if terms is None or len(terms.node_selector_terms) != 1:
            return None
        term = terms.node_selector_terms[0]
        if term.match_expressions or term.match_fields is None or len(term.match_fields) != 1:
            return None
        wanted = term.match_fields[0]
        if wanted.key != NODE_NAME_FIELD or wanted.operator != "In":
            return None
        values = wanted.values or ()
        if len(values) != 1 or found not in (None, values[0]):
            return None
        found = values[0]
    return found


def check_requests(claim: ResourceClaim, devices: Devices) -> Status | None:
    """Return why no node can satisfy the requests of an unallocated claim: a class that does not exist, or None."""
    for request in claim.spec.devices.requests or ():
        if request.exactly is not None:
            status = _check_class(request.exactly.device_class_name, request.name, devices)
            if status is not None:
                return status
        elif request.first_available:
            for alternative in request.first_available:
                name = f"{request.name}/{alternative.name}"
                status = _check_class(alternative.device_class_name, name, devices)
                if status is not None:
                    return status
        else:
            return unresolvable(f"resource claim {claim.key}, request {request.name}: unknown request type")
    return None


def _check_class(class_name: str, request: str, devices: Devices) -> Status | None:
    if not class_name:
        return error_status(f"request {request}: unsupported request type")
    if class_name not in devices.classes:
        return unresolvable(f"request {request}: device class {class_name} does not exist")
    return None


def skips_node_operations(allocation: AllocationResult | None) -> bool:
    """Return whether a kubelet is to skip an operation for a device of the allocation."""
    if allocation is None:
        return False
    return any(each.skip_node_operations for each in allocation.devices.results or ())
