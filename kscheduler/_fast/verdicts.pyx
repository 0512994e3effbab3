"""The verdict on each row (node) for one pod: feasible, or a code and a detail that state why it is rejected."""

cimport cython
from cython cimport view
from libc.string cimport memset

from kscheduler._fast.checks cimport index, within
from kscheduler._fast.codes cimport FEASIBLE, MAX_CODE, NO_NODE, NOT_EXAMINED
from kscheduler._fast.columns cimport NodeColumns
from kscheduler._fast.typedefs cimport code_t, detail_t, row_t

cdef object _INT64_MAX = (1 << 63) - 1

# keep_only marks the rows to keep with this while it works: callers' codes end before it.
cdef enum:
    KEPT = 253


@cython.final
cdef class Verdicts:
    """The verdict on each row (node) for one pod at a time: feasible, or rejected with a code and a detail.

    The code stands for the filter that rejected the row; the detail is that filter's reason number.
    """

    def __cinit__(self):
        self._allocate(1)

    cdef int _allocate(self, Py_ssize_t capacity) except -1:
        codes = view.array(shape=(capacity,), itemsize=sizeof(code_t), format="B")
        self.details = view.array(shape=(capacity,), itemsize=sizeof(detail_t), format="q")
        self.codes = codes
        return 0

    def reset(self, NodeColumns columns not None):
        """Begin with a new pod: every row that holds a node is feasible."""
        if self.codes.shape[0] < columns.rows:
            self._allocate(columns.capacity)
        self.rows = columns.rows
        with nogil:
            _reset(columns.alive, self.codes, self.details, self.rows)

    def code(self, row):
        index("row", row, self.rows)
        return self.codes[<row_t>row]

    def detail(self, row):
        index("row", row, self.rows)
        return self.details[<row_t>row]

    def feasible_count(self):
        with nogil:
            count = _feasible(self.codes, self.rows)
        return count

    def feasible_rows(self):
        """List the feasible rows (nodes) in ascending order."""
        cdef row_t row
        found = []
        for row in range(self.rows):
            if self.codes[row] == FEASIBLE:
                found.append(row)
        return found

    def rows_with(self, code, detail):
        """List the rows (nodes) with this code (filter) and detail (reason) in ascending order."""
        cdef row_t row
        cdef int wanted_code = code
        cdef detail_t wanted = detail
        found = []
        for row in range(self.rows):
            if self.codes[row] == wanted_code and self.details[row] == wanted:
                found.append(row)
        return found

    def histogram(self):
        """Return (code, detail), i.e. filter and reason -> number of nodes, including feasible nodes, in any order."""
        return _histogram(self.codes, self.details, self.rows)

    def reject(self, row, code, detail=0):
        """Reject a row (node) if it is still feasible; a row keeps its first reason."""
        _check_reason(code, detail)
        index("row", row, self.rows)
        if self.codes[<row_t>row] == FEASIBLE:
            self.codes[<row_t>row] = code
            self.details[<row_t>row] = detail

    def reject_rows(self, rows, code, detail=0):
        _check_reason(code, detail)
        cdef row_t at
        for row in rows:
            index("row", row, self.rows)
        for at in rows:
            if self.codes[at] == FEASIBLE:
                self.codes[at] = code
                self.details[at] = detail

    def keep_only(self, rows, code, detail=0):
        """Reject every feasible row (node) that is not among `rows`."""
        _check_reason(code, detail)
        cdef row_t at
        for row in rows:
            index("row", row, self.rows)
        for at in rows:
            if self.codes[at] == FEASIBLE:
                self.codes[at] = KEPT
        _sweep(self.codes, self.details, self.rows, code, detail)

    def limit_feasible(self, start, limit):
        """Examine nodes from row `start` on, wrapping around, and stop before the feasible one that exceeds `limit`.

        That node and all after it become NOT_EXAMINED, whatever their verdict was. Returns the number of nodes
        examined.
        """
        if self.rows:
            index("start", start, self.rows)
        else:
            within("start", start, 0, 0)
        cdef Py_ssize_t most = within("limit", limit, 1, _INT64_MAX)
        cdef row_t first = start
        cdef Py_ssize_t examined
        with nogil:
            examined = _limit(self.codes, self.details, self.rows, first, most)
        return examined

    cdef int check_columns(self, NodeColumns columns) except -1:
        # Rows added after the reset take no part until the next one: the columns may only be longer.
        if columns.rows < self.rows:
            raise ValueError(f"verdicts have {self.rows} rows, these columns {columns.rows}: reset them together")
        return 0


