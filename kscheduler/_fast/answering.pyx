"""Joins what a class knows of rows with what somebody else says of them, a mark and a score a row.

See reference_answering.py for what `join_answers` means.
"""

from libc.stdint cimport int32_t
from libc.string cimport memcpy

from kscheduler._fast.checks cimport within
from kscheduler._fast.classes cimport ClassC, PodClass
from kscheduler._fast.codes cimport MAX_CLASS_WEIGHT, MAX_RAW, MAX_WEIGHT
from kscheduler._fast.joining cimport Joiner
from kscheduler._fast.placement cimport Placer
from kscheduler._fast.scoring cimport normalized
from kscheduler._fast.typedefs cimport code_t, row_t, score_t

cdef enum:
    AS_THEY_ARE
    DEFAULT
    REVERSE


def join_answers(Joiner joiner not None, PodClass pod_class not None, marks, values, weight, how):
    """How many rows a pod of the class fits on that have no mark. `Joiner.row` then says which is best.

    Where there is more than one, packed int64 `values` count with the weight: as they are (how 0, then 0..100), or
    normalised over these rows by default (1) or in reverse (2). ValueError for a value of such a row that is below 0 or
    too high. Without marks all rows stay, without values nothing is added. None: weights are more than this can do.
    """
    cdef Placer placer = joiner.placer
    cdef ClassC* c = &pod_class.c
    cdef row_t row, rows = placer.columns.rows
    cdef score_t weighed = within("weight", weight, 0, MAX_WEIGHT)
    cdef int way = <int>within("how", how, AS_THEY_ARE, REVERSE)
    cdef const code_t[::1] marked
    cdef const score_t[::1] given
    for what, packed, width in (("marks", marks, 1), ("values", values, 8)):
        if packed is not None and len(packed) != width * rows:
            raise ValueError(f"{what}: expected {width * rows} bytes, got {len(packed)}")
    joiner.ties = 0
    if pod_class.weights + weighed > MAX_CLASS_WEIGHT:
        return None
    placer._catch_up(pod_class)
    if rows == 0 or c.feasible == 0:
        return 0
    joiner._hold(rows, 0, c.profile_count)
    cdef int32_t* keep = joiner.keep
    memcpy(keep, c.totals, rows * sizeof(int32_t))
    joiner.feasible = <int32_t>c.feasible
    if marks is not None:
        marked = marks
        joiner.feasible = 0
        for row in range(rows):
            if marked[row]:
                keep[row] = -1
            joiner.feasible += keep[row] >= 0
    if joiner.feasible > 1:
        if c.is_uneven and joiner.feasible < c.feasible:
            joiner._renormalize(c, &placer.columns.profiles[0])
        if values is not None:
            given = memoryview(values).cast("B").cast("q")
            _add_scores(keep, given, rows, weighed, way)
    _find_best(joiner)
    return joiner.feasible


cdef int _add_scores(int32_t* keep, const score_t[::1] given, row_t rows, score_t weight, int way) except -1:
    cdef row_t row
    cdef score_t highest = 0, most = 100 if way == AS_THEY_ARE else MAX_RAW
    for row in range(rows):
        if keep[row] >= 0:
            if not 0 <= given[row] <= most:
                raise ValueError(f"score of row {row}: expected 0..{most}, got {given[row]}")
            highest = max(highest, given[row])
    for row in range(rows):
        if keep[row] >= 0:
            if way == AS_THEY_ARE:
                keep[row] += <int32_t>(weight * given[row])
            else:
                keep[row] += <int32_t>(weight * normalized(given[row], highest, way == REVERSE))
    return 0


cdef int _find_best(Joiner joiner) except -1:
    """As `Joiner.join` does: the highest total and how many rows have it."""
    cdef row_t row
    joiner.best = -1
    joiner.ties = 0
    for row in range(joiner.rows):
        if joiner.keep[row] > joiner.best:
            joiner.best = joiner.keep[row]
            joiner.ties = 1
        elif joiner.keep[row] == joiner.best and joiner.best >= 0:
            joiner.ties += 1
    return 0
