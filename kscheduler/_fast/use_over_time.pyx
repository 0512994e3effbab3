"""Amounts of resources in use, and their integrals over time, for the accounts of a simulation."""

cimport cython


@cython.final
cdef class UseOverTime:
    """The amounts of several resources that are in use, exact integers, and their integrals over time."""

    cdef list _amounts  # by resource index
    cdef list _integrals
    cdef double _since_s

    def __cinit__(self, Py_ssize_t resources, double since_s):
        """Build accounts of so many resources, of which nothing is in use from `since_s` on."""
        self._amounts = [0] * resources
        self._integrals = [0.0] * resources
        self._since_s = since_s

    @property
    def amounts(self):
        """The amounts in use by resource index; not to be changed."""
        return self._amounts

    @property
    def integrals(self):
        """Amount × seconds by resource index, up to the last change or `settle`; not to be changed."""
        return self._integrals

    def add_resource(self):
        """Add a resource of which nothing is in use; its index is the number of those before it."""
        self._amounts.append(0)
        self._integrals.append(0.0)

    def settle(self, double now_s):
        """Complete the integrals up to a time, which must not be before that of the last call."""
        cdef double passed_s = now_s - self._since_s
        cdef Py_ssize_t index
        self._since_s = now_s
        for index in range(len(self._amounts)):
            amount = self._amounts[index]
            if amount:
                self._integrals[index] = <double>self._integrals[index] + <double>amount * passed_s

    def change(self, tuple parts not None, int sign, double now_s, list limits not None):
        """Settle, then add the parts, (resource index, amount), or subtract them if `sign` is negative.

        Returns True if one of the resources that they name is above its limit then. Raises IndexError for an index that
        is out of range, here or in `limits`.
        """
        cdef bint is_above = False
        cdef Py_ssize_t index, resources = min(len(self._amounts), len(limits))
        for index, amount in parts:
            if not 0 <= index < resources:
                raise IndexError(f"resource {index}: expected one of {resources}")
        self.settle(now_s)
        for index, amount in parts:
            after = self._amounts[index] - amount if sign < 0 else self._amounts[index] + amount
            self._amounts[index] = after
            if after > limits[index]:
                is_above = True
        return is_above
