"""Lists the claims of a pod with their state and the devices that they have, as a JSON document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from kscheduler.api.devices import AllocationResult, DeviceRequestAllocationResult, ResourceClaim
from kscheduler.api.objects import Pod, PodResourceClaim
from kscheduler.framework.plugins.dynamicresources.claims import Claims, made_claims

EXTENDED = "extended resources"  # stands for the claim that the scheduler makes for these

Document = dict[str, Any]


class KnownClaims(Claims, Protocol):
    """Where claims are looked up; the scheduler's `Devices` is one."""

    def special_claim(self, pod: Pod) -> ResourceClaim | None:
        """Return the claim that was made for the pod's extended resources, or None."""
        ...

    def pending_allocation(self, uid: str) -> AllocationResult | None:
        """Return the allocation of the claim with this uid that is decided and not written yet, or None."""
        ...


def list_claims(pod: Pod, known: KnownClaims) -> list[Document]:
    """Return a document for each claim of the pod, in the order of its spec; [] for a pod that has none."""
    listed = [_listed(pod, entry, known) for entry in pod.spec.resource_claims or ()]
    special = known.special_claim(pod)
    if special is not None:
        listed.append(_described(EXTENDED, "", special, known))
    return listed


def claims_document(listed: list[Document]) -> Document:
    """Return the document about a pod's claims that says nothing yet about what they lack."""
    return {
        "claims": listed,
        "waitsFor": "",
        "nodes": 0,
        "satisfied": 0,
        "findings": [],
        "findingsLeftOut": 0,
    }


def _listed(pod: Pod, entry: PodResourceClaim, known: KnownClaims) -> Document:
    """Describe the claim for an entry of the pod's spec, which may not exist yet, or not any more."""
    template = entry.resource_claim_template_name or ""
    made = made_claims(pod)
    name = entry.resource_claim_name
    if name is None:
        if entry.name not in made:
            return _entry(entry.name, "", template, "not made yet")
        name = made[entry.name]
    if name is None:
        return _entry(entry.name, "", template, "not needed")
    key = f"{pod.metadata.namespace}/{name}"
    claim = known.claims.get(key)
    if claim is None:
        return _entry(entry.name, key, template, "not found")
    return _described(entry.name, template, claim, known)


def _described(entry: str, template: str, claim: ResourceClaim, known: KnownClaims) -> Document:
    allocation, state = claim.status.allocation, "allocated"
    if allocation is None:
        allocation, state = known.pending_allocation(claim.metadata.uid), "being allocated"
    if claim.metadata.deletion_timestamp is not None:
        state = "being deleted"
    elif allocation is None:
        state = "not allocated"
    results = () if allocation is None else allocation.devices.results or ()
    return _entry(entry, claim.key, template, state, results)


def _entry(
    name: str, claim: str, template: str, state: str, results: Iterable[DeviceRequestAllocationResult] = ()
) -> Document:
    """Return the document of one claim. `name`: of its entry in the pod's spec."""
    devices = [
        {
            "request": each.request,
            "driver": each.driver,
            "pool": each.pool,
            "device": each.device,
            "shareID": each.share_id or "",
        }
        for each in results
    ]
    return {"name": name, "claim": claim, "template": template, "state": state, "devices": devices}
