"""What answering.pyx must do: join what a class knows of rows with what somebody else says of them."""

from __future__ import annotations

from typing import cast

from kscheduler._fast.codes import MAX_CLASS_WEIGHT, MAX_RAW, MAX_WEIGHT
from kscheduler._fast.reference import accumulate, normalize
from kscheduler._fast.reference_joining import Joiner, JoinTerms
from kscheduler._fast.reference_packing import _check_length, reject_marked, set_raws
from kscheduler._fast.reference_placement import PodClass
from kscheduler._fast.reference_tables import Scores, Verdicts, within

AS_THEY_ARE, DEFAULT, REVERSE = range(3)
_OUT = 3  # a code beside those of the class's own filters


def join_answers(
    joiner: Joiner,
    pod_class: PodClass,
    marks: bytes | bytearray | memoryview | None,
    values: bytes | bytearray | memoryview | None,
    weight: int,
    how: int,
) -> int | None:
    """How many rows a pod of the class fits on that have no mark. `Joiner.row` then says which is best.

    Where there is more than one, packed int64 `values` count with the weight: as they are (how 0, then 0..100), or
    normalised over these rows by default (1) or in reverse (2). ValueError for a value of such a row that is below 0 or
    too high. Without marks all rows stay, without values nothing is added. None: weights are more than this can do.
    """
    rows = joiner.placer.columns.rows
    within("weight", weight, 0, MAX_WEIGHT)
    within("how", how, AS_THEY_ARE, REVERSE)
    for what, packed, width in (("marks", marks, 1), ("values", values, 8)):
        if packed is not None:
            _check_length(what, len(packed), width * rows)
    joiner._judged = None
    if pod_class._weights + weight > MAX_CLASS_WEIGHT:
        return None
    part = cast(JoinTerms, _Answers(marks, values, weight, how))
    joiner._judged = joiner.placer._check(pod_class)._judge([part])
    return joiner._judged[0].feasible_count()


class _Answers:
    """As terms of one more plugin."""

    def __init__(
        self,
        marks: bytes | bytearray | memoryview | None,
        values: bytes | bytearray | memoryview | None,
        weight: int,
        how: int,
    ) -> None:
        self._marks = marks
        self._values = values
        self._weight = weight
        self._how = how

    def _rule_out(self, verdicts: Verdicts) -> None:
        if self._marks is not None:
            reject_marked(verdicts, bytes(map(bool, self._marks)), _OUT, 1)

    def _score(self, verdicts: Verdicts, scores: Scores) -> None:
        if self._values is None or verdicts.feasible_count() < 2:
            return
        most = 100 if self._how == AS_THEY_ARE else MAX_RAW
        bad_row = set_raws(verdicts, scores, self._values, 0, most)
        if bad_row >= 0:
            given = memoryview(self._values).cast("q")[bad_row]
            raise ValueError(f"score of row {bad_row}: expected 0..{most}, got {given}")
        if self._how != AS_THEY_ARE:
            normalize(verdicts, scores, self._how == REVERSE)
        accumulate(verdicts, scores, self._weight)
