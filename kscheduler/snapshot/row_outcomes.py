"""What came of allocating devices to claims that ask for the same, on each row (node): columns that outlive cycles.

The search on a node depends on what the claims ask for, on the node, on the slices that it sees, and on the devices in
use there. As long as these stay, so does its outcome: for the next pod whose claims ask for the same, only the rows
that have changed since are searched again.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence, Set

from kscheduler._fast import NodeColumns, RowAnswers
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
        tuple(variant.derived.items()),
    )


class RowOutcomes:
    """The outcomes for claims that ask for the same: rejected, or allocatable with a score; or unknown.

    Kernels read the rejected rows by `marks`, once all rows are known.
    """

    __slots__ = (
        "_accepted",
        "_all_changed",
        "_changed",
        "_marks",
        "_never_known",
        "_stated",
        "rejected",
        "scores",
        "unknown",
    )

    def __init__(self, rows: int, never_known: Set[int]) -> None:
        """Begin with unknown outcomes. Those of the rows in `never_known`, which may change, stay unknown."""
        self.rejected = bytearray(rows)  # for each row: 1 if it is known to be rejected
        self.scores = array("q", bytes(8 * rows))  # for each row: its score, if it can be allocated
        self.unknown = set(range(rows))
        self._never_known = never_known
        self._accepted: Counter[int] = Counter()  # score -> rows that are known to be allocatable with it
        self._marks: RowAnswers | None = None
        self._stated = bytearray()  # `rejected` as the kernels read it last
        self._changed: set[int] = set()  # rows that may differ from that
        self._all_changed = False  # may all rows?

    def grow(self, rows: int) -> None:
        known = len(self.rejected)
        self.rejected.extend(bytes(rows - known))
        self.scores.extend([0] * (rows - known))
        self.unknown.update(range(known, rows))

    def reject(self, row: int) -> None:
        """Note that the claims cannot be allocated on the row."""
        if row not in self._never_known:
            if row not in self.unknown:
                self._forget(row)
            self.rejected[row] = 1
            self.unknown.discard(row)
            if self._marks is not None:
                self._changed.add(row)

    def accept(self, row: int, score: int) -> None:
        """Note that the claims can be allocated on the row, and its score."""
        if row not in self._never_known:
            if row not in self.unknown:
                self._forget(row)
            self._accepted[score] += 1
            self.unknown.discard(row)
            if self._marks is not None:
                self._changed.add(row)
        self.scores[row] = score

    def forget(self, rows: Iterable[int]) -> None:
        for row in rows:
            if row not in self.unknown:
                self._forget(row)

    def forget_all(self) -> None:
        self.unknown = set(range(len(self.rejected)))
        self.rejected = bytearray(len(self.rejected))
        self._accepted.clear()

    @property
    def mostly_unknown(self) -> bool:
        return len(self.unknown) * 4 > len(self.rejected)

    def decide(self, rejected: bytes | bytearray, in_doubt: Iterable[int]) -> None:
        """Note for all rows at once what numbers of free devices say; the score is 0 wherever these suffice.

        `rejected`: a byte for each row, 1 if the claims cannot be allocated there. `in_doubt`: rows that they say
        nothing about, where outcomes that are known stay known. The others must not be in `never_known`.
        """
        decided = bytearray(rejected)
        unknown = set[int]()
        for row in in_doubt:
            if row in self.unknown:
                unknown.add(row)
            else:
                decided[row] = self.rejected[row]
        accepted = len(decided) - decided.count(1) - len(unknown)
        self.rejected, self.unknown = decided, unknown
        self.scores = array("q", bytes(8 * len(decided)))
        self._accepted = Counter({0: accepted}) if accepted else Counter()
        self._all_changed = True

    def _forget(self, row: int) -> None:
        if row in self.unknown:
            return
        if self.rejected[row]:
            self.rejected[row] = 0
        else:
            score = self.scores[row]
            self._accepted[score] -= 1
            if not self._accepted[score]:
                del self._accepted[score]
        self.unknown.add(row)

    # --- for kernels ---

    @property
    def scores_differ(self) -> bool:
        """Return whether rows that are known to be allocatable have different scores."""
        return len(self._accepted) > 1

    def marks(self, columns: NodeColumns) -> RowAnswers:
        """Return the rejected rows for kernels, always the same object, which `state` brings up to date.

        All rows must be known at the first call.
        """
        if self._marks is None:
            self._stated = bytearray(self.rejected)
            self._marks = RowAnswers(columns, self._answer, True, follows_amounts=False)
        return self._marks

    def state(self) -> None:
        """Let kernels read the outcomes as they are now. All rows must be known."""
        if self._marks is None:
            return
        if self._all_changed or len(self._stated) != len(self.rejected):
            if self._stated != self.rejected:
                self._stated = bytearray(self.rejected)
                self._marks.doubt(None)
        elif self._changed:
            rows = [row for row in self._changed if self._stated[row] != self.rejected[row]]
            for row in rows:
                self._stated[row] = self.rejected[row]
            self._marks.doubt(array("i", rows).tobytes())
        self._changed.clear()
        self._all_changed = False

    def _answer(self, rows: bytes | None) -> bytes:
        if rows is None:
            return bytes(self._stated)
        return bytes(self._stated[row] for row in array("i", rows))
