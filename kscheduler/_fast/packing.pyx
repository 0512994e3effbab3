"""Columns as bytes and bytes as columns, for guests that keep the table in a memory of their own.

See reference_packing.py for what each function means. Numbers are little-endian on every machine this is built for.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t
from libc.string cimport memset

from kscheduler._fast.checks cimport index, within
from kscheduler._fast.codes cimport FEASIBLE, MAX_CODE, MAX_RAW
from kscheduler._fast.columns cimport NodeColumns
from kscheduler._fast.scoring cimport Scores
from kscheduler._fast.typedefs cimport amount_t, code_t, profile_t, row_t, score_t
from kscheduler._fast.verdicts cimport Verdicts

cdef object _INT32_MAX = (1 << 31) - 1


# --- what has changed ---


def changes_so_far(NodeColumns columns not None):
    """A place in the history of the rows, to be given to `rows_changed_since` later."""
    return columns.changes


def rows_changed_since(NodeColumns columns not None, cursor):
    """The rows whose numbers may have changed since, ascending; None if nobody knows any more: it may be any."""
    cdef Py_ssize_t since = within("cursor", cursor, 0, columns.changes)
    if columns.changes - since > columns.ring_mask + 1:
        return None
    cdef Py_ssize_t change
    found = set()
    for change in range(since, columns.changes):
        found.add(columns.changed_rows[change & columns.ring_mask])
    return _pack_rows(sorted(found))


# --- columns as bytes ---


def pack_amounts(NodeColumns columns not None, what, resource=0, rows=None):
    """A column of amounts, of all rows or of those given. `resource` says which allocatable or requested amount."""
    index("resource", resource, columns.resource_count)
    cdef const amount_t[::1] column
    if what == "allocatable":
        column = columns.allocated[<Py_ssize_t>resource]
    elif what == "requested":
        column = columns.used[<Py_ssize_t>resource]
    elif what == "non_zero_cpu":
        column = columns.used_cpu
    elif what == "non_zero_memory":
        column = columns.used_memory
    elif what == "pods":
        column = columns.pods
    elif what == "allowed_pods":
        column = columns.pods_allowed
    else:
        raise ValueError(f"what: expected the name of a column, got {what!r}")
    cdef Py_ssize_t i, count
    cdef const int32_t[::1] picked
    cdef object packed
    cdef amount_t* out
    if rows is None:
        return PyBytes_FromStringAndSize(<const char*>&column[0], columns.rows * sizeof(amount_t))
    if not len(rows):
        return b""
    picked = _rows_in(rows, columns.rows)
    count = picked.shape[0]
    packed = PyBytes_FromStringAndSize(NULL, count * sizeof(amount_t))
    out = <amount_t*>PyBytes_AS_STRING(packed)
    for i in range(count):
        out[i] = column[picked[i]]
    return packed


def pack_alive(NodeColumns columns not None, rows=None):
    """1 for a node, 0 for a dead row."""
    cdef Py_ssize_t i, count
    cdef const int32_t[::1] picked
    cdef object packed
    cdef code_t* out
    if rows is None:
        return PyBytes_FromStringAndSize(<const char*>&columns.alive[0], columns.rows)
    if not len(rows):
        return b""
    picked = _rows_in(rows, columns.rows)
    count = picked.shape[0]
    packed = PyBytes_FromStringAndSize(NULL, count)
    out = <code_t*>PyBytes_AS_STRING(packed)
    for i in range(count):
        out[i] = columns.alive[picked[i]]
    return packed


def pack_feasible(Verdicts verdicts not None):
    """The rows that are still in, ascending."""
    cdef row_t row
    cdef Py_ssize_t count = 0
    for row in range(verdicts.rows):
        count += verdicts.codes[row] == FEASIBLE
    packed = PyBytes_FromStringAndSize(NULL, count * sizeof(int32_t))
    cdef int32_t* out = <int32_t*>PyBytes_AS_STRING(packed)
    for row in range(verdicts.rows):
        if verdicts.codes[row] == FEASIBLE:
            out[0] = <int32_t>row
            out += 1
    return packed


# --- bytes as columns ---


def reject_marked(Verdicts verdicts not None, marks, code, reasons):
    """Put out the feasible rows with a mark, under detail mark - 1. -1, or the first of them whose mark has no reason.

    In that case nothing has changed. Marks of other rows are not looked at.
    """
    within("code", code, 1, MAX_CODE)
    cdef int most = <int>within("reasons", reasons, 0, 255)
    _check_length("marks", len(marks), verdicts.rows)
    if verdicts.rows == 0:
        return -1
    cdef const code_t[::1] given = marks
    cdef code_t chosen = code
    cdef row_t row
    for row in range(verdicts.rows):
        if given[row] > most and verdicts.codes[row] == FEASIBLE:
            return row
    for row in range(verdicts.rows):
        if given[row] and verdicts.codes[row] == FEASIBLE:
            verdicts.codes[row] = chosen
            verdicts.details[row] = given[row] - 1
    return -1


def set_raws(Verdicts verdicts not None, Scores scores not None, values, low, high):
    """Set the raw score of every feasible row, and 0 elsewhere. -1, or the first feasible row outside low..high.

    In that case nothing has changed. Values of other rows are not looked at.
    """
    cdef score_t least = within("low", low, -MAX_RAW, MAX_RAW)
    cdef score_t most = within("high", high, -MAX_RAW, MAX_RAW)
    scores.check_verdicts(verdicts)
    _check_length("values", len(values), verdicts.rows * sizeof(score_t))
    if verdicts.rows == 0:
        return -1
    cdef const score_t[::1] given = memoryview(values).cast("B").cast("q")
    cdef row_t row
    for row in range(verdicts.rows):
        if verdicts.codes[row] == FEASIBLE and not least <= given[row] <= most:
            return row
    for row in range(verdicts.rows):
        scores.raws[row] = given[row] if verdicts.codes[row] == FEASIBLE else 0
    return -1


def values_by_profile(NodeColumns columns not None, values, profile_count):
    """The value that all rows of each profile have, 0 for profiles without rows; None if some rows disagree."""
    cdef Py_ssize_t profiles = within("profile_count", profile_count, 0, _INT32_MAX)
    _check_length("values", len(values), columns.rows * sizeof(score_t))
    packed = PyBytes_FromStringAndSize(NULL, profiles * sizeof(score_t))
    cdef score_t* out = <score_t*>PyBytes_AS_STRING(packed)
    memset(out, 0, profiles * sizeof(score_t))
    if columns.rows == 0:
        return packed
    cdef const score_t[::1] given = memoryview(values).cast("B").cast("q")
    seen = bytearray(profiles + 1)
    cdef code_t[::1] known = seen
    cdef row_t row
    cdef profile_t profile
    for row in range(columns.rows):
        profile = columns.profiles[row]
        if profile < 0 or profile >= profiles:
            continue
        if known[profile] and out[profile] != given[row]:
            return None
        known[profile] = 1
        out[profile] = given[row]
    return packed


# --- inside ---


cdef object _pack_rows(list rows):
    packed = PyBytes_FromStringAndSize(NULL, len(rows) * sizeof(int32_t))
    cdef int32_t* out = <int32_t*>PyBytes_AS_STRING(packed)
    cdef Py_ssize_t i
    for i in range(len(rows)):
        out[i] = rows[i]
    return packed


cdef const int32_t[::1] _rows_in(object rows, Py_ssize_t limit):
    """Packed rows, each of them in the table."""
    cdef const int32_t[::1] picked = memoryview(rows).cast("B").cast("i")
    cdef Py_ssize_t i
    for i in range(picked.shape[0]):
        index("row", picked[i], limit)
    return picked


cdef int _check_length(str what, Py_ssize_t found, Py_ssize_t expected) except -1:
    if found != expected:
        raise ValueError(f"{what}: expected {expected} bytes, got {found}")
    return 0
