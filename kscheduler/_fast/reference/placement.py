"""Placement of pods by their pod class, i.e. by what plugins stated about equal pods.

Here every row (node) is judged again for each pod, and nothing is cached.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, final

from kscheduler._fast.codes import FEASIBLE
from kscheduler._fast.reference.checks import INT64_MAX, within
from kscheduler._fast.reference.classes import PodClass
from kscheduler._fast.reference.columns import NodeColumns
from kscheduler._fast.reference.scoring import Scores
from kscheduler._fast.reference.selection import select_host
from kscheduler._fast.reference.verdicts import Verdicts

if TYPE_CHECKING:
    from kscheduler._fast.reference.spread_affinity import JoinTerms

_MOST_ROOM = 1_000_000  # pods on a row, as far as room is counted


@final
class Placer:
    """Chooses nodes for pods of pod classes (pods that plugins decide equally), on the rows (nodes) of one table.

    Filter results and scores by row are cached for each class. The caches take at most `max_bytes`, or what `kept`
    classes of one size take if that is more, but then at most 2 GiB. The least recently used cache is dropped first. A
    class that has to judge all rows does so in up to `threads` threads if the table is large.
    """

    def __init__(self, columns: NodeColumns, max_bytes: int, threads: int = 1, kept: int = 1) -> None:
        self._columns = columns
        self._max_bytes = within("max_bytes", max_bytes, 0, INT64_MAX)
        within("threads", threads, 1, 64)
        within("kept", kept, 1, 4096)
        self._inside: bytes | None = None

    @property
    def columns(self) -> NodeColumns:
        return self._columns

    @property
    def max_bytes(self) -> int:
        return self._max_bytes

    @property
    def held_bytes(self) -> int:
        """The bytes that the caches of all classes take: none here."""
        return 0

    @property
    def rebuilds(self) -> int:
        """The number of times that a class had to judge every row (node); not counted here, where all pods do."""
        return 0

    @property
    def passes(self) -> int:
        """The number of passes over all rows (nodes) in which several classes judged them; none here."""
        return 0

    def count_feasible(self, pod_class: PodClass) -> int:
        """Return the number of rows (nodes) on which a pod of the class fits."""
        return self._judge(pod_class)[0].feasible_count()

    def fits(self, pod_class: PodClass, row: int) -> bool:
        """Return whether a pod of the class fits on this row (node)."""
        at = within("row", row, 0, self._columns.rows - 1)
        return self._judge(pod_class)[0].code(at) == FEASIBLE

    def place(self, pod_class: PodClass, random_bits: int | None) -> int:
        """Return the row of the best node for a pod of the class, chosen like `select_host`; -1 if none is feasible.

        The pod is not counted on that node.
        """
        return select_host(*self._judge(pod_class), random_bits)

    def place_many(
        self,
        classes: Iterable[PodClass],
        random_bits: array[int] | None,
        rows: array[int],
        feasible: array[int],
    ) -> tuple[int, int]:
        """Place pods in order, each counted on its node before the next one. Ends before a pod that fits nowhere.

        For pod i sets rows[i] to the row of its node, and feasible[i] to the number of rows on which it fitted; rows of
        pods not placed are -1. Where a pod fits on more than one row, the next of `random_bits` (array('Q')) chooses
        among the best rows; if that is None, the first of these is taken. Returns (pods placed, random numbers used).
        After an error the pods before it stay placed.
        """
        pods = list(classes)
        for what, room in (("rows", rows), ("feasible", feasible)):
            if len(room) < len(pods):
                raise ValueError(f"{what}: expected room for {len(pods)}, got {len(room)}")
        if random_bits is not None and len(random_bits) < len(pods):
            raise ValueError(f"random_bits: expected {len(pods)}, got {len(random_bits)}")
        for i, pod_class in enumerate(pods):
            self._check(pod_class)
            rows[i] = -1
        used_bits = 0
        for i, pod_class in enumerate(pods):
            verdicts, scores = self._judge(pod_class)
            count = verdicts.feasible_count()
            if count == 0:
                return i, used_bits
            bits = random_bits[used_bits] if random_bits is not None and count > 1 else None
            row = select_host(verdicts, scores, bits)
            self._columns.add_pod(row, pod_class.request)
            rows[i], feasible[i] = row, count
            used_bits += bits is not None
        return len(pods), used_bits

    def place_one(self, pod_class: PodClass, random_bits: int | None) -> tuple[int, int]:
        """Place one pod as `place_many` does. Returns its row, and on how many rows it fitted; (-1, 0) for no row.

        `random_bits`: as an item of those of `place_many`, or None.
        """
        rows, feasible = array("i", [-1]), array("i", [0])
        bits = None if random_bits is None else array("Q", [random_bits])
        placed, _ = self.place_many([pod_class], bits, rows, feasible)
        return (rows[0], feasible[0]) if placed else (-1, 0)

    def confine(self, inside: bytes | None) -> None:
        """Confine all placements to rows (nodes) whose byte in `inside` is 1, until the next call; None: to none.

        Rows past its end are outside. Scores are normalised over the rows that are left. A class that is used under
        another confinement than before judges all rows again.
        """
        self._inside = None if inside is None else bytes(inside)

    def add_room(self, pod_class: PodClass, domain_by_row: array[int], room: array[int]) -> None:
        """Add to room[domain] how many pods of the class fit on the rows of each domain, by resources and pods allowed.

        `domain_by_row`: -1 for a row of no domain; rows past its end are of none. This is the most that fit: pods of
        one class may exclude each other on a node, for example by a host port.
        """
        columns = self._columns
        rows = min(len(domain_by_row), columns.rows)
        for row in range(rows):
            if domain_by_row[row] >= len(room):
                raise IndexError(f"row {row} is of domain {domain_by_row[row]}, there is room for {len(room)}")
        verdicts, _ = self._judge(pod_class)
        for row in range(rows):
            if domain_by_row[row] < 0 or verdicts.code(row) != FEASIBLE:
                continue
            fits = min(columns.allowed_pods(row) - columns.pod_count(row), _MOST_ROOM)
            for resource, amount in pod_class.request.entries:
                if amount > 0:
                    free = columns.allocatable(row, resource) - columns.requested(row, resource)
                    fits = min(fits, free // amount)
            room[domain_by_row[row]] += fits

    def drop(self, pod_class: PodClass) -> None:
        """Drop the results by row (node) that are cached for a class, since no pod of it is expected soon."""
        if pod_class._owner is self:
            pod_class._owner = None

    def _judge(self, pod_class: PodClass, terms: Sequence[JoinTerms] = ()) -> tuple[Verdicts, Scores]:
        return self._check(pod_class)._judge(terms, self._inside)

    def _check(self, pod_class: PodClass) -> PodClass:
        if pod_class._columns is not self._columns:
            raise ValueError("the class is of another table")
        if pod_class._owner not in (None, self):
            raise ValueError("the class is in use by another placer")
        pod_class._owner = self
        return pod_class