cdef int _check_reason(code, detail) except -1:
    within("code", code, 1, MAX_CODE)
    within("detail", detail, 0, _INT64_MAX)
    return 0


cdef int _reset(const code_t[::1] alive, code_t[::1] codes, detail_t[::1] details, row_t rows) except -1 nogil:
    cdef row_t row
    for row in range(rows):
        codes[row] = FEASIBLE if alive[row] else NO_NODE
    memset(&details[0], 0, rows * sizeof(detail_t))
    return 0


cdef row_t _feasible(const code_t[::1] codes, row_t rows) except? -1 nogil:
    cdef row_t row, count = 0
    for row in range(rows):
        count += codes[row] == FEASIBLE
    return count


cdef int _sweep(code_t[::1] codes, detail_t[::1] details, row_t rows, code_t code, detail_t detail) except -1 nogil:
    cdef row_t row
    for row in range(rows):
        if codes[row] == KEPT:
            codes[row] = FEASIBLE
        elif codes[row] == FEASIBLE:
            codes[row] = code
            details[row] = detail
    return 0


cdef row_t _limit(
    code_t[::1] codes, detail_t[::1] details, row_t rows, row_t start, Py_ssize_t limit
) except? -1 nogil:
    cdef row_t row = start, step, examined = 0
    cdef Py_ssize_t found = 0
    for step in range(rows):
        if codes[row] != NO_NODE:
            if found == limit and codes[row] == FEASIBLE:
                found += 1
            if found > limit:
                codes[row] = NOT_EXAMINED
                details[row] = 0
            else:
                examined += 1
                found += codes[row] == FEASIBLE
        row = row + 1 if row + 1 < rows else 0
    return examined


# Reasons are few and rows many, so counts are kept in C and only spill into the dict when two reasons share a slot.
cdef enum:
    SLOTS = 64


cdef dict _histogram(const code_t[::1] codes, const detail_t[::1] details, row_t rows):
    cdef code_t slot_code[SLOTS]
    cdef detail_t slot_detail[SLOTS]
    cdef Py_ssize_t slot_count[SLOTS]
    cdef row_t row
    cdef int slot
    cdef dict counts = {}
    memset(slot_count, 0, sizeof(slot_count))
    for row in range(rows):
        if codes[row] == NO_NODE:
            continue
        slot = _slot(codes[row], details[row])
        if slot_count[slot] and (slot_code[slot] != codes[row] or slot_detail[slot] != details[row]):
            _spill(counts, slot_code[slot], slot_detail[slot], slot_count[slot])
            slot_count[slot] = 0
        slot_code[slot] = codes[row]
        slot_detail[slot] = details[row]
        slot_count[slot] += 1
    for slot in range(SLOTS):
        if slot_count[slot]:
            _spill(counts, slot_code[slot], slot_detail[slot], slot_count[slot])
    return counts


cdef inline int _slot(code_t code, detail_t detail) noexcept nogil:
    # The high bit of a detail (UNRESOLVABLE) and its low bits both count.
    return <int>((code * 7) ^ detail ^ (detail >> 6) ^ (detail >> 57)) & (SLOTS - 1)


cdef int _spill(dict counts, code_t code, detail_t detail, Py_ssize_t count) except -1:
    key = (code, detail)
    counts[key] = counts.get(key, 0) + count
    return 0
