"""Columns as bytes and bytes as columns, for wasm plugins of the batch ABI, which have a node table of their own.

Packed columns are little-endian, as is every machine that this is built for.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.math cimport isnan, rint
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from kscheduler._fast.checks cimport index, within
from kscheduler._fast.codes cimport FEASIBLE, MAX_CODE, MAX_RAW
from kscheduler._fast.columns cimport NodeColumns
from kscheduler._fast.scoring cimport Scores
from kscheduler._fast.typedefs cimport amount_t, code_t, node_class_t, resource_t, row_t, score_t
from kscheduler._fast.verdicts cimport Verdicts

cdef int64_t HIGHEST = 0x7FFFFFFFFFFFFFFF
cdef int64_t NO_METRIC = -HIGHEST - 1
cdef double TOO_HIGH = 9223372036854775808.0  # 2^63
cdef object _INT32_MAX = (1 << 31) - 1
cdef object _INT64_MAX = (1 << 63) - 1

cdef enum:
    FEW = 16  # changes, which are put in order one by one
    MOST_OF_A_SMALL_MAP = 15
    LONGEST_HEAD = 96  # of a usage message: all keys, two integers and the size of `at`


# --- what has changed ---


def changes_so_far(NodeColumns columns not None):
    """Return the current position in the log of changed rows (nodes), to be passed to `rows_changed_since` later."""
    return columns.changes


def rows_changed_since(NodeColumns columns not None, cursor):
    """Return the rows (nodes) that may have changed since that position in the log, packed as int32, ascending.

    None if the log does not go back so far.
    """
    return changed_rows(columns, within("cursor", cursor, 0, columns.changes))


cdef bytes changed_rows(NodeColumns columns, Py_ssize_t since):
    """Return the result of `rows_changed_since`, without checking the position."""
    cdef Py_ssize_t change, at, count = 0
    cdef int32_t few[FEW]
    cdef int32_t row
    if columns.changes - since > columns.ring_mask + 1:
        return None
    if columns.changes - since > FEW:
        found = set()
        for change in range(since, columns.changes):
            found.add(columns.changed_rows[change & columns.ring_mask])
        return _pack_rows(sorted(found))
    for change in range(since, columns.changes):
        row = columns.changed_rows[change & columns.ring_mask]
        at = count
        while at > 0 and few[at - 1] >= row:
            at -= 1
        if at < count and few[at] == row:
            continue
        memmove(&few[at + 1], &few[at], (count - at) * sizeof(int32_t))
        few[at] = row
        count += 1
    return PyBytes_FromStringAndSize(<const char*>few, count * sizeof(int32_t))


# --- columns as bytes ---


def pack_amounts(NodeColumns columns not None, what, resource=0, rows=None):
    """Encode a column of amounts as bytes (int64), for all rows (nodes) or for the packed `rows`.

    `what` names the column; `resource` matters for allocatable and requested only.
    """
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


def pack_usage(NodeColumns columns not None, gen, bytes rows not None, resources):
    """Encode the usage of these packed rows (nodes) as a msgpack message, which tells a wasm plugin of changed pods.

    `resources`: (name in msgpack, resource column or -1 for one that no node has), at most 15.
    """
    cdef const int32_t[::1] picked
    cdef Py_ssize_t i, count = len(rows) // sizeof(int32_t), size
    cdef resource_t resource
    if count == 0:
        raise ValueError("rows: expected some, got none")
    picked = _rows_in(rows, columns.rows)
    within("resources", len(resources), 0, MOST_OF_A_SMALL_MAP)
    size = LONGEST_HEAD + count * sizeof(int32_t) + (len(resources) + 3) * (5 + count * sizeof(amount_t))
    for name, _ in resources:
        size += len(name)
    cdef object packed = PyBytes_FromStringAndSize(NULL, size)
    cdef unsigned char* start = <unsigned char*>PyBytes_AS_STRING(packed)
    cdef unsigned char* out = start
    out = _put(out, b"\x87\xa3gen", 5)
    out = _put_integer(out, within("gen", gen, 0, _INT64_MAX))
    out = _put(out, b"\xa4rows", 5)
    out = _put_integer(out, columns.rows)
    out = _put(out, b"\xa2at", 3)
    out = _put_bin(out, count * sizeof(int32_t))
    out = _put(out, <const char*>&picked[0], count * sizeof(int32_t))
    out = _put(out, b"\xa4used", 5)
    out[0] = <unsigned char>(0x80 + len(resources))
    out += 1
    for name, column in resources:
        out = _put(out, <const char*>PyBytes_AS_STRING(<bytes?>name), len(name))
        resource = within("resource", column, -1, columns.resource_count - 1)
        out = _put_amounts(out, picked, NULL if resource < 0 else &columns.used[resource, 0])
    out = _put(out, b"\xa8used_cpu", 9)
    out = _put_amounts(out, picked, &columns.used_cpu[0])
    out = _put(out, b"\xabused_memory", 12)
    out = _put_amounts(out, picked, &columns.used_memory[0])
    out = _put(out, b"\xa6pods_n", 7)
    out = _put_amounts(out, picked, &columns.pods[0])
    return (<bytes>packed)[: out - start]


def pack_alive(NodeColumns columns not None, rows=None):
    """Encode a byte for each row: 1 for a node, 0 for a dead row, i.e. one whose node was deleted."""
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
    """Encode the feasible rows (nodes) as int32, in ascending order."""
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


# --- values from elsewhere as a column ---


def take_metric(values, bytearray packed not None):
    """Write doubles into a packed int64 column, in thousandths. Returns the changed rows (nodes), packed and ascending.

    `values` None means that there are none. NaN and rows past the end of the values become NO_METRIC, the lowest int64;
    values out of range become the nearest int64.
    """
    cdef const double[::1] given
    cdef int64_t[::1] column
    cdef Py_ssize_t row, known = 0
    cdef int64_t value
    cdef double scaled
    cdef list changed = []
    if not len(packed):
        return b""
    column = memoryview(packed).cast("q")
    if values is not None and len(values):
        given = memoryview(values).cast("B").cast("d")
        known = given.shape[0]
    for row in range(column.shape[0]):
        value = NO_METRIC
        if row < known and not isnan(given[row]):
            scaled = rint(given[row] * 1000.0)
            if scaled >= TOO_HIGH:
                value = HIGHEST
            elif scaled <= -TOO_HIGH:
                value = -HIGHEST
            else:
                value = <int64_t>scaled
        if column[row] != value:
            column[row] = value
            changed.append(row)
    return _pack_rows(changed)


# --- bytes as columns ---


def reject_marked(Verdicts verdicts not None, marks, code, reasons):
    """Reject the feasible rows (nodes) with a mark other than 0, with the reason number (detail) mark - 1. Returns -1.

    If a feasible row's mark has no reason (there are `reasons`), the first such row is returned and nothing is changed.
    Marks of other rows are ignored.
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
    """Set the raw score of every feasible row (node) from `values`, and 0 elsewhere. Returns -1.

    If a feasible row's value is outside of low..high, the first such row is returned and nothing is changed. Values of
    other rows are ignored.
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


def values_by_node_class(NodeColumns columns not None, values, node_class_count):
    """Return the value of each node class (nodes with equal labels and taints), packed, from the values by row.

    None if rows of one class differ. A class without rows gets 0.
    """
    cdef Py_ssize_t node_classes = within("node_class_count", node_class_count, 0, _INT32_MAX)
    _check_length("values", len(values), columns.rows * sizeof(score_t))
    packed = PyBytes_FromStringAndSize(NULL, node_classes * sizeof(score_t))
    cdef score_t* out = <score_t*>PyBytes_AS_STRING(packed)
    memset(out, 0, node_classes * sizeof(score_t))
    if columns.rows == 0:
        return packed
    cdef const score_t[::1] given = memoryview(values).cast("B").cast("q")
    seen = bytearray(node_classes + 1)
    cdef code_t[::1] known = seen
    cdef row_t row
    cdef node_class_t node_class
    for row in range(columns.rows):
        node_class = columns.node_classes[row]
        if node_class < 0 or node_class >= node_classes:
            continue
        if known[node_class] and out[node_class] != given[row]:
            return None
        known[node_class] = 1
        out[node_class] = given[row]
    return packed


# --- inside ---


cdef unsigned char* _put(unsigned char* out, const char* data, Py_ssize_t size) noexcept:
    memcpy(out, data, size)
    return out + size


cdef unsigned char* _put_big_endian(unsigned char* out, unsigned char kind, uint64_t value, int width) noexcept:
    cdef int i
    out[0] = kind
    for i in range(width):
        out[1 + i] = <unsigned char>(value >> (8 * (width - 1 - i)))
    return out + 1 + width


cdef unsigned char* _put_integer(unsigned char* out, uint64_t value) noexcept:
    """Write an integer in msgpack's shortest form."""
    if value < 0x80:
        out[0] = <unsigned char>value
        return out + 1
    if value < 0x100:
        return _put_big_endian(out, 0xCC, value, 1)
    if value < 0x10000:
        return _put_big_endian(out, 0xCD, value, 2)
    if value < <uint64_t>1 << 32:
        return _put_big_endian(out, 0xCE, value, 4)
    return _put_big_endian(out, 0xCF, value, 8)


