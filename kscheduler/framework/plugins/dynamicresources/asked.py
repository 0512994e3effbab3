"""What unallocated claims ask for, found once for all pods whose claims have equal specs, as those of a template do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kscheduler.api.devices import ResourceClaim
from kscheduler.devices.allocator import AllocationError, Allocator
from kscheduler.devices.integer_plan import ClaimsPlan
from kscheduler.devices.matching import DeviceQuery
from kscheduler.framework.plugins.dynamicresources.claims import check_requests
from kscheduler.framework.plugins.dynamicresources.counting import Need, Needs, needs_of_requests, single_need
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.row_outcomes import ClaimsKey, key_of

MAX_KEPT = 256  # specs of the claims of a pod

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What the claims of a pod ask for; nothing here names the claims."""

    key: ClaimsKey
    needs: Needs | None  # None: the search is needed on every node
    only_need: Need | None  # if they only ask for a number of devices that match one query
    plan: ClaimsPlan | None  # how to allocate to them without a search in its general form
    queries: frozenset[DeviceQuery]  # what the requests and their alternatives ask of devices


class AskedClaims:
    """Keeps what claims ask for, by their specs, as long as the classes stay as they are."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._known: dict[bytes, Asked] = {}
        self._generation = -1  # of the classes for which this is known

    def of(self, claims: Sequence[ResourceClaim], allocator: Allocator) -> Asked | None:
        """Return what unallocated claims ask for; None if they cannot be allocated anywhere, or that is an error."""
        if self._generation != self._devices.classes_generation:
            self._generation = self._devices.classes_generation
            self._known.clear()
        try:
            specs = _encode(claims[0].spec if len(claims) == 1 else [claim.spec for claim in claims])
        except UnicodeEncodeError:  # a text that no apiserver stores
            return self._find(claims, allocator)
        asked = self._known.get(specs)
        if asked is None:
            asked = self._find(claims, allocator)
            if asked is None:
                return None
            if len(self._known) >= MAX_KEPT:
                self._known.clear()
            self._known[specs] = asked
        return asked

    def _find(self, claims: Sequence[ResourceClaim], allocator: Allocator) -> Asked | None:
        if any(check_requests(claim, self._devices) is not None for claim in claims):
            return None
        try:
            requests = [allocator.variants_of(claim) for claim in claims]
        except AllocationError:
            return None
        needs = needs_of_requests(claims, requests)
        plan = allocator.plan_for(claims, requests)
        queries = frozenset(DeviceQuery.of(each) for claim in requests for variants in claim for each in variants)
        return Asked(key_of(claims, requests), needs, single_need(needs), plan, queries)
