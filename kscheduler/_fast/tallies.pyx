"""The sums of a counter by topology domain, updated as single rows change.

Where no two rows share a domain, as with hostnames, the row itself is used as the number of its domain.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from kscheduler._fast.checks cimport within
from kscheduler._fast.topology cimport RowMask
from kscheduler._fast.typedefs cimport row_t

cdef object _INT32_MAX = (1 << 31) - 1


@cython.final
cdef class DomainTally:
    """The sums of a count of pods by topology domain.

    `rebuild` must be called first, and again when domains change or the mask, i.e. the set of rows (nodes) that count.
    """

    def __dealloc__(self):
        self._release()

    def rebuild(
        self, const int64_t[::1] counts not None, const int[::1] ids not None, domains, RowMask mask not None,
        bint each_row=False,
    ):
        """Sum the counts of the rows (nodes) in the mask by topology domain.

        With `each_row`, each row with a domain is a domain of its own. A row without a domain never counts. If a sum is
        too large, the tally is not good (see `is_good`).
        """
        cdef Py_ssize_t size = within("domains", domains, 0, _INT32_MAX)
        cdef row_t row, rows = mask.rows
        cdef TallyC* c = &self.c
        for what, length in (("ids", ids.shape[0]), ("counts", counts.shape[0])):
            if length < rows:
                raise ValueError(f"{what}: expected at least {rows} rows, got {length}")
        for row in range(rows):
            if ids[row] >= size:
                raise IndexError(f"row {row} is in domain {ids[row]}, there are sums for {size}")
        c.is_good = False
        c.each_row = each_row
        c.by_row = each_row or _share_none(ids, rows, size)
        if c.by_row:
            size = rows
        self._allocate(rows, size)
        c.rows = rows
        c.size = size
        memset(c.sums - 1, 0, (1 + c.size) * sizeof(int32_t))
        memset(c.marks, 0, c.size)
        c.present = c.occupied = c.at_lowest = 0
        c.largest = 0
        c.went_below = False
        for row in range(rows):
            c.slots[row] = -1 if ids[row] < 0 else <int32_t>row if c.by_row else ids[row]
            c.inside[row] = mask.inside[row]
            if c.inside[row] and c.slots[row] >= 0:
                c.present += 1 - c.marks[c.slots[row]]
                c.marks[c.slots[row]] = 1
        _count_slots(c)
        c.is_good = True
        for row in range(rows):
            if counts[row]:
                _add(c, row, counts[row])

    def add(self, row, amount):
        """Add `amount` to the count of a row (node).

        If the tally does not know the row, it is no longer good (see `is_good`).
        """
        _add(&self.c, row, amount)

    def give_up(self):
        """Declare the sums invalid, since the tally will not be updated any more."""
        self.c.is_good = False

    @property
    def rows(self):
        return self.c.rows

    @property
    def is_good(self):
        """True if the sums are those of the rows (nodes) as they were given.

        They are not before the first `rebuild`, after a sum beyond 2^30, after a change of a row that the tally does
        not have, and after `give_up`. Such a tally must be rebuilt before it is read again.
        """
        return self.c.is_good

    @property
    def present(self):
        """The number of topology domains with at least one row (node) in the mask, i.e. among those that count."""
        return self.c.present

    @property
    def occupied(self):
        """The number of topology domains with a sum other than 0."""
        return self.c.occupied

    @property
    def minimum(self):
        """The lowest sum of a topology domain with a row (node) in the mask, i.e. one that counts; 0 without any."""
        return least(&self.c)

    def sum_of(self, row):
        """Return the sum of the domain that the row (node) is in; None if it is in none."""
        cdef row_t at = within("row", row, 0, self.c.rows - 1)
        return None if self.c.slots[at] < 0 else self.c.sums[self.c.slots[at]]

    # --- inside ---

    cdef int _allocate(self, row_t rows, Py_ssize_t size) except -1:
        if self.c.slots is not NULL and rows <= self.row_capacity and size <= self.capacity:
            return 0
        self._release()
        self.c.slots = <int32_t*>malloc(max(1, rows) * sizeof(int32_t))
        self.c.inside = <unsigned char*>malloc(max(1, rows))
        self.c.marks = <unsigned char*>malloc(max(1, size))
        self.c.sums = <int32_t*>malloc((1 + size) * sizeof(int32_t))
        if self.c.sums is not NULL:
            self.c.sums += 1
        if self.c.slots is NULL or self.c.inside is NULL or self.c.marks is NULL or self.c.sums is NULL:
            self._release()
            raise MemoryError()
        self.row_capacity = rows
        self.capacity = size
        return 0

    cdef int _release(self) except -1:
        free(self.c.slots)
        free(self.c.inside)
        free(self.c.marks)
        if self.c.sums is not NULL:
            free(self.c.sums - 1)
        self.c.slots = self.c.sums = NULL
        self.c.inside = self.c.marks = NULL
        self.c.rows = self.c.size = self.row_capacity = self.capacity = 0
        self.c.is_good = False
        return 0


cdef bint _share_none(const int[::1] ids, row_t rows, Py_ssize_t domains) except -1:
    """Return True if no domain has two rows."""
    cdef row_t row
    cdef bint found = True
    cdef unsigned char* seen = <unsigned char*>calloc(max(1, domains), 1)
    if seen is NULL:
        raise MemoryError()
    for row in range(rows):
        if ids[row] >= 0:
            if seen[ids[row]]:
                found = False
                break
            seen[ids[row]] = 1
    free(seen)
    return found


cdef int _count_slots(TallyC* c) except -1:
    """Count the slots that rows have, and see whether a row has none."""
    cdef row_t row
    cdef unsigned char* seen = <unsigned char*>calloc(max(1, c.size), 1)
    if seen is NULL:
        raise MemoryError()
    c.held = 0
    c.any_without = False
    for row in range(c.rows):
        if c.slots[row] < 0:
            c.any_without = True
        elif not seen[c.slots[row]]:
            seen[c.slots[row]] = 1
            c.held += 1
    free(seen)
    return 0


cdef int _add(TallyC* c, row_t row, int64_t amount) noexcept nogil:
    cdef int32_t slot, old, new
    if not 0 <= row < c.rows or not -MAX_SUM <= amount <= MAX_SUM:
        c.is_good = False
    if not c.is_good or not c.inside[row] or c.slots[row] < 0 or amount == 0:
        return 0
    slot = c.slots[row]
    old = c.sums[slot]
    new = old + <int32_t>amount
    if not -MAX_SUM <= new <= MAX_SUM:
        c.is_good = False
        return 0
    c.sums[slot] = new
    c.largest = max(c.largest, new, -new)
    c.went_below |= new < 0
    c.occupied += (new != 0) - (old != 0)
    # The lowest sum is known while some slot has it; it is looked for again only when it is read.
    if c.at_lowest:
        c.at_lowest -= old == c.lowest
        if c.at_lowest and new == c.lowest:
            c.at_lowest += 1
        elif new < c.lowest:
            c.lowest = new
            c.at_lowest = 1
    return 0


cdef int32_t least(TallyC* c) noexcept nogil:
    """Return the lowest sum of a present slot; 0 if there is none."""
    cdef Py_ssize_t slot
    if c.present == 0:
        return 0
    if c.at_lowest == 0:
        for slot in range(c.size):
            if not c.marks[slot]:
                continue
            if c.at_lowest == 0 or c.sums[slot] < c.lowest:
                c.lowest = c.sums[slot]
                c.at_lowest = 1
            elif c.sums[slot] == c.lowest:
                c.at_lowest += 1
    return c.lowest
