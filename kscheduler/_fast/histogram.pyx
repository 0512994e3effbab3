"""Histograms of the metrics endpoint: the number of observed values in each bucket."""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free


@cython.final
cdef class Histogram:
    """The number of observed values in each bucket; a value equal to a bound belongs to the bucket below it."""

    cdef tuple _bounds
    cdef double* _upper
    cdef long long* _counts
    cdef Py_ssize_t _size  # buckets with a bound
    cdef double _sum

    def __cinit__(self, tuple bounds not None):
        """Build a histogram with these upper bounds, ascending; one more bucket holds the values above the last."""
        cdef Py_ssize_t index
        self._bounds = bounds
        self._size = len(bounds)
        self._upper = <double*>PyMem_Calloc(self._size + 1, sizeof(double))
        self._counts = <long long*>PyMem_Calloc(self._size + 1, sizeof(long long))
        if self._upper is NULL or self._counts is NULL:
            raise MemoryError
        for index in range(self._size):
            self._upper[index] = bounds[index]

    def __dealloc__(self):
        PyMem_Free(self._upper)
        PyMem_Free(self._counts)

    @property
    def bounds(self):
        """Return the upper bounds of all buckets but the last."""
        return self._bounds

    @property
    def counts(self):
        """Return the number of values in each bucket, not cumulative."""
        return [self._counts[index] for index in range(self._size + 1)]

    @property
    def sum(self):
        """Return the sum of all values."""
        return self._sum

    @property
    def count(self):
        """Return the number of all values."""
        return sum(self.counts)

    def observe(self, double value):
        """Count a value."""
        self._counts[self._bucket(value)] += 1
        self._sum += value

    def observe_many(self, double value, long long times):
        """Count `value` `times` times, such as the duration that the members of a batch share."""
        self._counts[self._bucket(value)] += times
        self._sum += value * times

    cdef inline Py_ssize_t _bucket(self, double value) noexcept:
        """Return the first bucket whose bound is not below the value; for NaN the first bucket, as with bisect_left."""
        cdef Py_ssize_t index = 0
        while index < self._size and self._upper[index] < value:
            index += 1
        return index
