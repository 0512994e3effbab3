# codes.py for the compiler: names and values must be the same, tests/fast/test_codes.py compares them.

from libc.stdint cimport int64_t

cdef enum:
    CPU = 0
    MEMORY = 1
    EPHEMERAL_STORAGE = 2
    FEASIBLE = 0
    MAX_CODE = 200
    NOT_EXAMINED = 254
    NO_NODE = 255
    NOBODY = 252
    TOO_MANY_PODS = 1
    MAX_ENTRIES = 1024
    ENTRY_BITS = 60
    MAX_SCORED_RESOURCES = 64
    MAX_WEIGHT = 2147483647
    MAX_CLASS_WEIGHT = 21474836
    MAX_TEXT = 8000
    CLASSES_TOGETHER = 8
    PENALTY = 1000
    STOPPED = 0
    NOTHING_LEFT = 1
    TIME_STANDS_STILL = 2
    MANY_TIMERS = 1024

# An enum's constants are C ints; these are wider.
cdef extern from *:
    """
    #include <stdint.h>
    #define KS_UNRESOLVABLE ((int64_t)1 << 62)
    #define KS_MAX_AMOUNT ((int64_t)1 << 62)
    #define KS_MAX_RAW ((int64_t)1 << 53)
    """
    const int64_t UNRESOLVABLE "KS_UNRESOLVABLE"
    const int64_t MAX_AMOUNT "KS_MAX_AMOUNT"
    const int64_t MAX_RAW "KS_MAX_RAW"
