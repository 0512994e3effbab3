# Invariants of a good tally: slots are below `size`, sums within +-MAX_SUM; a row without a slot counts nowhere.

from libc.stdint cimport int32_t, int64_t

from kscheduler._fast.typedefs cimport row_t

cdef enum:
    MAX_SUM = 0x4000_0000  # 2^30: two of them are an int32


cdef struct TallyC:
    row_t rows
    bint is_good  # are the sums valid? Not before they were built, nor after an amount that is too large
    bint each_row  # every row with a domain is to be a domain of its own
    bint by_row  # a row's slot is the row itself, since no two rows share a domain
    Py_ssize_t size  # number of slots; a slot has the sum of a domain
    Py_ssize_t held  # number of slots that rows have
    bint any_without  # has some row no slot?
    int32_t* slots  # [row] -1: no domain
    unsigned char* inside  # [row] 1: counted
    int32_t* sums  # [slot] at index -1 there is a 0
    unsigned char* marks  # [slot] 1: present, i.e. some row of the domain is counted
    Py_ssize_t present  # number of present slots
    Py_ssize_t occupied  # number of slots with a sum other than 0
    int32_t largest  # largest magnitude that a sum has or has had
    bint went_below  # some sum is, or has been, below 0
    int32_t lowest  # lowest sum of a present slot
    Py_ssize_t at_lowest  # number of present slots with that sum; 0: `lowest` must be computed again


cdef class DomainTally:
    cdef TallyC c
    cdef row_t row_capacity
    cdef Py_ssize_t capacity  # number of slots with memory

    cdef int _allocate(self, row_t rows, Py_ssize_t size) except -1
    cdef int _release(self) except -1


cdef int32_t least(TallyC* c) noexcept nogil
