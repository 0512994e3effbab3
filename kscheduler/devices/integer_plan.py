"""What claims ask for as columns of integers, so that the kernel can search a node's devices for all of them together.

The kernel goes the same way as `search.Search`, which is the definition, and takes as many steps. It is asked about
requests for numbers of devices and for all, with alternatives, selectors, amounts of capacity, admin access, and
constraints, also on attributes that are lists.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kscheduler._fast import find_devices
from kscheduler.api.devices import ResourceClaim
from kscheduler.api.exact_quantity import Quantity
from kscheduler.devices.allocated import AllocatedState
from kscheduler.devices.amounts import amount_of
from kscheduler.devices.capacity import CapacityError
from kscheduler.devices.constraints import applies
from kscheduler.devices.counters import AvailableCounters
from kscheduler.devices.device_table import DeviceTable, Matches
from kscheduler.devices.direct import DirectPlan
from kscheduler.devices.features import Features
from kscheduler.devices.matching import DeviceQuery
from kscheduler.devices.requests import Variant
from kscheduler.devices.search import MAX_RESULTS
from kscheduler.devices.selection import Selectors
from kscheduler.devices.slices import ParsedDevice

MOST_STEPS = 10_000  # of the kernel, which cannot be interrupted; a longer search starts again in the general search
_MATCH, _DISTINCT, _DISTINCT_REQUESTS = 0, 1, 2
_MATCH_SETS, _MATCH_NARROWING_SETS, _DISTINCT_SETS, _DISTINCT_SETS_OF_REQUESTS = 3, 4, 5, 6
_ALL_DEVICES, _ADMIN_ACCESS = 1, 2  # flags of variants

# For each claim the devices that are chosen, and what is consumed of those that are shared.
Found = list[list[tuple[Variant, ParsedDevice, Mapping[str, Quantity] | None]]]


@dataclass(frozen=True, slots=True, eq=False)
class IntegerPlan:
    """Nothing here names the claims: it holds for all pods whose claims have equal specs, as long as classes stay."""

    requests: Sequence[Sequence[Sequence[Variant]]]  # for each claim its requests, each with its variants
    variants: Sequence[tuple[int, Variant]]  # all of them, with the number of their claim
    claim_starts: array[int]
    variant_starts: array[int]
    has_alternatives: bytes
    flags: bytes  # of the variants
    wants_all: bool  # is there a variant that does?
    queries: Sequence[DeviceQuery]  # of the variants
    constraint_claims: array[int]
    kinds: bytes
    attributes: Sequence[str]  # of the constraints
    has_lists: bool  # may they be lists?
    applies: bytes

    @staticmethod
    def of(
        claims: Sequence[ResourceClaim], requests: Sequence[Sequence[Sequence[Variant]]], features: Features
    ) -> IntegerPlan | None:
        """Make the plan for claims with their prepared requests; None if the kernel cannot be asked about them."""
        variants = [
            (place, variant) for place, of_claim in enumerate(requests) for each in of_claim for variant in each
        ]
        if not variants or not all(variant.wants_all or variant.count > 0 for _, variant in variants):
            return None
        if any(_least(of_claim) > MAX_RESULTS for of_claim in requests):
            return None  # that is an error
        given = [(i, each) for i, claim in enumerate(claims) for each in claim.spec.devices.constraints or ()]
        kinds, attributes = bytearray(), list[str]()
        match, distinct = _kinds(features)
        for _, constraint in given:
            if constraint.match_attribute is not None:
                kinds.append(match)
                attributes.append(constraint.match_attribute)
            elif constraint.distinct_attribute is not None:
                kinds.append(distinct)
                attributes.append(constraint.distinct_attribute)
            else:
                return None
        if any(name in variant.derived for name in attributes for _, variant in variants):
            return None
        by_request = _DISTINCT_REQUESTS in kinds or _DISTINCT_SETS_OF_REQUESTS in kinds
        if by_request and any(len(_names(of_claim)) < len(of_claim) for of_claim in requests):
            return None
        all_requests = [each for of_claim in requests for each in of_claim]
        return IntegerPlan(
            requests=requests,
            variants=variants,
            claim_starts=_starts([len(of_claim) for of_claim in requests]),
            variant_starts=_starts([len(each) for each in all_requests]),
            has_alternatives=bytes(bool(each[0].alternative) for each in all_requests),
            flags=bytes(
                _ALL_DEVICES * variant.wants_all + _ADMIN_ACCESS * variant.has_admin_access for _, variant in variants
            ),
            wants_all=any(variant.wants_all for _, variant in variants),
            queries=[DeviceQuery.of(variant) for _, variant in variants],
            constraint_claims=array("i", [i for i, _ in given]),
            kinds=bytes(kinds),
            attributes=attributes,
            has_lists=features.list_attributes,
            applies=bytes(
                applies(frozenset(constraint.requests or ()), variant.request, variant.alternative)
                for _, constraint in given
                for _, variant in variants
            ),
        )

    def find(
        self, table: DeviceTable, state: AllocatedState, available: AvailableCounters, selectors: Selectors
    ) -> tuple[int, Found | None] | None:
        """Return the number of steps and the devices, or None for these if there is no solution; None if the kernel
        cannot tell.
        """
        matches = table.kept[self] if self in table.kept else self._look_at(table, selectors)
        in_use, left = table.in_use(state), table.available(available)
        if matches is None or in_use is None or left is None:
            return None
        if self.wants_all and table.leaves_out_used_up and table.has_shares(state):
            return None
        room = table.room(state, matches.unit)
        if room is None:
            return None
        steps, chosen = find_devices(
            self.claim_starts,
            self.variant_starts,
            self.has_alternatives,
            matches.counts,
            self.flags,
            matches.matching,
            in_use,
            table.sharing(state, available),
            *table.uses,
            table.pool_of,
            table.pool_starts,
            left,
            table.room_starts,
            room,
            matches.needs,
            self.constraint_claims,
            self.kinds,
            matches.values,
            self.applies,
            MOST_STEPS,
        )
        if steps < 0:
            return None
        if chosen is None:
            return steps, None
        found: Found = [[] for _ in self.requests]
        for place in range(0, len(chosen), 2):
            number, device = chosen[place : place + 2]
            claim, variant = self.variants[number]
            found[claim].append((variant, table.devices[device], matches.amounts.get((number, device))))
        return steps, found

    def _look_at(self, table: DeviceTable, selectors: Selectors) -> Matches | None:
        """Match variants with devices; None if the kernel cannot be asked about these."""
        if self.wants_all and not table.has_all_pools:
            return None  # that is an error
        matches = Matches()
        for attribute in self.attributes:
            values = table.value_sets(attribute) if self.has_lists else table.values(attribute)
            if values is None:
                table.keep(self, None)
                return None
            matches.values.extend(values)
        found = [table.matching(query, selectors) for query in self.queries]
        matching = [each for each in found if each is not None]
        if len(matching) < len(found):
            return None
        try:
            self._consume(table, matching, matches)
        except (CapacityError, OverflowError):
            return None
        for (_, variant), each in zip(self.variants, matching, strict=True):
            matches.counts.append(len(each) - each.count(0) if variant.wants_all else min(variant.count, 1 << 30))
        if self.wants_all and self._exceeds_limit(matches.counts):
            return None  # that is an error
        matches.matching = b"".join(matching)
        table.keep(self, matches)
        return matches

    def _consume(self, table: DeviceTable, matching: Sequence[bytearray], matches: Matches) -> None:
        """Find what variants consume of devices; those that do not offer it match no longer.

        Raises CapacityError or OverflowError where only the general search can tell.
        """
        amounts = matches.amounts
        for number, (_, variant) in enumerate(self.variants):
            for place, device in enumerate(table.devices):
                is_shared = place in table.shared
                if not matching[number][place] or not (
                    is_shared or variant.capacity is not None or device.has_capacity_policy
                ):
                    continue
                consumed = table.amounts(variant, place)
                if consumed is None:
                    matching[number][place] = 0
                elif is_shared:
                    amounts[number, place] = consumed
        needs = [
            amount_of(amounts[number, place][name]) if (number, place) in amounts else 0
            for number in range(len(self.variants))
            for place, name in table.capacities
        ]
        if any(each < 0 for each in needs):
            raise OverflowError("expected amounts that are not negative")
        matches.unit = math.gcd(*needs) or 1
        matches.needs.extend(each // matches.unit for each in needs)

    def _exceeds_limit(self, counts: Sequence[int]) -> bool:
        """Return whether a claim wants more devices at least than it can have."""
        starts = self.variant_starts
        least = [min(counts[starts[each] : starts[each + 1]]) for each in range(len(starts) - 1)]
        claims = self.claim_starts
        return any(sum(least[claims[each] : claims[each + 1]]) > MAX_RESULTS for each in range(len(claims) - 1))


@dataclass(frozen=True, slots=True, eq=False)
class ClaimsPlan:
    """How devices are allocated to claims that ask for the same, without the general form of the search."""

    direct: DirectPlan | None  # where the first free devices suffice
    integers: IntegerPlan | None  # by the kernel


def _kinds(features: Features) -> tuple[int, int]:
    """Return the kinds of constraints by which values match, and by which they are distinct."""
    rules = features.rules
    if features.list_attributes:
        return (
            _MATCH_SETS if rules.widens_matched_lists else _MATCH_NARROWING_SETS,
            _DISTINCT_SETS_OF_REQUESTS if rules.distinct_by_request else _DISTINCT_SETS,
        )
    return _MATCH, _DISTINCT_REQUESTS if rules.distinct_by_request else _DISTINCT


def _least(requests: Sequence[Sequence[Variant]]) -> int:
    """Return how many devices the requests of a claim need at least, if nothing matches those for all devices."""
    return sum(min(variant.count for variant in each) for each in requests)


def _names(requests: Sequence[Sequence[Variant]]) -> set[str]:
    return {each[0].request for each in requests}


def _starts(lengths: Sequence[int]) -> array[int]:
    starts = array("i", [0])
    for length in lengths:
        starts.append(starts[-1] + length)
    return starts