cdef unsigned char* _put_bin(unsigned char* out, uint64_t size) noexcept:
    """Write the msgpack header of a bin (byte string) of `size` bytes."""
    if size < 0x100:
        return _put_big_endian(out, 0xC4, size, 1)
    if size < 0x10000:
        return _put_big_endian(out, 0xC5, size, 2)
    return _put_big_endian(out, 0xC6, size, 4)


cdef unsigned char* _put_amounts(unsigned char* out, const int32_t[::1] rows, const amount_t* column) noexcept:
    """Write the amounts of these rows; zeros if `column` is NULL."""
    cdef Py_ssize_t i, count = rows.shape[0]
    out = _put_bin(out, count * sizeof(amount_t))
    if column is NULL:
        memset(out, 0, count * sizeof(amount_t))
        return out + count * sizeof(amount_t)
    for i in range(count):
        memcpy(out + i * sizeof(amount_t), &column[rows[i]], sizeof(amount_t))
    return out + count * sizeof(amount_t)


cdef bytes _pack_rows(list rows):
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, len(rows) * sizeof(int32_t))
    cdef int32_t* out = <int32_t*>PyBytes_AS_STRING(packed)
    cdef Py_ssize_t i
    for i in range(len(rows)):
        out[i] = rows[i]
    return packed


cdef const int32_t[::1] _rows_in(object rows, Py_ssize_t limit):
    """View packed rows as integers, and check that each is in the table."""
    cdef const int32_t[::1] picked = memoryview(rows).cast("B").cast("i")
    cdef Py_ssize_t i
    for i in range(picked.shape[0]):
        index("row", picked[i], limit)
    return picked


cdef int _check_length(str what, Py_ssize_t found, Py_ssize_t expected) except -1:
    if found != expected:
        raise ValueError(f"{what}: expected {expected} bytes, got {found}")
    return 0
