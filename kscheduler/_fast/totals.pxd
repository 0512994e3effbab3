# Totals by row for a pod class, in 16 bits if no total of the class can be larger, as with the usual weights.
#
# With many classes on large tables their totals are in no cache: half the bytes are half the lines to fetch.

from libc.stdint cimport int16_t, int32_t

from kscheduler._fast.simd cimport fetch
from kscheduler._fast.typedefs cimport node_class_t, row_t

cdef enum:
    NARROW_WEIGHTS = 327  # most that the weights may sum up to for 16 bits to hold any total: scores are 0..100
    LINE = 64  # bytes in a cache line
    NOT_KNOWN = -2  # in place of a total
    BLOCK_SHIFT = 6  # log2 of BLOCK
    BLOCK = 64  # rows in a block: finding the best takes a few vector instructions and cache lines


cdef struct TotalsC:
    # One of both is NULL, or both are while there is no memory.
    int16_t* narrow  # [row]
    int32_t* wide  # [row]


cdef struct BestC:
    # The best of some rows.
    int32_t total  # -1: none is feasible
    int32_t ties  # rows with that total


cdef struct RankC:
    # The best of some blocks, or of some groups of them, and what is the best once that is gone.
    BestC best  # without ties, all totals are lower, or none is feasible
    BestC next  # without ties it is unknown, and its total is NOT_KNOWN


cdef bint allocate_totals(TotalsC* totals, row_t rows, bint is_narrow) noexcept nogil
cdef void release_totals(TotalsC* totals) noexcept nogil
cdef Py_ssize_t width_of(bint is_narrow) noexcept nogil
cdef void store_totals(TotalsC* totals, row_t start, const int32_t* values, Py_ssize_t count) noexcept nogil
cdef void load_totals(const TotalsC* totals, row_t rows, int32_t* values) noexcept nogil
cdef void clear_totals(TotalsC* totals, row_t start, row_t end) noexcept nogil
cdef void move_totals(
    TotalsC* totals, const node_class_t* node_classes, const int32_t* moves, row_t rows
) noexcept nogil
cdef void best_total(const TotalsC* totals, row_t start, BestC* best) noexcept nogil
cdef BestC best_of_wide(const int32_t* totals, row_t rows) noexcept nogil


cdef inline bint has_memory(const TotalsC* totals) noexcept nogil:
    return totals.narrow is not NULL or totals.wide is not NULL


cdef inline void exchange_row(BestC* best, int32_t old, int32_t new) noexcept nogil:
    """Count a row of a block with its new total; -1: it is not feasible. There is no branch.

    Without ties what is left has to be surveyed, and is worse.
    """
    cdef int32_t ties = best.ties - (old == best.total and old >= 0)
    best.ties = (1 if new > best.total else ties + (new >= 0)) if new >= best.total else ties
    best.total = new if new > best.total else best.total


cdef inline void exchange(RankC* rank, BestC old, BestC new) noexcept nogil:
    """Count the best of one of the blocks, or groups, as `new` which was counted as `old`."""
    if old.total == rank.best.total:
        rank.best.ties = rank.best.ties - old.ties
    elif old.total == rank.next.total:
        rank.next.ties = rank.next.ties - old.ties
    if new.ties == 0:
        pass
    elif new.total > rank.best.total:
        rank.next = rank.best
        rank.best = new
    elif new.total == rank.best.total:
        rank.best.ties = rank.best.ties + new.ties
    elif new.total == rank.next.total:
        rank.next.ties = rank.next.ties + new.ties
    elif new.total > rank.next.total and rank.next.ties:
        rank.next = new
    if rank.best.ties == 0 and rank.next.ties:
        rank.best = rank.next
        rank.next.ties = 0
    if rank.next.ties == 0:
        rank.next.total = NOT_KNOWN


cdef inline int32_t total_of(const TotalsC* totals, row_t row) noexcept nogil:
    return totals.narrow[row] if totals.narrow is not NULL else totals.wide[row]


cdef inline void set_total(TotalsC* totals, row_t row, int32_t total) noexcept nogil:
    if totals.narrow is not NULL:
        totals.narrow[row] = <int16_t>total
    else:
        totals.wide[row] = total


cdef inline void fetch_total(const TotalsC* totals, row_t row) noexcept nogil:
    """Fetch into the cache what is read and written when a row's total changes."""
    if totals.narrow is not NULL:
        fetch(totals.narrow + row)
    else:
        fetch(totals.wide + row)
