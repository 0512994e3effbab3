# Invariant: rows <= length of both columns. A row's code leaves FEASIBLE at most once between two resets, except to
# NOT_EXAMINED.

from kscheduler._fast.columns cimport NodeColumns
from kscheduler._fast.typedefs cimport code_t, detail_t, row_t


cdef class Verdicts:
    cdef readonly Py_ssize_t rows
    cdef code_t[::1] codes  # [row]
    cdef detail_t[::1] details  # [row]

    cdef int _allocate(self, Py_ssize_t capacity) except -1
    cdef int check_columns(self, NodeColumns columns) except -1
