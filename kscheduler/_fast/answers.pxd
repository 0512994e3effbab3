# Invariants: `data` has one entry for each of `c.rows` rows, and `c` points into it. A mark is any byte; the score of a
# row that held no node when it was asked about is 0, that of any other is within the limits.

from libc.stdint cimport int32_t, uint64_t

from kscheduler._fast.columns cimport NodeColumns
from kscheduler._fast.typedefs cimport score_t


cdef struct AnswersC:
    const unsigned char* marks  # [row] not 0: the row is rejected; NULL: these are scores, or nothing yet
    const score_t* scores  # [row]; NULL: these are marks, or nothing yet
    Py_ssize_t rows  # number of entries
    Py_ssize_t seen  # number of changes of the columns when they were asked for; -1: nothing is known
    bint follows_amounts
    bint has_doubts
    uint64_t version  # bumped when other rows' entries may have changed than the columns log


cdef class RowAnswers:
    cdef AnswersC c
    cdef readonly NodeColumns columns
    cdef object ask  # (packed rows, or None for all) -> their entries, packed
    cdef bytearray data
    cdef set doubts  # rows to be asked about again, whether or not the columns changed
    cdef bint is_marks
    cdef score_t low
    cdef score_t high

    cdef bytes _rows_to_ask(self)
    cdef int _ask_about(self, bytes rows) except -1
    cdef int _keep_marks(self, const int32_t* rows, Py_ssize_t count, const unsigned char[::1] entries) except -1
    cdef int _keep_scores(self, const int32_t* rows, Py_ssize_t count, const unsigned char[::1] entries) except -1
    cdef int _hold(self, Py_ssize_t rows) except -1


cdef inline bint is_behind(const AnswersC* answers, NodeColumns columns) noexcept nogil:
    return (
        answers.seen < 0
        or answers.has_doubts
        or answers.rows < columns.rows
        or (answers.follows_amounts and answers.seen != columns.changes)
    )
