# Many rows of the node table side by side as doubles, and how one class of pods filters and scores them at once.
#
# Amounts below 2^46 are doubles exactly, also a hundred times over, and the integer part of a correctly rounded
# quotient of such numbers is the quotient of the integers. So these loops give what the integer formulas in
# scoring.pxd give, without a branch, and compilers turn them into vector instructions. Larger amounts go row by row.

from libc.stdint cimport int32_t

from kscheduler._fast.columns cimport EntryC
from kscheduler._fast.scoring cimport TermC
from kscheduler._fast.strategies cimport Strategy
from kscheduler._fast.typedefs cimport amount_t, score_t

cdef enum:
    CHUNK = 256  # rows: what a chunk holds for two resources, and what is computed from it, stay in the L1 cache
    ALONE = -3  # in place of a score: the row needs the integer formulas

# Quantities of a chunk: first ROOM, then FIELDS for each resource column, in the order of these numbers.
cdef enum:
    ROOM = 0  # how many more pods the node takes
    HAS = 0  # allocatable; 1 if the node has none
    PRESENT = 1  # 1, or 0 if the node has none
    FREE = 2  # allocatable less requested
    USED = 3  # requested
    SCORED = 4  # requested as scoring counts it
    TAKEN = 5  # requested, as a fraction of allocatable, 1 at most
    FIELDS = 6


cdef struct DemandC:
    # What a class of pods asks for and how a row is scored for it: the same on every row.
    const EntryC* entries
    Py_ssize_t entry_count
    Strategy strategy
    TermC* fit
    Py_ssize_t fit_count
    score_t fit_weight
    TermC* balanced
    Py_ssize_t balanced_count
    score_t balanced_weight
    bint is_small  # every amount is
    score_t line[101]  # for RATIO; the last, since it is long and read for few classes


cdef struct ChunkC:
    const double* numbers  # quantity q of row i is at q * stride + i
    Py_ssize_t stride


cdef bint is_small(amount_t amount) noexcept nogil
cdef int score_chunk(const DemandC* demand, const ChunkC* chunk, Py_ssize_t count, int32_t* scores) noexcept nogil
cdef bint fill_resource(
    double* numbers, Py_ssize_t stride, const amount_t* allocatable, const amount_t* used, const amount_t* scored,
    Py_ssize_t count,
) noexcept nogil
cdef bint fill_room(
    double* numbers, const amount_t* pods_allowed, const amount_t* pods, Py_ssize_t count
) noexcept nogil
