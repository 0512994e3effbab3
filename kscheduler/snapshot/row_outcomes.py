"""What came of allocating devices to claims that ask alike, on each row (node): columns that outlive scheduling cycles.

The search on a node depends on what the claims ask for, on the node, on the slices that it sees, and on the devices in
use there. As long as these stay, so does its outcome: for the next pod whose claims ask alike, only the rows
that have changed since are searched again.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Sequence, Set

from kscheduler.api.devices import ResourceClaim
from kscheduler.devices.requests import Variant

ClaimsKey = Hashable


def key_of(claims: Sequence[ResourceClaim], requests: Sequence[Sequence[Sequence[Variant]]]) -> ClaimsKey:
    """Return all that the search for unallocated claims reads of them and of their classes, but for messages.

    `requests`: for each claim its requests, each with its variants.
    """
    return tuple(
        (
            tuple(tuple(map(_key_of_variant, variants)) for variants in of_claim),
            tuple(
                (tuple(each.requests or ()), each.match_attribute, each.distinct_attribute)
                for each in claim.spec.devices.constraints or ()
            ),
        )
        for claim, of_claim in zip(claims, requests, strict=True)
    )


def _key_of_variant(variant: Variant) -> Hashable:
    capacity = variant.capacity
    return (
        variant.request,
        variant.alternative,
        tuple(selector.expression for selector in variant.selectors),
        variant.count,
        variant.wants_all,
        variant.has_admin_access,
        variant.tolerations,
        None if capacity is None else tuple((name, str(amount)) for name, amount in capacity.items()),
    )


class RowOutcomes:
    """The outcomes for claims that ask alike: rejected, or allocatable with a score; or unknown."""

    __slots__ = ("_never_known", "rejected", "scores", "unknown")

    def __init__(self, rows: int, never_known: Set[int]) -> None:
        """Begin with unknown outcomes. Those of the rows in `never_known`, which may change, stay unknown."""
        self.rejected = bytearray(rows)  # for each row: 1 if it is known to be rejected
        self.scores = array("q", bytes(8 * rows))  # for each row: its score, if it can be allocated
        self.unknown = set(range(rows))
        self._never_known = never_known

    def grow(self, rows: int) -> None:
        known = len(self.rejected)
        self.rejected.extend(bytes(rows - known))
        self.scores.extend([0] * (rows - known))
        self.unknown.update(range(known, rows))

    def reject(self, row: int) -> None:
        """Note that the claims cannot be allocated on the row."""
        if row not in self._never_known:
            self.rejected[row] = 1
            self.unknown.discard(row)

    def accept(self, row: int, score: int) -> None:
        """Note that the claims can be allocated on the row, and its score."""
        self.scores[row] = score
        if row not in self._never_known:
            self.unknown.discard(row)

    def forget(self, rows: Iterable[int]) -> None:
        for row in rows:
            self.rejected[row] = 0
            self.unknown.add(row)
