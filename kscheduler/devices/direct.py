"""Allocates to claims that only ask for numbers of devices, without a search, where the first matching ones will do.

Such requests take the first free devices that match, one request after the other, as the search does as long as it
need not go back. Where that does not give them all, or a device takes more than looking at selectors and use, nothing
is allocated here and the search decides. So what is allocated here is what the search would find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kscheduler.api.devices import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    DeviceToleration,
    ResourceClaim,
)
from kscheduler.api.labels import NODE_NAME_FIELD
from kscheduler.api.objects import NodeSelector, NodeSelectorTerm, SelectorRequirement
from kscheduler.config.device_rules import DeviceRules
from kscheduler.devices.allocated import AllocatedState, DeviceID
from kscheduler.devices.requests import Variant
from kscheduler.devices.results import configs_of
from kscheduler.devices.search import MAX_RESULTS
from kscheduler.devices.slice_index import NodePools
from kscheduler.devices.slices import NO, UNKNOWN, YES, ParsedDevice


@dataclass(frozen=True, slots=True, eq=False)
class DirectRequest:
    """A request for a number of devices. `expressions`: its selectors, those of the class first."""

    name: str
    expressions: tuple[str, ...]
    count: int
    tolerations: list[DeviceToleration] | None


@dataclass(frozen=True, slots=True, eq=False)
class DirectClaim:
    requests: tuple[DirectRequest, ...]
    config: list[DeviceAllocationConfiguration] | None


@dataclass(frozen=True, slots=True, eq=False)
class DirectPlan:
    """What the claims of a pod ask for, if these are numbers of devices; nothing here names the claims.

    It holds for all pods whose claims have equal specs, as long as the classes stay as they are.
    """

    claims: tuple[DirectClaim, ...]
    steps: int  # of a search that goes straight to its solution

    @staticmethod
    def of(
        claims: Sequence[ResourceClaim], requests: Sequence[Sequence[Sequence[Variant]]], rules: DeviceRules
    ) -> DirectPlan | None:
        """Make the plan for claims with their prepared requests; None if these ask for more than numbers of devices."""
        planned: list[DirectClaim] = []
        steps = 1
        for claim, of_claim in zip(claims, requests, strict=True):
            variants = [alternatives[0] for alternatives in of_claim]
            if claim.spec.devices.constraints or not variants or not all(_only_counts(each) for each in variants):
                return None
            if sum(each.count for each in variants) > MAX_RESULTS:
                return None
            steps += 1 + sum(each.count + 1 for each in variants)
            planned.append(
                DirectClaim(
                    tuple(
                        DirectRequest(
                            each.full_name,
                            tuple(selector.expression for selector in each.selectors),
                            each.count,
                            each.given_tolerations,
                        )
                        for each in variants
                    ),
                    configs_of(claim, variants, repeats_claim_configs=rules.repeats_claim_configs),
                )
            )
        return DirectPlan(tuple(planned), steps)

    def allocate(self, node_name: str, pools: NodePools, state: AllocatedState) -> list[AllocationResult] | None:
        """Return an allocation for each claim, or None if only the search can tell whether there is one."""
        taken: set[DeviceID] = set()
        allocations: list[AllocationResult] = []
        for claim in self.claims:
            results: list[DeviceRequestAllocationResult] = []
            for request in claim.requests:
                found = _take_first(request, pools.devices, state, taken)
                if found is None:
                    return None
                results += found
            only_here = SelectorRequirement(NODE_NAME_FIELD, "In", [node_name])
            allocations.append(
                AllocationResult(
                    devices=DeviceAllocationResult(results=results, config=claim.config),
                    node_selector=NodeSelector([NodeSelectorTerm(match_fields=[only_here])]),
                )
            )
        return allocations


def _take_first(
    request: DirectRequest, devices: Sequence[ParsedDevice], state: AllocatedState, taken: set[DeviceID]
) -> list[DeviceRequestAllocationResult] | None:
    """Take the first free devices that match, as many as are asked for; None if only the search can tell.

    `taken`: devices that requests before this one have taken; those taken here are added.
    """
    in_use, with_shares = state.devices, state.capacity
    found: list[DeviceRequestAllocationResult] = []
    for device in devices:
        # 1. Is it free?
        name = device.id
        if name in in_use or name in taken:
            continue
        # 2. Does it match all selectors?
        answer = YES
        for expression in request.expressions:
            answer = device.slice.answers(expression)[device.index]
            if answer != YES:
                break
        if answer == NO:
            continue
        # 3. Then it is the next one, unless it takes more to tell.
        if answer == UNKNOWN or not device.is_plain or name in with_shares:
            return None
        taken.add(name)
        driver, pool, bare = name
        found.append(
            DeviceRequestAllocationResult(
                request=request.name, driver=driver, pool=pool, device=bare, tolerations=request.tolerations
            )
        )
        if len(found) == request.count:
            return found
    return None


def _only_counts(variant: Variant) -> bool:
    """Return whether a request asks for a number of devices and for nothing that the search has to keep account of."""
    return (
        not variant.alternative
        and not variant.wants_all
        and not variant.has_admin_access
        and variant.capacity is None
        and variant.count > 0
    )
