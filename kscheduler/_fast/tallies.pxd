# Invariants of a good tally: slots are below `size`, sums within +-MAX_SUM; a row without a slot counts nowhere.

from libc.stdint cimport int32_t, int64_t

from kscheduler._fast.typedefs cimport row_t

cdef enum:
    MAX_SUM = 0x4000_0000  # 2^30: two of them are an int32


cdef struct TallyC:
    row_t rows
    bint is_good  # can it be asked? Not before it was built, nor after an amount that is too large
    bint each_row  # every row with a domain was asked to be one of its own
    bint by_row  # a row's slot is the row itself: no two rows share a domain
    Py_ssize_t size  # slots
    int32_t* slots  # [row] -1: no domain
    unsigned char* inside  # [row] 1: looked at
    int32_t* sums  # [slot] there is a 0 before the first
    unsigned char* marks  # [slot] 1: present, that is some row of it is looked at
    Py_ssize_t present  # slots
    Py_ssize_t occupied  # slots with a sum other than 0
    int32_t largest  # magnitude that a sum has or has had
    bint went_below  # some sum is, or has been, below 0
    int32_t lowest  # sum of a present slot
    Py_ssize_t at_lowest  # present slots that have it; 0 when it is to be looked for


cdef class DomainTally:
    cdef TallyC c
    cdef row_t row_capacity
    cdef Py_ssize_t capacity  # slots that there is room for

    cdef int _allocate(self, row_t rows, Py_ssize_t size) except -1
    cdef int _release(self) except -1


cdef int32_t least(TallyC* c) noexcept nogil
