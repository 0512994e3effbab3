"""Amounts of resources in use, and their integrals over time, for the accounts of a simulation."""

cimport cython
from libc.stdlib cimport free, realloc


cdef struct resource_t:
    double amount  # as in the list of amounts, but for rounding
    double integral


@cython.final
cdef class UseOverTime:
    """The amounts of several resources that are in use, exact integers, and their integrals over time."""

    cdef list _amounts  # by resource index
    cdef resource_t* _resources  # by resource index: what each change reads of all of them
    cdef double _since_s

    def __cinit__(self, Py_ssize_t resources, double since_s):
        """Build accounts of so many resources, of which nothing is in use from `since_s` on."""
        self._amounts = []
        self._since_s = since_s
        for _ in range(resources):
            self.add_resource()

    def __dealloc__(self):
        free(self._resources)

    @property
    def amounts(self):
        """The amounts in use by resource index; not to be changed."""
        return self._amounts

    @property
    def integrals(self):
        """Amount × seconds by resource index, up to the last change or `settle`, in a list of the caller's own."""
        cdef Py_ssize_t index
        return [self._resources[index].integral for index in range(len(self._amounts))]

    def add_resource(self):
        """Add a resource of which nothing is in use; its index is the number of those before it."""
        cdef Py_ssize_t index = len(self._amounts)
        cdef resource_t* resources = <resource_t*>realloc(self._resources, (index + 1) * sizeof(resource_t))
        if not resources:
            raise MemoryError
        self._resources = resources
        resources[index].amount = resources[index].integral = 0.0
        self._amounts.append(0)

    cdef void _settle(self, double now_s) noexcept:
        cdef double passed_s = now_s - self._since_s
        cdef resource_t* resource = self._resources
        cdef Py_ssize_t index
        self._since_s = now_s
        for index in range(len(self._amounts)):
            if resource[index].amount != 0:
                resource[index].integral += resource[index].amount * passed_s

    def settle(self, double now_s):
        """Complete the integrals up to a time, which must not be before that of the last call."""
        self._settle(now_s)

    def change(self, tuple parts not None, int sign, double now_s, list limits not None):
        """Settle, then add the parts, (resource index, amount), or subtract them if `sign` is negative.

        Returns True if one of the resources that they name is above its limit then. Raises IndexError for an index that
        is out of range, here or in `limits`.
        """
        cdef bint is_above = False
        cdef Py_ssize_t index, resources = min(len(self._amounts), len(limits))
        for part in parts:
            index = (<tuple>part)[0]
            if not 0 <= index < resources:
                raise IndexError(f"resource {index}: expected one of {resources}")
        self._settle(now_s)
        for part in parts:
            index = (<tuple>part)[0]
            amount = (<tuple>part)[1]
            after = self._amounts[index] - amount if sign < 0 else self._amounts[index] + amount
            self._resources[index].amount = <double>after
            self._amounts[index] = after
            if after > limits[index]:
                is_above = True
        return is_above
