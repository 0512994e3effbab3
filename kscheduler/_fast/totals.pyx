"""Totals by row for a pod class: loops over many of them, in 16 or 32 bits.

Nothing here checks an index: there is memory for every row of the table, in whole chunks.
"""

from libc.stdint cimport int16_t, int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from kscheduler._fast.simd cimport cloned, in_ints, in_shorts, out_ints, out_shorts
from kscheduler._fast.typedefs cimport node_class_t, row_t

cdef extern from *:
    """
    #include <stdlib.h>
    #include <sys/mman.h>

    /* Whole cache lines; and where there is much, large pages if the system has them: rows are read in any order. */
    static void *ks_allocate_rows(size_t bytes) {
        void *memory = NULL;
        const size_t large = (size_t)2 << 20;
        if (posix_memalign(&memory, bytes >= large ? large : 64, bytes))
            return NULL;
    #ifdef MADV_HUGEPAGE
        if (bytes >= large)
            madvise(memory, bytes, MADV_HUGEPAGE);
    #endif
        return memory;
    }
    """
    void* allocate_rows "ks_allocate_rows"(size_t bytes) noexcept nogil


cdef Py_ssize_t width_of(bint is_narrow) noexcept nogil:
    """Return the bytes of a total."""
    return sizeof(int16_t) if is_narrow else sizeof(int32_t)


cdef bint allocate_totals(TotalsC* totals, row_t rows, bint is_narrow) noexcept nogil:
    """Allocate memory for totals of 16 or 32 bits. Returns False if there is none."""
    cdef void* memory = allocate_rows(rows * width_of(is_narrow))
    totals.narrow = <int16_t*>memory if is_narrow else NULL
    totals.wide = NULL if is_narrow else <int32_t*>memory
    return memory is not NULL


cdef void release_totals(TotalsC* totals) noexcept nogil:
    free(totals.narrow)
    free(totals.wide)
    totals.narrow = NULL
    totals.wide = NULL


cdef void store_totals(TotalsC* totals, row_t start, const int32_t* values, Py_ssize_t count) noexcept nogil:
    """Set the totals of `count` rows from row `start` on."""
    if totals.narrow is not NULL:
        _narrow(values, count, totals.narrow + start)
    else:
        memcpy(totals.wide + start, values, count * sizeof(int32_t))


cdef cloned _narrow(in_ints values, Py_ssize_t count, out_shorts narrow) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        narrow[i] = <int16_t>values[i]


cdef void load_totals(const TotalsC* totals, row_t rows, int32_t* values) noexcept nogil:
    """Write the totals of the first rows to `values`."""
    if totals.narrow is not NULL:
        _widen(totals.narrow, rows, values)
    else:
        memcpy(values, totals.wide, rows * sizeof(int32_t))


cdef cloned _widen(in_shorts narrow, Py_ssize_t count, out_ints values) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        values[i] = narrow[i]


cdef void clear_totals(TotalsC* totals, row_t start, row_t end) noexcept nogil:
    """Set the totals of these rows to -1."""
    if totals.narrow is not NULL:
        memset(totals.narrow + start, -1, (end - start) * sizeof(int16_t))
    else:
        memset(totals.wide + start, -1, (end - start) * sizeof(int32_t))


cdef void move_totals(
    TotalsC* totals, const node_class_t* node_classes, const int32_t* moves, row_t rows
) noexcept nogil:
    """Add to the total of each feasible row what totals of its node class change by."""
    if totals.narrow is not NULL:
        _move_narrow(totals.narrow, node_classes, moves, rows)
    else:
        _move_wide(totals.wide, node_classes, moves, rows)


cdef cloned _move_narrow(out_shorts totals, in_ints node_classes, in_ints moves, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t row
    for row in range(rows):
        if totals[row] >= 0:
            totals[row] = <int16_t>(totals[row] + moves[node_classes[row]])


cdef cloned _move_wide(out_ints totals, in_ints node_classes, in_ints moves, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t row
    for row in range(rows):
        if totals[row] >= 0:
            totals[row] = totals[row] + moves[node_classes[row]]


cdef void best_total(const TotalsC* totals, row_t start, BestC* best) noexcept nogil:
    """Find the best total in the block of rows from row `start` on, and how many of its rows have it."""
    if totals.narrow is not NULL:
        _best_narrow(totals.narrow + start, &best.total, &best.ties)
    else:
        best[0] = best_of_wide(totals.wide + start, BLOCK)


cdef BestC best_of_wide(const int32_t* totals, row_t rows) noexcept nogil:
    """Return the best total of these rows, and how many of them have it."""
    cdef BestC best
    _best_wide(totals, rows, &best.total, &best.ties)
    return best


cdef cloned _best_narrow(in_shorts totals, out_ints best, out_ints ties) noexcept nogil:
    cdef Py_ssize_t i
    cdef int16_t highest = -1, equal = 0
    for i in range(BLOCK):
        highest = totals[i] if totals[i] > highest else highest
    for i in range(BLOCK):
        equal += totals[i] == highest
    best[0] = highest
    ties[0] = equal if highest >= 0 else 0


cdef cloned _best_wide(in_ints totals, row_t rows, out_ints best, out_ints ties) noexcept nogil:
    cdef row_t row
    cdef int32_t highest = -1, equal = 0
    for row in range(rows):
        highest = totals[row] if totals[row] > highest else highest
    for row in range(rows):
        equal += totals[row] == highest
    best[0] = highest
    ties[0] = equal if highest >= 0 else 0
