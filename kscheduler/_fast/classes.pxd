# Invariants. A class that need not be rebuilt has for every row -1 (no room, or no node there) or its total, as of
# change `cursor` of the columns, and what is the best of each block. Rows past the last one are -1.

from libc.stdint cimport int32_t, uint64_t

from kscheduler._fast.answers cimport AnswersC
from kscheduler._fast.chunks cimport DemandC
from kscheduler._fast.columns cimport NodeColumns, PodRequest
from kscheduler._fast.metric_rules cimport RulesC
from kscheduler._fast.totals cimport BestC, RankC, TotalsC
from kscheduler._fast.typedefs cimport amount_t, resource_t, row_t, score_t

cdef enum:
    GROUP = 64  # blocks in a group: as many as rows in a block, for its reasons


cdef struct ShapeC:
    Py_ssize_t rows
    Py_ssize_t blocks
    Py_ssize_t groups


cdef struct ListC:
    # A raw score for each node class, normalised over the rows that are feasible.
    score_t* raws  # [node class] 0..MAX_RAW
    score_t weight
    score_t highest  # highest raw of a feasible row, or 0, by which `by_node_class` is normalised
    bint reverse


cdef struct RowListC:
    # A score for each row, not normalised.
    const unsigned char* scores  # [row] 0..100
    Py_ssize_t count  # rows past it have 0
    score_t weight


cdef struct AskedC:
    # A plugin's answers about rows, which may differ after a row has changed.
    const AnswersC* answers
    score_t weight


cdef struct RuledC:
    # Rules on live metrics, evaluated as rows change.
    RulesC* rules
    bint filters  # marked rows are rejected
    score_t weight


cdef struct ClassC:
    # The pods of the class, beside `demand`.
    amount_t cpu  # request with scoring's defaults for containers without one
    amount_t memory  # likewise
    Py_ssize_t node_class_count
    const unsigned char* verdicts  # [node class] 0: accepted
    ListC* lists
    Py_ssize_t list_count
    bint is_uneven  # scores differ by node class, so normalisation depends on which classes have feasible rows
    RowListC* row_lists
    Py_ssize_t row_list_count
    AskedC* asked
    Py_ssize_t asked_count
    RuledC* ruled
    Py_ssize_t ruled_count
    resource_t* resources  # resource columns that filter or score a row, `resource_count` of them
    Py_ssize_t resource_count
    bint is_narrow  # no total passes 16 bits
    # The rows that the placer was confined to when the results below were computed.
    const unsigned char* inside  # [row] 1: inside; NULL: all rows are. Memory of the placer's
    row_t inside_count  # rows past it are outside
    uint64_t confinement  # its number; 0: none

    # Cached results of the rows.
    TotalsC totals  # by row
    ShapeC shape  # of the allocated memory
    BestC* blocks  # [block] its best; without ties the total may be too high, while changes are read
    RankC* groups  # [group] the best of its blocks
    RankC best  # of all groups
    int32_t* stale  # groups that had no ties once, `stale_count` of them
    Py_ssize_t stale_count
    unsigned char* is_stale  # [group] 1: among them
    int32_t* by_node_class  # [node class] weighted sum of the lists; -1 if that is out. There is a -1 before the first
    int32_t* moves  # [node class] by what totals change when normalisation does
    Py_ssize_t* feasible_in  # [node class] feasible rows; kept if `is_uneven`
    Py_ssize_t feasible  # rows
    Py_ssize_t cursor  # changes read
    Py_ssize_t fetched  # changes for which the rows are in the cache, perhaps
    uint64_t answers_version  # sum of the versions of what is asked that was read
    bint must_rebuild
    bint must_normalize
    Py_ssize_t bytes
    uint64_t last_used

    DemandC demand  # what its pods ask for and how rows are scored for them; it ends with what is seldom read


cdef class PodClass:
    cdef ClassC c
    cdef readonly NodeColumns columns
    cdef readonly PodRequest request
    cdef object owner  # the placer that counts its memory; None while it has none
    cdef object verdicts  # bytes that c.verdicts points to
    cdef list row_scores  # bytes that c.row_lists point to
    cdef list answers  # that c.asked point into
    cdef list rules  # that c.ruled point into
    cdef score_t weights
    cdef bint has_fit
    cdef bint has_balanced
    cdef bint is_used

    cdef int _begin(self) except -1
    cdef score_t _weigh(self, object weight) except -1
    cdef int _score_fit(self, int strategy, object resources, object weight, PodRequest request) except -1
    cdef int _list_resources(self) except -1
    cdef int ask(self) except -1
    cdef int allocate(self) except -1
    cdef int release(self) except -1


cdef ShapeC shape_for(row_t rows) noexcept nogil
cdef Py_ssize_t bytes_needed(const ClassC* c, const ShapeC* shape) noexcept nogil
