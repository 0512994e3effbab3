"""Plugins' answers about each row (node), kept, and asked for again where rows have changed."""

from array import array

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from kscheduler._fast.checks cimport index, within
from kscheduler._fast.codes cimport MAX_RAW
from kscheduler._fast.columns cimport NodeColumns
from kscheduler._fast.packing cimport changed_rows
from kscheduler._fast.typedefs cimport row_t, score_t

cdef enum:
    WORTH_PICKING = 4  # if at least one row in this many has changed, all rows are asked for


@cython.final
cdef class RowAnswers:
    """A plugin's answers about each row (node) of a table: a mark or a score by row, asked for again when rows change.

    A mark is 0 if the plugin accepts the node. `ask(rows)` returns the answers for these rows (packed int32,
    ascending), or for all rows if that is None, packed: a byte for each mark, an int64 for each score. If `ask` raises,
    the exception propagates and the answers stay as they were. With `follows_amounts`, rows whose amounts of resources
    have changed are asked for again. A score of a node outside `low`..`high` is a ValueError.
    """

    def __cinit__(
        self, NodeColumns columns not None, ask, bint marks, low=0, high=0, *, bint follows_amounts=True
    ):
        self.columns = columns
        self.ask = ask
        self.low = within("low", low, -MAX_RAW, MAX_RAW)
        self.high = within("high", high, -MAX_RAW, MAX_RAW)
        self.data = bytearray()
        self.doubts = set()
        self.is_marks = marks
        self.c.seen = -1
        self.c.follows_amounts = follows_amounts

    @property
    def entries(self):
        """The answers for all rows (nodes) as bytes, as of the last refresh; valid until the next one."""
        return memoryview(self.data).toreadonly()

    def doubt(self, rows):
        """Have the next refresh ask the plugin again about these rows, i.e. nodes (packed int32; None: all).

        Rows that are new must be among them.
        """
        if rows is None:
            self.c.seen = -1
        elif len(rows):
            self.doubts.update(memoryview(rows).cast("B").cast("i"))
            self.c.has_doubts = True

    def refresh(self):
        """Ask the plugin again about rows (nodes) passed to `doubt` and, with `follows_amounts`, about changed rows.

        If that is cheaper, it is asked about all rows.
        """
        if is_behind(&self.c, self.columns):
            self._ask_about(self._rows_to_ask())

    # --- inside ---

    cdef bytes _rows_to_ask(self):
        """Return the rows to ask for, packed; None for all."""
        cdef bytes rows = b""
        if self.c.seen < 0:
            return None
        if self.c.follows_amounts:
            rows = changed_rows(self.columns, self.c.seen)
            if rows is None:
                return None
        if self.c.has_doubts:
            rows = array("i", sorted(self.doubts.union(memoryview(rows).cast("i")))).tobytes()
        if len(rows) * WORTH_PICKING > self.columns.rows * <Py_ssize_t>sizeof(int32_t) or not len(rows):
            return None
        return rows

    cdef int _ask_about(self, bytes rows) except -1:
        """Ask about these rows (None: all nodes) and keep the answers; if these are invalid, the old ones stay."""
        cdef Py_ssize_t now = self.columns.changes, count = self.columns.rows, i
        cdef const int32_t* picked = NULL
        if rows is not None:
            picked = <const int32_t*>PyBytes_AS_STRING(rows)
            count = len(rows) // sizeof(int32_t)
            for i in range(count):
                index("row", picked[i], self.columns.rows)
        if count:
            entries = self.ask(rows)
            if self.is_marks:
                self._keep_marks(picked, count, entries)
            else:
                self._keep_scores(picked, count, entries)
        if rows is None or self.c.has_doubts:  # the columns need not log all these rows
            self.c.version += 1
            self.c.has_doubts = False
            self.doubts.clear()
        self.c.seen = now
        return 0

    cdef int _keep_marks(self, const int32_t* rows, Py_ssize_t count, const unsigned char[::1] entries) except -1:
        cdef unsigned char* marks
        cdef Py_ssize_t i
        if entries.shape[0] != count:
            raise ValueError(f"expected {count} bytes for {count} rows, got {entries.shape[0]}")
        self._hold(self.columns.rows)
        marks = <unsigned char*>PyByteArray_AS_STRING(self.data)
        for i in range(count):
            marks[i if rows is NULL else rows[i]] = entries[i]
        return 0

    cdef int _keep_scores(self, const int32_t* rows, Py_ssize_t count, const unsigned char[::1] entries) except -1:
        cdef score_t* scores
        cdef const score_t[::1] values
        cdef Py_ssize_t i
        cdef row_t row
        if entries.shape[0] != count * <Py_ssize_t>sizeof(score_t):
            raise ValueError(f"expected {count * sizeof(score_t)} bytes for {count} rows, got {entries.shape[0]}")
        values = memoryview(entries).cast("q")
        for i in range(count):
            row = i if rows is NULL else rows[i]
            if self.columns.alive[row] and not self.low <= values[i] <= self.high:
                raise ValueError(f"score of row {row}: expected {self.low}..{self.high}, got {values[i]}")
        self._hold(self.columns.rows)
        scores = <score_t*>PyByteArray_AS_STRING(self.data)
        for i in range(count):
            row = i if rows is NULL else rows[i]
            scores[row] = values[i] if self.columns.alive[row] else 0
        return 0

    cdef int _hold(self, Py_ssize_t rows) except -1:
        """Make room for the answers about this many rows. Kept answers stay, and new ones are 0."""
        cdef Py_ssize_t width = 1 if self.is_marks else sizeof(score_t)
        cdef bytearray grown
        if rows == self.c.rows:
            return 0
        grown = bytearray(rows * width)  # a new one: the old one may be in view
        memcpy(PyByteArray_AS_STRING(grown), PyByteArray_AS_STRING(self.data), min(rows, self.c.rows) * width)
        self.data = grown
        self.c.rows = rows
        if self.is_marks:
            self.c.marks = <const unsigned char*>PyByteArray_AS_STRING(grown)
        else:
            self.c.scores = <const score_t*>PyByteArray_AS_STRING(grown)
        return 0
