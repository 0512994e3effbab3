"""Which rows have room, and which profiles may: columns and one pod in, verdicts out. See reference.py."""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBuffer_Release, PyObject_GetBuffer

from kscheduler._fast.checks cimport within
from kscheduler._fast.codes cimport FEASIBLE, MAX_CODE, TOO_MANY_PODS, UNRESOLVABLE
from kscheduler._fast.columns cimport EntryC, NodeColumns, PodRequest
from kscheduler._fast.typedefs cimport amount_t, code_t, detail_t, profile_t, row_t
from kscheduler._fast.verdicts cimport Verdicts


def filter_profiles(NodeColumns columns not None, Verdicts verdicts not None, verdict_by_profile, code):
    """Put out the nodes whose profile has a verdict other than 0, with that verdict as detail.

    `verdict_by_profile` holds one byte a profile, 0..127. Returns the feasible nodes left.
    """
    verdicts.check_columns(columns)
    cdef code_t c_code = <code_t>within("code", code, 1, MAX_CODE)
    cdef Py_buffer buffer
    cdef row_t left
    # A typed memoryview would take bytes or array('b'), not both.
    PyObject_GetBuffer(verdict_by_profile, &buffer, PyBUF_ND | PyBUF_FORMAT)
    try:
        if buffer.itemsize != 1 or buffer.ndim != 1:
            raise ValueError(f"verdict_by_profile: expected single bytes, got items of {buffer.itemsize}")
        _check_verdicts(<const signed char*>buffer.buf, buffer.len)
        _check_profiles(columns.profiles, verdicts.codes, verdicts.rows, buffer.len)
        with nogil:
            left = _filter_profiles(
                columns.profiles,
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
    """Put out the nodes that have no room for the pod. Returns the feasible nodes left.

    The detail says which room: TOO_MANY_PODS, bit 1 + i for the i-th entry of the request, and UNRESOLVABLE if an
    entry asks for more than the whole node has.
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


cdef int _check_verdicts(const signed char* verdicts, Py_ssize_t count) except -1:
    cdef Py_ssize_t profile
    for profile in range(count):
        if verdicts[profile] < 0:
            raise ValueError(f"verdict of profile {profile}: expected 0..127, got {verdicts[profile]}")
    return 0


cdef int _check_profiles(
    const profile_t[::1] profiles, const code_t[::1] codes, row_t rows, Py_ssize_t count
) except -1:
    cdef row_t row
    for row in range(rows):
        if codes[row] == FEASIBLE and not 0 <= profiles[row] < count:
            raise IndexError(f"row {row} has profile {profiles[row]}, there are values for {count}")
    return 0


cdef row_t _filter_profiles(
    const profile_t[::1] profiles,
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
        verdict = verdicts[profiles[row]]
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
    cdef Py_ssize_t i
    cdef detail_t lacking
    cdef amount_t has, amount
    for row in range(rows):
        if codes[row] != FEASIBLE:
            continue
        lacking = TOO_MANY_PODS if pods[row] >= pods_allowed[row] else 0
        for i in range(count):
            amount = entries[i].amount
            has = allocatable[entries[i].resource, row]
            if amount > has - requested[entries[i].resource, row]:
                lacking |= <detail_t>1 << (1 + i)
                if amount > has:
                    lacking |= UNRESOLVABLE
        if lacking:
            codes[row] = code
            details[row] = lacking
        else:
            left += 1
    return left
