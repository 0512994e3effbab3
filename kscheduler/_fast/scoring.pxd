# Invariant: rows <= length of both columns.

from kscheduler._fast.typedefs cimport score_t
from kscheduler._fast.verdicts cimport Verdicts


cdef class Scores:
    cdef readonly Py_ssize_t rows
    cdef score_t[::1] raws  # [row] of the plugin at work
    cdef score_t[::1] totals  # [row] weighted sum of the plugins done

    cdef int _allocate(self, Py_ssize_t capacity) except -1
    cdef int check_verdicts(self, Verdicts verdicts) except -1
