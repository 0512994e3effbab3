# What the def wrappers ask of their arguments. Messages say what was expected and what came.

from kscheduler._fast.typedefs cimport amount_t


cdef inline amount_t within(str what, object value, object low, object high) except? -1:
    """Return a Python integer in low..high as a C integer; ValueError otherwise."""
    if not low <= value <= high:
        raise ValueError(f"{what}: expected {low}..{high}, got {value}")
    return value


cdef inline int index(str what, object value, Py_ssize_t count) except -1:
    """Raise IndexError unless 0 <= value < count."""
    if not 0 <= value < count:
        if count == 0:
            raise IndexError(f"{what} {value}: the table is empty")
        raise IndexError(f"{what} {value} outside 0..{count - 1}")
    return 0
