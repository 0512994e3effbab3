"""What claims ask for as columns of integers, so that the kernel can search a node's devices for all of them together.

The kernel goes the same way as `search.Search`, which is the definition, and takes as many steps. It is asked about
requests for numbers of devices, with alternatives, selectors, and constraints of single values.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from kscheduler._fast import find_devices
from kscheduler.api.devices import ResourceClaim
from kscheduler.devices.allocated import AllocatedState
from kscheduler.devices.constraints import applies
from kscheduler.devices.counters import AvailableCounters
from kscheduler.devices.device_table import DeviceTable
from kscheduler.devices.direct import DirectPlan
from kscheduler.devices.features import Features
from kscheduler.devices.matching import DeviceQuery
from kscheduler.devices.requests import Variant
from kscheduler.devices.search import MAX_RESULTS
from kscheduler.devices.slices import ParsedDevice

MOST_STEPS = 10_000  # of the kernel, which cannot be interrupted; a longer search starts again in the general search
_MATCH, _DISTINCT = 0, 1

Found = list[list[tuple[Variant, ParsedDevice]]]  # for each claim the devices that are chosen


@dataclass(frozen=True, slots=True, eq=False)
class IntegerPlan:
    """Nothing here names the claims: it holds for all pods whose claims have equal specs, as long as classes stay."""

    requests: Sequence[Sequence[Sequence[Variant]]]  # for each claim its requests, each with its variants
    variants: Sequence[tuple[int, Variant]]  # all of them, with the number of their claim
    claim_starts: array[int]
    variant_starts: array[int]
    has_alternatives: bytes
    counts: array[int]
    queries: Sequence[DeviceQuery]  # of the variants
    constraint_claims: array[int]
    kinds: bytes
    attributes: Sequence[str]  # of the constraints
    applies: bytes

    @staticmethod
    def of(
        claims: Sequence[ResourceClaim], requests: Sequence[Sequence[Sequence[Variant]]], features: Features
    ) -> IntegerPlan | None:
        """Make the plan for claims with their prepared requests; None if the kernel cannot be asked about them."""
        variants = [
            (place, variant) for place, of_claim in enumerate(requests) for each in of_claim for variant in each
        ]
        if not variants or not all(_is_number(variant) for _, variant in variants):
            return None
        for of_claim in requests:
            if sum(min(variant.count for variant in each) for each in of_claim) > MAX_RESULTS:
                return None  # that is an error
        given = [(i, each) for i, claim in enumerate(claims) for each in claim.spec.devices.constraints or ()]
        if given and features.list_attributes:
            return None
        kinds, attributes = bytearray(), list[str]()
        for _, constraint in given:
            if constraint.match_attribute is not None:
                kinds.append(_MATCH)
                attributes.append(constraint.match_attribute)
            elif constraint.distinct_attribute is not None and not features.rules.distinct_by_request:
                kinds.append(_DISTINCT)
                attributes.append(constraint.distinct_attribute)
            else:
                return None
        all_requests = [each for of_claim in requests for each in of_claim]
        return IntegerPlan(
            requests=requests,
            variants=variants,
            claim_starts=_starts([len(of_claim) for of_claim in requests]),
            variant_starts=_starts([len(each) for each in all_requests]),
            has_alternatives=bytes(bool(each[0].alternative) for each in all_requests),
            counts=array("i", [min(variant.count, 1 << 30) for _, variant in variants]),
            queries=[DeviceQuery.of(variant) for _, variant in variants],
            constraint_claims=array("i", [i for i, _ in given]),
            kinds=bytes(kinds),
            attributes=attributes,
            applies=bytes(
                applies(frozenset(constraint.requests or ()), variant.request, variant.alternative)
                for _, constraint in given
                for _, variant in variants
            ),
        )

    def find(
        self, table: DeviceTable, state: AllocatedState, available: AvailableCounters
    ) -> tuple[int, Found | None] | None:
        """Return the number of steps and the devices, or None for these if there is no solution; None if the kernel
        cannot tell.
        """
        on_table = table.kept.get(self) or self._look_at(table)
        in_use, left = table.in_use(state), table.available(available)
        if on_table is None or in_use is None or left is None:
            return None
        matching, values = on_table
        steps, chosen = find_devices(
            self.claim_starts,
            self.variant_starts,
            self.has_alternatives,
            self.counts,
            matching,
            in_use,
            *table.uses,
            table.pool_of,
            table.pool_starts,
            left,
            self.constraint_claims,
            self.kinds,
            values,
            self.applies,
            MOST_STEPS,
        )
        if steps < 0:
            return None
        if chosen is None:
            return steps, None
        found: Found = [[] for _ in self.requests]
        for place in range(0, len(chosen), 2):
            claim, variant = self.variants[chosen[place]]
            found[claim].append((variant, table.devices[chosen[place + 1]]))
        return steps, found

    def _look_at(self, table: DeviceTable) -> tuple[bytes, array[int]] | None:
        """Return which devices variants allow, and the constraints' values; None if selectors were not asked yet."""
        matching = []
        for query in self.queries:
            found = table.matching(query)
            if found is None:
                return None
            matching.append(found)
        values = array("i")
        for attribute in self.attributes:
            values.extend(table.values(attribute))
        on_table = b"".join(matching), values
        table.keep(self, on_table)
        return on_table


@dataclass(frozen=True, slots=True, eq=False)
class ClaimsPlan:
    """How devices are allocated to claims that ask alike, without the general form of the search."""

    direct: DirectPlan | None  # where the first free devices suffice
    integers: IntegerPlan | None  # by the kernel


def _is_number(variant: Variant) -> bool:
    return not variant.wants_all and not variant.has_admin_access and variant.capacity is None and variant.count > 0


def _starts(lengths: Sequence[int]) -> array[int]:
    starts = array("i", [0])
    for length in lengths:
        starts.append(starts[-1] + length)
    return starts
