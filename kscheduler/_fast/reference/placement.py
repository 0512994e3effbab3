"""Where pods of known classes go: what placement.pyx must do."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import final

from kscheduler._fast.reference.checks import INT64_MAX, within
from kscheduler._fast.reference.classes import PodClass
from kscheduler._fast.reference.columns import NodeColumns
from kscheduler._fast.reference.selection import select_host


@final
class Placer:
    """Finds rows for pods of known classes, on one table.

    What classes know of the rows takes at most `max_bytes`; or what so many of one size take as are `kept` at any rate,
    but then not more than 2 GiB. Whoever was not used for the longest time forgets. A class read anew is split over
    `threads` where the table is large.
    """

    def __init__(self, columns: NodeColumns, max_bytes: int, threads: int = 1, kept: int = 1) -> None:
        self._columns = columns
        self._max_bytes = within("max_bytes", max_bytes, 0, INT64_MAX)
        within("threads", threads, 1, 64)
        within("kept", kept, 1, 4096)

    @property
    def columns(self) -> NodeColumns:
        return self._columns

    @property
    def max_bytes(self) -> int:
        return self._max_bytes

    @property
    def held_bytes(self) -> int:
        """What the classes know takes so many bytes: here they know nothing."""
        return 0

    @property
    def rebuilds(self) -> int:
        """How often a class had to look at every row; not counted here, where each pod does."""
        return 0

    def count_feasible(self, pod_class: PodClass) -> int:
        """How many rows a pod of the class fits on."""
        return self._check(pod_class)._judge()[0].feasible_count()

    def place(self, pod_class: PodClass, random_bits: int | None) -> int:
        """The row to take, as select_host would tell; -1 if none is feasible. Counts nothing on the row."""
        return select_host(*self._check(pod_class)._judge(), random_bits)

    def place_many(
        self,
        classes: Iterable[PodClass],
        random_bits: array[int] | None,
        rows: array[int],
        feasible: array[int],
    ) -> tuple[int, int]:
        """Place pods in order, each seeing those before it: count each on its row. Ends before one that fits nowhere.

        For pod i sets rows[i] and feasible[i], how many rows it fitted on; rows of pods that were not placed are -1.
        Where a pod fits on more than one row the next of `random_bits` (array('Q')) is used as in `place`, or the first
        row taken if that is None. Returns (pods placed, bits used). After an error, too, the pods before it stay.
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
            verdicts, scores = pod_class._judge()
            count = verdicts.feasible_count()
            if count == 0:
                return i, used_bits
            bits = random_bits[used_bits] if random_bits is not None and count > 1 else None
            row = select_host(verdicts, scores, bits)
            self._columns.add_pod(row, pod_class.request)
            rows[i], feasible[i] = row, count
            used_bits += bits is not None
        return len(pods), used_bits

    def drop(self, pod_class: PodClass) -> None:
        """Forget what a class knows: nobody will ask for it soon."""
        if pod_class._owner is self:
            pod_class._owner = None

    def _check(self, pod_class: PodClass) -> PodClass:
        if pod_class._columns is not self._columns:
            raise ValueError("the class is of another table")
        if pod_class._owner not in (None, self):
            raise ValueError("the class is in use by another placer")
        pod_class._owner = self
        return pod_class
