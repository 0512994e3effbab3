"""Filters by free resources and by node class: they read the columns and one pod, and write verdicts."""

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Malloc

from kscheduler._fast.checks cimport index, within
from kscheduler._fast.codes cimport FEASIBLE, MAX_AMOUNT, MAX_CODE, MAX_ENTRIES, TOO_MANY_PODS, UNRESOLVABLE
from kscheduler._fast.columns cimport EntryC, NodeColumns, PodRequest
from kscheduler._fast.typedefs cimport amount_t, code_t, detail_t, node_class_t, row_t
from kscheduler._fast.verdicts cimport Verdicts

cdef object _INT32_MAX = (1 << 31) - 1


def filter_node_classes(NodeColumns columns not None, Verdicts verdicts not None, verdict_by_node_class, code):
    """Reject the nodes whose node class has a verdict other than 0; the verdict becomes the detail (reason number).

    A node class has the nodes with equal labels and taints. `verdict_by_node_class` has a byte, 0..127, for each class.
    Returns the number of feasible nodes left.
    """
    verdicts.check_columns(columns)
    cdef code_t c_code = <code_t>within("code", code, 1, MAX_CODE)
    cdef Py_buffer buffer
    cdef row_t left
    # A typed memoryview would take bytes or array('b'), not both.
    PyObject_GetBuffer(verdict_by_node_class, &buffer, PyBUF_ND | PyBUF_FORMAT)
    try:
        if buffer.itemsize != 1 or buffer.ndim != 1:
            raise ValueError(f"verdict_by_node_class: expected single bytes, got items of {buffer.itemsize}")
        _check_verdicts(<const signed char*>buffer.buf, buffer.len)
        _check_node_classes(columns.node_classes, verdicts.codes, verdicts.rows, buffer.len)
        with nogil:
            left = _filter_node_classes(
                columns.node_classes,
                verdicts.codes,
                verdicts.details,
                verdicts.rows,
                <const signed char*>buffer.buf,
                c_code,
            )
    finally:
        PyBuffer_Release(&buffer)
    return left


def filter_fit(NodeColumns columns not None, Verdicts verdicts not None, PodRequest request not None, code):
    """Reject the nodes without room for the pod, as NodeResourcesFit does. Returns the number of feasible nodes left.

    The detail (reason number) is a sum of bits: TOO_MANY_PODS, `entry_bit(i)` if there is too little for the i-th entry
    of the request, and UNRESOLVABLE if an entry is more than the node's allocatable.
    """
    verdicts.check_columns(columns)
    cdef code_t c_code = <code_t>within("code", code, 1, MAX_CODE)
    columns._check_resources(request)
    cdef row_t left
    with nogil:
        left = _filter_fit(
            columns.allocated,
            columns.used,
            columns.pods,
            columns.pods_allowed,
            request.c,
            request.count,
            verdicts.codes,
            verdicts.details,
            verdicts.rows,
            c_code,
        )
    return left


cdef struct ExpectedC:
    amount_t priority
    const EntryC* entries  # of a request that RowNominated keeps alive
    Py_ssize_t count


@cython.final
cdef class RowNominated:
    """The pods nominated to the node in a row, as (uid, priority, request). Immutable.

    `here` has the uids of the pods that are on the node now; a nominated pod among them is not counted twice.
    """

    cdef readonly Py_ssize_t row
    cdef dict here
    cdef tuple uids
    cdef list requests  # whose entries `c` points to
    cdef ExpectedC* c
    cdef Py_ssize_t count

    def __cinit__(self, row, dict here not None, pods):
        self.row = within("row", row, 0, _INT32_MAX)
        self.here = here
        self.uids = tuple([uid for uid, _, _ in pods])
        self.requests = []
        self.c = <ExpectedC*>PyMem_Malloc(max(1, len(pods)) * sizeof(ExpectedC))
        if self.c is NULL:
            raise MemoryError()
        cdef PodRequest request
        for _, priority, asked in pods:
            request = asked
            if request is None:
                raise TypeError("expected a PodRequest, got None")
            self.c[self.count].priority = within("priority", priority, -_INT32_MAX - 1, _INT32_MAX)
            self.c[self.count].entries = request.c
            self.c[self.count].count = request.count
            self.requests.append(request)
            self.count += 1

    def __dealloc__(self):
        PyMem_Free(self.c)


