# What a row lacks, inline: for the tables in filtering.pyx and for the classes in placement.pyx.

from kscheduler._fast.codes cimport ENTRY_BITS, TOO_MANY_PODS, UNRESOLVABLE
from kscheduler._fast.columns cimport EntryC
from kscheduler._fast.typedefs cimport amount_t, detail_t, row_t


cdef inline detail_t entry_bit(Py_ssize_t position) noexcept nogil:
    """Return the bit of a detail for the request's entry at this position, like codes.entry_bit."""
    return <detail_t>1 << min(1 + position, <Py_ssize_t>ENTRY_BITS)


cdef inline detail_t lacking_of_row(
    const amount_t[:, ::1] allocatable,
    const amount_t[:, ::1] requested,
    const amount_t[::1] pods,
    const amount_t[::1] pods_allowed,
    const EntryC* entries,
    Py_ssize_t count,
    row_t row,
) except? -1 nogil:
    """Return the detail of filter_fit for a row, or 0 if there is room."""
    cdef Py_ssize_t i
    cdef amount_t has, amount
    cdef detail_t lacking = TOO_MANY_PODS if pods[row] >= pods_allowed[row] else 0
    for i in range(count):
        amount = entries[i].amount
        has = allocatable[entries[i].resource, row]
        if amount > has - requested[entries[i].resource, row]:
            lacking |= entry_bit(i)
            if amount > has:
                lacking |= UNRESOLVABLE
    return lacking
