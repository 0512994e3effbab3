# Invariants: RowMask.rows <= length of `inside`; DomainSums.domains <= length of `sums` and of `marks`.

from libc.stdint cimport int32_t

from kscheduler._fast.columns cimport NodeColumns
from kscheduler._fast.typedefs cimport amount_t, code_t, row_t

ctypedef int32_t domain_t  # index of a topology domain; -1 none


cdef class RowMask:
    cdef readonly Py_ssize_t rows
    cdef code_t[::1] inside  # [row] 1 or 0

    cdef int _hold(self, Py_ssize_t rows) except -1
    cdef int check_rows(self, Py_ssize_t rows) except -1


cdef class DomainSums:
    cdef readonly Py_ssize_t domains
    cdef readonly Py_ssize_t present  # domains with a row in the mask
    cdef readonly amount_t minimum  # lowest sum of a present domain; 0 if none is
    cdef amount_t[::1] sums  # [domain]
    cdef code_t[::1] marks  # [domain] 1: present

    cdef int _allocate(self, Py_ssize_t capacity) except -1
    cdef int _hold(self, Py_ssize_t domains) except -1


cdef class RowTotals:
    cdef readonly Py_ssize_t rows
    cdef double[::1] values  # [row]
