"""Filters nodes by the number of their free devices, and finds those for which the search is needed.

Too few free devices for a request reject a node as the search would. Where claims state numbers only, without
constraints, enough devices that no other request can take also prove that the search succeeds. Of a single
request with alternatives the first for which there are enough is chosen, if there are certainly too few for those
before.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kscheduler._fast import FEASIBLE, Verdicts, reject_marked
from kscheduler.api.devices import ResourceClaim
from kscheduler.devices.allocator import AllocationError, Allocator
from kscheduler.devices.matching import DeviceQuery
from kscheduler.devices.requests import Variant
from kscheduler.devices.search import MAX_RESULTS
from kscheduler.framework.plugins.dynamicresources.scoring import MAX_ALTERNATIVES
from kscheduler.snapshot.free_devices import FreeCounts, FreeDevices
from kscheduler.snapshot.row_outcomes import RowOutcomes

Need = tuple[DeviceQuery, int]  # so many devices that match

_ORDER: Literal["little"] = "little"  # of bytes in integers that stand for one byte of each row


@dataclass(frozen=True, slots=True)
class Needs:
    """What the claims of a pod need on a node."""

    numbers: dict[DeviceQuery, int]  # of requests without alternatives: query -> devices, for all requests together
    choices: list[list[Need]]  # of requests with alternatives: one need suffices
    has_constraints: bool

    @property
    def have_one_choice(self) -> bool:
        """Return whether they are a single request with alternatives."""
        return not self.has_constraints and not self.numbers and len(self.choices) == 1


@dataclass(frozen=True, slots=True)
class Judgement:
    """What follows from the counts for the rows (nodes) that they did not reject."""

    rows: list[int]  # those that the search has to be asked about, ascending; the others pass
    alternatives: dict[int, int]  # row that passes -> which alternative is chosen there, if there are any


def needs_of(claims: Sequence[ResourceClaim], allocator: Allocator) -> Needs | None:
    """Return what unallocated claims need, or None if the search is needed on every node.

    That is so for all devices, for admin access, for amounts of capacity, and for what may be an error, as where
    constraints read attributes that requests derive.
    """
    try:
        return needs_of_requests(claims, [allocator.variants_of(claim) for claim in claims])
    except AllocationError:
        return None


def needs_of_requests(
    claims: Sequence[ResourceClaim], requests_of_claims: Sequence[Sequence[Sequence[Variant]]]
) -> Needs | None:
    """Do the same as `needs_of`, for claims whose requests are prepared: for each claim its requests with variants."""
    numbers: Counter[DeviceQuery] = Counter()
    choices: list[list[Need]] = []
    has_constraints = False
    for claim, requests in zip(claims, requests_of_claims, strict=True):
        if not _are_numbers(requests):
            return None
        for variants in requests:
            needs = [(DeviceQuery.of(variant), variant.count) for variant in variants]
            if variants[0].alternative:
                choices.append(needs)
            else:
                numbers.update(dict(needs))
        constraints = claim.spec.devices.constraints or ()
        if constraints and any(each.derived for variants in requests for each in variants):
            return None
        for constraint in constraints:
            has_constraints = True
            if constraint.match_attribute is None and constraint.distinct_attribute is None:
                return None
    if not numbers and not choices:
        return None
    return Needs(dict(numbers), choices, has_constraints)


def _are_numbers(requests: Sequence[Sequence[Variant]]) -> bool:
    """Return whether the requests of a claim are for numbers of devices, as many as a claim can have."""
    for variants in requests:
        for each in variants:
            if each.wants_all or each.has_admin_access or each.capacity is not None or each.count < 1:
                return False
    return sum(min(each.count for each in variants) for variants in requests) <= MAX_RESULTS


def reject_short(
    needs: Needs, free: FreeDevices, verdicts: Verdicts, code: int, rows: list[int] | None = None
) -> Judgement:
    """Reject the rows (nodes) with too few free devices, with the reason number (detail) 0, and judge the others.

    `rows`: look at these feasible ones only; None: at all of them.
    """
    queries = dict.fromkeys((*needs.numbers, *(query for needs in needs.choices for query, _ in needs)))
    counts = dict(zip(queries, free.refresh(queries), strict=True))
    short = _short_rows(needs, counts)
    if rows is None:
        reject_marked(verdicts, short, code, 1)
        if len(counts) == 1 and not needs.choices and not needs.has_constraints:
            ((query, number),) = needs.numbers.items()
            return Judgement(_in_doubt(counts[query], number, verdicts), {})
        rows = verdicts.feasible_rows()
    else:
        verdicts.reject_rows([row for row in rows if short[row]], code, 0)
        rows = [row for row in rows if not short[row]]
    if needs.have_one_choice:
        return _choose(needs.choices[0], counts, rows)
    if needs.has_constraints or needs.choices:
        return Judgement(rows, {})
    # Requests that ask differently may want the same devices; enough for all of them are enough in any order.
    total = sum(needs.numbers.values())
    marks = _union([each.in_doubt(total) for each in counts.values()])
    return Judgement([row for row in rows if marks[row]], {})


def single_need(needs: Needs | None) -> Need | None:
    """Return the number of devices and their query if claims ask for nothing else, else None."""
    if needs is None or needs.choices or needs.has_constraints or len(needs.numbers) != 1:
        return None
    return next(iter(needs.numbers.items()))


def decide_unknown(need: Need, free: FreeDevices, outcomes: RowOutcomes) -> None:
    """Note what comes of the unknown rows (nodes) that are not in doubt, for claims that only need this number.

    The outcomes are those that `free` has just returned.
    """
    query, number = need
    counts = free.counts(query)
    for row in tuple(outcomes.unknown):
        if counts.most(row) < number:
            outcomes.reject(row)
        elif counts.certain(row) >= number:
            outcomes.accept(row, 0)


def decide_all(needs: Needs | None, free: FreeDevices, outcomes: RowOutcomes) -> bool:
    """Note what comes of all rows (nodes) that are not in doubt, without a look at each.

    Returns False if that is not possible: the claims do not only ask for a number of devices that match one query.
    """
    need = single_need(needs)
    if need is None:
        return False
    query, number = need
    (counts,) = free.refresh([query])
    too_few, in_doubt = counts.too_few(number), counts.in_doubt(number)
    outcomes.decide(too_few, [row for row in counts.doubtful if in_doubt[row] and not too_few[row]])
    return True


def _in_doubt(counts: FreeCounts, number: int, verdicts: Verdicts) -> list[int]:
    """Return the feasible rows where it is not certain that so many devices are free, without a look at all rows."""
    marks = counts.in_doubt(number)
    return [row for row in sorted(counts.doubtful) if marks[row] and verdicts.code(row) == FEASIBLE]


def _choose(alternatives: Sequence[Need], counts: Mapping[DeviceQuery, FreeCounts], rows: list[int]) -> Judgement:
    """Choose the alternative on each row, as the search does: the first that can be had."""
    to_search: list[int] = []
    chosen: dict[int, int] = {}
    for place, (query, number) in enumerate(alternatives):
        too_few, in_doubt = counts[query].too_few(number), counts[query].in_doubt(number)
        chosen.update(dict.fromkeys([row for row in rows if not in_doubt[row]], place))
        to_search += [row for row in rows if in_doubt[row] and not too_few[row]]
        rows = [row for row in rows if too_few[row]]
    return Judgement(sorted(to_search), chosen)


def _short_rows(needs: Needs, counts: Mapping[DeviceQuery, FreeCounts]) -> bytearray:
    """Return a byte for each row, 1 if too few devices are free for some request."""
    short = [counts[query].too_few(number) for query, number in needs.numbers.items()]
    short += [
        _intersection([counts[query].too_few(number) for query, number in alternatives])
        for alternatives in needs.choices
    ]
    if len(counts) == 1 and len(short) == 1:
        return short[0]
    marks = _union(short)
    for each in counts.values():
        for row in each.unknown:  # the search may find an error there, whatever the other requests lack
            marks[row] = 0
    return marks


def _union(marks: Sequence[bytearray]) -> bytearray:
    return _combined(marks, operator.or_)


def _intersection(marks: Sequence[bytearray]) -> bytearray:
    return _combined(marks, operator.and_)


def _combined(marks: Sequence[bytearray], combine: Callable[[int, int], int]) -> bytearray:
    """Combine the bytes of all rows at once, as digits of one integer."""
    if len(marks) == 1:
        return marks[0]
    combined = functools.reduce(combine, (int.from_bytes(each, _ORDER) for each in marks))
    return bytearray(combined.to_bytes(len(marks[0]), _ORDER))


def note_judged(outcomes: RowOutcomes, rows: Sequence[int], judgement: Judgement, verdicts: Verdicts) -> None:
    """Note what numbers of free devices say of rows (nodes)."""
    to_search, alternatives = set(judgement.rows), judgement.alternatives
    for row in rows:
        if verdicts.code(row) != FEASIBLE:
            outcomes.reject(row)
        elif row not in to_search:
            outcomes.accept(row, MAX_ALTERNATIVES - alternatives[row] if row in alternatives else 0)
