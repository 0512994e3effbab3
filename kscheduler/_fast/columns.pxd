# Invariants: rows <= capacity = length of every column. A dead row is zero everywhere, its node class -1.
# Kernels read the columns and never write them.

from libc.stdint cimport int32_t

from kscheduler._fast.typedefs cimport amount_t, code_t, node_class_t, resource_t, row_t


cdef struct EntryC:
    amount_t amount  # above zero
    resource_t resource


cdef class PodRequest:
    cdef EntryC* c  # in ascending order of resource; owned
    cdef Py_ssize_t count
    cdef amount_t cpu  # non-zero: with the scoring defaults
    cdef amount_t memory  # non-zero
    cdef readonly tuple entries  # the same as c, for Python

    cdef amount_t amount_of(self, resource_t resource) noexcept nogil


cdef class NodeColumns:
    cdef readonly Py_ssize_t rows  # most that were ever in use at once; kernels read that many
    cdef readonly Py_ssize_t capacity
    cdef readonly Py_ssize_t alive_count
    cdef readonly Py_ssize_t resource_count
    cdef readonly object generation  # bumped by every change
    cdef row_t lowest_free  # no dead row is below this one

    cdef amount_t[:, ::1] allocated  # [resource, row] what the node has
    cdef amount_t[:, ::1] used  # [resource, row] what its pods request
    cdef amount_t[::1] used_cpu  # [row] non-zero requests
    cdef amount_t[::1] used_memory  # [row] non-zero requests
    cdef amount_t[::1] pods  # [row]
    cdef amount_t[::1] pods_allowed  # [row]
    cdef node_class_t[::1] node_classes  # [row]
    cdef code_t[::1] alive  # [row] 1 or 0

    # Which rows have changed: a ring, so that a reader too far behind sees that it is, and reads all rows instead.
    cdef Py_ssize_t changes  # number of changes ever; number n is at n & ring_mask while it is one of the last ones
    cdef Py_ssize_t ring_mask  # length of the ring less 1; the length is a power of two
    cdef int32_t[::1] changed_rows  # [change & ring_mask]
    cdef node_class_t[::1] node_classes_before  # [change & ring_mask] of that row, before the change

    cdef int _allocate(self, Py_ssize_t resources, Py_ssize_t capacity) except -1
    cdef int _grow(self, Py_ssize_t resources, Py_ssize_t capacity) except -1
    cdef int _clear(self, row_t row) except -1
    cdef int _allocate_ring(self, Py_ssize_t capacity) except -1
    cdef int _changed(self, row_t row, node_class_t before) except -1
    cdef int log_change(self, row_t row, node_class_t before) except -1 nogil
    cdef int _check_alive(self, object row) except -1
    cdef int _check_resources(self, PodRequest request) except -1
    cdef int _count(self, row_t row, PodRequest request, int sign) except -1
    cdef bint holds(
        self, row_t row, const EntryC* entries, Py_ssize_t count, amount_t cpu, amount_t memory
    ) except -1 nogil
    cdef int add_amounts(
        self, row_t row, const EntryC* entries, Py_ssize_t count, amount_t cpu, amount_t memory, int sign
    ) except -1 nogil
