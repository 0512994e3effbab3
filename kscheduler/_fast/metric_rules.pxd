# Invariants: `inputs` has a double for each input and each of `rows` rows, one input after the other; what is kept of a
# row is what the formulas give for it as of change `seen` of the columns. Rows past `rows` have to be made room for.

from libc.stdint cimport uint64_t

from kscheduler._fast.columns cimport NodeColumns
from kscheduler._fast.scoring cimport Scores
from kscheduler._fast.typedefs cimport resource_t, row_t, score_t
from kscheduler._fast.verdicts cimport Verdicts


cdef struct LoadC:
    bint is_there
    resource_t resource  # or PODS
    double gain
    Py_ssize_t baseline  # input


cdef struct TestC:
    Py_ssize_t group
    Py_ssize_t value  # input
    int operator
    double bound
    bint fails_without
    LoadC load


cdef struct GoalC:
    int kind
    Py_ssize_t value  # input
    double weight
    double neutral
    bint excludes
    LoadC load
    double target
    Py_ssize_t deviation  # input
    double margin
    double exponent  # of a deviation; 1: none
    double low
    double high


cdef struct RulesC:
    TestC* tests  # in order of their groups
    Py_ssize_t test_count
    Py_ssize_t group_count
    GoalC* goals
    Py_ssize_t goal_count
    Py_ssize_t input_count
    double* inputs  # [input * rows + row]
    unsigned char* marks  # [row] 0: the row is accepted
    score_t* points  # [row] 0..100
    Py_ssize_t rows  # number of rows with memory
    Py_ssize_t judged  # number of rows that were evaluated
    Py_ssize_t seen  # number of changes of the columns that were read; -1: nothing was evaluated yet
    uint64_t version  # bumped when other rows may have changed than the columns log
    bint uses_amounts


cdef class MetricRules:
    cdef RulesC c
    cdef readonly NodeColumns columns

    cdef int _read_load(self, LoadC* load, object given) except -1
    cdef int _hold(self, Py_ssize_t rows) except -1
    cdef int _check(self, Verdicts verdicts) except -1
    cdef int refresh(self) except -1


cdef bint needs_room(const RulesC* c, NodeColumns columns) noexcept nogil
cdef int follow(RulesC* c, NodeColumns columns) except -1 nogil
