"""Nodes as columns of integers, and requests of pods in terms of those columns.

Sole owner of this memory: Python writes rows through these methods only, and kernels only read them.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cython cimport view
from libc.stdint cimport int32_t

from kscheduler._fast.checks cimport index, within
from kscheduler._fast.codes cimport EPHEMERAL_STORAGE, MAX_AMOUNT, MAX_ENTRIES
from kscheduler._fast.typedefs cimport amount_t, code_t, node_class_t, resource_t, row_t

cdef object _INT32_MAX = (1 << 31) - 1

cdef enum:
    SHORTEST_RING = 256
    LONGEST_RING = 16_384


@cython.final
cdef class PodRequest:
    """The request of one pod: (resource column, amount above zero) in column order. Immutable, equal by value.

    `non_zero_cpu` (milli-cores) and `non_zero_memory` (bytes) include scoring's defaults for containers without a
    request.
    """

    def __cinit__(self, entries, non_zero_cpu, non_zero_memory):
        if len(entries) > MAX_ENTRIES:
            raise ValueError(f"entries: expected at most {MAX_ENTRIES} resources, got {len(entries)}")
        self.c = <EntryC*>PyMem_Malloc(max(1, len(entries)) * sizeof(EntryC))
        if self.c is NULL:
            raise MemoryError()
        cdef resource_t previous = -1
        kept = []
        for resource, amount in entries:
            within("resource", resource, 0, _INT32_MAX)
            if resource <= previous:
                raise ValueError(f"entries: expected ascending resources, got {resource} after {previous}")
            self.c[self.count].amount = within("amount", amount, 1, MAX_AMOUNT)
            self.c[self.count].resource = previous = resource
            self.count += 1
            kept.append((resource, amount))
        self.entries = tuple(kept)
        self.cpu = within("non_zero_cpu", non_zero_cpu, 0, MAX_AMOUNT)
        self.memory = within("non_zero_memory", non_zero_memory, 0, MAX_AMOUNT)

    def __dealloc__(self):
        PyMem_Free(self.c)

    @property
    def non_zero_cpu(self):
        return self.cpu

    @property
    def non_zero_memory(self):
        return self.memory

    cdef amount_t amount_of(self, resource_t resource) noexcept nogil:
        """Return the amount requested of one resource column; 0 if none."""
        cdef Py_ssize_t i
        for i in range(self.count):
            if self.c[i].resource == resource:
                return self.c[i].amount
        return 0

    def __eq__(self, other):
        if not isinstance(other, PodRequest):
            return NotImplemented
        cdef PodRequest that = other
        return self.cpu == that.cpu and self.memory == that.memory and self.entries == that.entries

    def __hash__(self):
        return hash((self.entries, self.cpu, self.memory))

    def __repr__(self):
        return f"PodRequest({self.entries!r}, {self.cpu}, {self.memory})"


@cython.final
cdef class NodeColumns:
    """The resources of all nodes as integers, one row for each node. Only one thread may write.

    A new row is empty: all amounts are 0, and it has no node class (-1). Resource columns 0..2 (cpu, memory, ephemeral
    storage) always exist.
    """

    def __cinit__(self, capacity=64):
        self.resource_count = EPHEMERAL_STORAGE + 1
        self.generation = 0
        self.changes = 0
        self._allocate(8, within("capacity", capacity, 1, _INT32_MAX))
        self._allocate_ring(self.capacity)

    # --- shape ---

    def add_resource(self):
        """Add a resource column, zero on every row (node), and return its index."""
        if self.resource_count == self.allocated.shape[0]:
            self._grow(2 * self.resource_count, self.capacity)
        self.resource_count += 1
        self.generation += 1
        return self.resource_count - 1

    def add_row(self):
        """Add a row for a new node and return it: the lowest free one, or else a new one at the end."""
        cdef row_t row = self.lowest_free
        while row < self.rows and self.alive[row]:
            row += 1
        if row == self.capacity:
            self._grow(self.allocated.shape[0], 2 * self.capacity)
        if row == self.rows:
            self.rows += 1
        self._clear(row)
        self.alive[row] = 1
        self.alive_count += 1
        self.lowest_free = row + 1
        self._changed(row, -1)
        return row

    def free_row(self, row):
        """Free the row of a node that was deleted, with everything that was counted there."""
        self._check_alive(row)
        cdef node_class_t before = self.node_classes[<row_t>row]
        self._clear(row)
        self.alive_count -= 1
        self.lowest_free = min(self.lowest_free, <row_t>row)
        self._changed(row, before)

    # --- writing ---

    def set_allocatable(self, row, resource, amount):
        self._check_alive(row)
        index("resource", resource, self.resource_count)
        self.allocated[<resource_t>resource, <row_t>row] = within("amount", amount, -MAX_AMOUNT, MAX_AMOUNT)
        self._changed(row, self.node_classes[<row_t>row])

    def set_allowed_pods(self, row, count):
        self._check_alive(row)
        self.pods_allowed[<row_t>row] = within("count", count, -MAX_AMOUNT, MAX_AMOUNT)
        self._changed(row, self.node_classes[<row_t>row])

    def set_node_class(self, row, node_class):
        self._check_alive(row)
        cdef node_class_t after = <node_class_t>within("node class", node_class, 0, _INT32_MAX)
        cdef node_class_t before = self.node_classes[<row_t>row]
        self.node_classes[<row_t>row] = after
        self._changed(row, before)

    def add_pod(self, row, PodRequest request not None):
        """Count a pod on a node, whether it fits or not.

        OverflowError, without a change, if a sum would exceed MAX_AMOUNT.
        """
        self._check_alive(row)
        self._check_resources(request)
        cdef row_t at = row
        cdef Py_ssize_t i
        cdef EntryC entry
        for i in range(request.count):
            entry = request.c[i]
            if self.used[entry.resource, at] > MAX_AMOUNT - entry.amount:
                raise _too_much(at, f"resource {entry.resource}", self.used[entry.resource, at], entry.amount)
        if self.used_cpu[at] > MAX_AMOUNT - request.cpu:
            raise _too_much(at, "non_zero_cpu", self.used_cpu[at], request.cpu)
        if self.used_memory[at] > MAX_AMOUNT - request.memory:
            raise _too_much(at, "non_zero_memory", self.used_memory[at], request.memory)
        self._count(at, request, 1)

    def remove_pod(self, row, PodRequest request not None):
        """Subtract what add_pod counted on a node. ValueError, without a change, if the node has less than that."""
        self._check_alive(row)
        self._check_resources(request)
        cdef row_t at = row
        cdef Py_ssize_t i
        cdef EntryC entry
        if self.pods[at] < 1:
            raise _too_little(at, "pod count", self.pods[at], 1)
        for i in range(request.count):
            entry = request.c[i]
            if self.used[entry.resource, at] < entry.amount:
                raise _too_little(at, f"resource {entry.resource}", self.used[entry.resource, at], entry.amount)
        if self.used_cpu[at] < request.cpu:
            raise _too_little(at, "non_zero_cpu", self.used_cpu[at], request.cpu)
        if self.used_memory[at] < request.memory:
            raise _too_little(at, "non_zero_memory", self.used_memory[at], request.memory)
        self._count(at, request, -1)

    # --- reading ---

    def allocatable(self, row, resource):
        index("row", row, self.rows)
        index("resource", resource, self.resource_count)
        return self.allocated[<resource_t>resource, <row_t>row]

    def requested(self, row, resource):
        index("row", row, self.rows)
        index("resource", resource, self.resource_count)
        return self.used[<resource_t>resource, <row_t>row]

    def non_zero_cpu(self, row):
        index("row", row, self.rows)
        return self.used_cpu[<row_t>row]

    def non_zero_memory(self, row):
        index("row", row, self.rows)
        return self.used_memory[<row_t>row]

    def pod_count(self, row):
        index("row", row, self.rows)
        return self.pods[<row_t>row]

    def allowed_pods(self, row):
        index("row", row, self.rows)
        return self.pods_allowed[<row_t>row]

    def node_class(self, row):
        index("row", row, self.rows)
        return self.node_classes[<row_t>row]

    def is_alive(self, row):
        index("row", row, self.rows)
        return self.alive[<row_t>row] != 0

    # --- inside ---

    cdef int _allocate(self, Py_ssize_t resources, Py_ssize_t capacity) except -1:
        """Allocate empty columns in place of the present ones."""
        allocated = _table(resources, capacity)
        used = _table(resources, capacity)
        used_cpu = _column(capacity)
        used_memory = _column(capacity)
        pods = _column(capacity)
        pods_allowed = _column(capacity)
        cdef node_class_t[::1] node_classes = view.array(shape=(capacity,), itemsize=sizeof(node_class_t), format="i")
        cdef code_t[::1] alive = view.array(shape=(capacity,), itemsize=sizeof(code_t), format="B")
        node_classes[:] = -1
        alive[:] = 0
        # All memory is there now: a MemoryError above has changed nothing.
        self.allocated = allocated
        self.used = used
        self.used_cpu = used_cpu
        self.used_memory = used_memory
        self.pods = pods
        self.pods_allowed = pods_allowed
        self.node_classes = node_classes
        self.alive = alive
        self.capacity = capacity
        return 0

    cdef int _grow(self, Py_ssize_t resources, Py_ssize_t capacity) except -1:
        """Replace the columns by larger ones with the same content."""
        allocated, used = self.allocated, self.used
        used_cpu, used_memory = self.used_cpu, self.used_memory
        pods, pods_allowed = self.pods, self.pods_allowed
        node_classes, alive = self.node_classes, self.alive
        cdef Py_ssize_t rows = alive.shape[0], old = allocated.shape[0]
        self._allocate(resources, capacity)
        self._allocate_ring(capacity)
        self.allocated[:old, :rows] = allocated
        self.used[:old, :rows] = used
        self.used_cpu[:rows] = used_cpu
        self.used_memory[:rows] = used_memory
        self.pods[:rows] = pods
        self.pods_allowed[:rows] = pods_allowed
        self.node_classes[:rows] = node_classes
        self.alive[:rows] = alive
        return 0

    cdef int _clear(self, row_t row) except -1:
        cdef Py_ssize_t resource
        for resource in range(self.resource_count):
            self.allocated[resource, row] = 0
            self.used[resource, row] = 0
        self.used_cpu[row] = 0
        self.used_memory[row] = 0
        self.pods[row] = 0
        self.pods_allowed[row] = 0
        self.node_classes[row] = -1
        self.alive[row] = 0
        return 0

    cdef int _allocate_ring(self, Py_ssize_t capacity) except -1:
        """Allocate the ring of changed rows, for a quarter of the rows: to read more, reading all rows is faster."""
        cdef Py_ssize_t length = SHORTEST_RING, change
        while length < capacity // 4 and length < LONGEST_RING:
            length *= 2
        if length - 1 == self.ring_mask:
            return 0
        cdef int32_t[::1] rows = view.array(shape=(length,), itemsize=sizeof(int32_t), format="i")
        cdef node_class_t[::1] node_classes = view.array(shape=(length,), itemsize=sizeof(node_class_t), format="i")
        for change in range(max(0, self.changes - self.ring_mask - 1), self.changes):
            rows[change & (length - 1)] = self.changed_rows[change & self.ring_mask]
            node_classes[change & (length - 1)] = self.node_classes_before[change & self.ring_mask]
        self.changed_rows = rows
        self.node_classes_before = node_classes
        self.ring_mask = length - 1
        return 0

    cdef int _changed(self, row_t row, node_class_t before) except -1:
        """Log a change of a row, which had the node class `before`. Every write calls this last."""
        self.log_change(row, before)
        self.generation += 1
        return 0

    cdef int log_change(self, row_t row, node_class_t before) except -1 nogil:
        self.changed_rows[self.changes & self.ring_mask] = <int32_t>row
        self.node_classes_before[self.changes & self.ring_mask] = before
        self.changes = self.changes + 1
        return 0

    cdef int _check_alive(self, object row) except -1:
        index("row", row, self.rows)
        if not self.alive[<row_t>row]:
            raise ValueError(f"row {row} holds no node")
        return 0

    cdef int _check_resources(self, PodRequest request) except -1:
        if request.count:
            index("resource", request.c[request.count - 1].resource, self.resource_count)
        return 0

    cdef int _count(self, row_t row, PodRequest request, int sign) except -1:
        self.add_amounts(row, request.c, request.count, request.cpu, request.memory, sign)
        self.generation += 1
        return 0

    cdef bint holds(
        self, row_t row, const EntryC* entries, Py_ssize_t count, amount_t cpu, amount_t memory
    ) except -1 nogil:
        """Return True if all sums stay within MAX_AMOUNT with this pod counted."""
        cdef Py_ssize_t i
        for i in range(count):
            if self.used[entries[i].resource, row] > MAX_AMOUNT - entries[i].amount:
                return False
        return self.used_cpu[row] <= MAX_AMOUNT - cpu and self.used_memory[row] <= MAX_AMOUNT - memory

    cdef int add_amounts(
        self, row_t row, const EntryC* entries, Py_ssize_t count, amount_t cpu, amount_t memory, int sign
    ) except -1 nogil:
        """Count (`sign` 1) a pod for which `holds` is True, or subtract one (-1). Callers increment the generation."""
        cdef Py_ssize_t i
        for i in range(count):
            self.used[entries[i].resource, row] = self.used[entries[i].resource, row] + sign * entries[i].amount
        self.used_cpu[row] = self.used_cpu[row] + sign * cpu
        self.used_memory[row] = self.used_memory[row] + sign * memory
        self.pods[row] = self.pods[row] + sign
        self.log_change(row, self.node_classes[row])
        return 0


cdef amount_t[::1] _column(Py_ssize_t capacity):
    cdef amount_t[::1] fresh = view.array(shape=(capacity,), itemsize=sizeof(amount_t), format="q")
    fresh[:] = 0
    return fresh


cdef amount_t[:, ::1] _table(Py_ssize_t resources, Py_ssize_t capacity):
    cdef amount_t[:, ::1] fresh = view.array(shape=(resources, capacity), itemsize=sizeof(amount_t), format="q")
    fresh[:, :] = 0
    return fresh


cdef object _too_much(row_t row, str what, amount_t before, amount_t amount):
    return OverflowError(f"row {row}: {what} at {before}, {amount} more pass {MAX_AMOUNT}")


cdef object _too_little(row_t row, str what, amount_t before, amount_t amount):
    return ValueError(f"row {row}: {what} at {before}, {amount} cannot be taken off")