def filter_with_nominated(
    NodeColumns columns not None, Verdicts verdicts not None, PodRequest request not None, nominated_by_node, priority,
    uid, code, last,
):
    """Reject the nodes without room for the pod and the pods nominated to them, with the reason number of `filter_fit`.

    Nominated pods count if their priority is at least the pod's; the pod itself is left out. To be called after all
    filters, of which the last has the code `last`: a rejection here replaces one by `code` or by a later filter.
    """
    verdicts.check_columns(columns)
    cdef code_t c_code = <code_t>within("code", code, 1, MAX_CODE)
    cdef code_t c_last = <code_t>within("last", last, c_code, MAX_CODE)
    cdef amount_t c_priority = within("priority", priority, -_INT32_MAX - 1, _INT32_MAX)
    columns._check_resources(request)
    cdef RowNominated nominated
    cdef code_t before
    cdef detail_t lacking
    for each in nominated_by_node:
        nominated = each
        if nominated is None:
            raise TypeError("expected a RowNominated, got None")
        index("row", nominated.row, verdicts.rows)
        before = verdicts.codes[nominated.row]
        if before != FEASIBLE and not c_code <= before <= c_last:
            continue
        lacking = _lacking_beside(columns, nominated, request, c_priority, None)
        # More pods cannot lack less: only where it makes a difference is it asked who they are.
        if lacking and (before != c_code or verdicts.details[nominated.row] != lacking):
            lacking = _lacking_beside(columns, nominated, request, c_priority, uid)
        if lacking:
            verdicts.codes[nominated.row] = c_code
            verdicts.details[nominated.row] = lacking


cdef detail_t _lacking_beside(
    NodeColumns columns, RowNominated nominated, PodRequest request, amount_t priority, uid
) except? -1:
    """Return the detail of what is short with the nominated pods of at least this priority counted on the node.

    With a `uid`, that pod and the nominated pods that are already on the node are left out.
    """
    cdef amount_t beside[MAX_ENTRIES]  # what they take of each entry of the request
    cdef amount_t has, left, amount
    cdef amount_t pods = columns.pods[nominated.row]
    cdef Py_ssize_t position, i
    cdef bint is_picky = uid is not None
    cdef bint is_any = False
    for i in range(request.count):
        beside[i] = 0
    for position in range(nominated.count):
        if nominated.c[position].priority < priority:
            continue
        if is_picky and (nominated.uids[position] == uid or nominated.uids[position] in nominated.here):
            continue
        is_any = True
        pods += 1
        _add_entries(beside, request.c, request.count, nominated.c[position].entries, nominated.c[position].count)
    if not is_any:
        return 0
    cdef detail_t lacking = TOO_MANY_PODS if pods >= columns.pods_allowed[nominated.row] else 0
    for i in range(request.count):
        amount = request.c[i].amount
        has = columns.allocated[request.c[i].resource, nominated.row]
        left = has - columns.used[request.c[i].resource, nominated.row]
        if amount > left or beside[i] > left - amount:  # not summed up: that could overflow
            lacking |= entry_bit(i)
            if amount > has:
                lacking |= UNRESOLVABLE
    return lacking


cdef int _add_entries(
    amount_t* sums, const EntryC* asked, Py_ssize_t asked_count, const EntryC* entries, Py_ssize_t count
) except -1 nogil:
    """Add the amounts of the requested resources, up to MAX_AMOUNT; both lists ascend by resource."""
    cdef Py_ssize_t i = 0, j = 0
    while i < asked_count and j < count:
        if asked[i].resource < entries[j].resource:
            i += 1
        elif asked[i].resource > entries[j].resource:
            j += 1
        else:
            sums[i] = min(sums[i], MAX_AMOUNT - entries[j].amount) + entries[j].amount
            i += 1
            j += 1
    return 0


cdef int _check_verdicts(const signed char* verdicts, Py_ssize_t count) except -1:
    cdef Py_ssize_t node_class
    for node_class in range(count):
        if verdicts[node_class] < 0:
            raise ValueError(f"verdict of node class {node_class}: expected 0..127, got {verdicts[node_class]}")
    return 0


cdef int _check_node_classes(
    const node_class_t[::1] node_classes, const code_t[::1] codes, row_t rows, Py_ssize_t count
) except -1:
    cdef row_t row
    for row in range(rows):
        if codes[row] == FEASIBLE and not 0 <= node_classes[row] < count:
            raise IndexError(f"row {row} has node class {node_classes[row]}, there are values for {count}")
    return 0


cdef row_t _filter_node_classes(
    const node_class_t[::1] node_classes,
    code_t[::1] codes,
    detail_t[::1] details,
    row_t rows,
    const signed char* verdicts,
    code_t code,
) except? -1 nogil:
    cdef row_t row, left = 0
    cdef signed char verdict
    for row in range(rows):
        if codes[row] != FEASIBLE:
            continue
        verdict = verdicts[node_classes[row]]
        if verdict:
            codes[row] = code
            details[row] = verdict
        else:
            left += 1
    return left


cdef row_t _filter_fit(
    const amount_t[:, ::1] allocatable,
    const amount_t[:, ::1] requested,
    const amount_t[::1] pods,
    const amount_t[::1] pods_allowed,
    const EntryC* entries,
    Py_ssize_t count,
    code_t[::1] codes,
    detail_t[::1] details,
    row_t rows,
    code_t code,
) except? -1 nogil:
    cdef row_t row, left = 0
    cdef detail_t lacking
    for row in range(rows):
        if codes[row] != FEASIBLE:
            continue
        lacking = lacking_of_row(allocatable, requested, pods, pods_allowed, entries, count, row)
        if lacking:
            codes[row] = code
            details[row] = lacking
        else:
            left += 1
    return left
