# The ranking of a table's rows for a pod class: totals, and the best of them by blocks of rows and groups of blocks.

from libc.stdint cimport int32_t

from kscheduler._fast.answers cimport AnswersC
from kscheduler._fast.classes cimport GROUP, ClassC
from kscheduler._fast.codes cimport CLASSES_TOGETHER
from kscheduler._fast.totals cimport BLOCK, NOT_KNOWN, BestC, exchange, exchange_row, set_total
from kscheduler._fast.typedefs cimport amount_t, node_class_t, row_t, score_t


cdef struct TableC:
    # Addresses of the columns, valid while no row is added.
    const amount_t* allocated  # [resource * stride + row]
    const amount_t* used
    const amount_t* used_cpu
    const amount_t* used_memory
    const amount_t* pods
    const amount_t* pods_allowed
    const node_class_t* node_classes
    const unsigned char* alive
    Py_ssize_t stride
    row_t rows
    Py_ssize_t resources


cdef struct FoundC:
    # What one thread has found for one class.
    Py_ssize_t* feasible_in
    Py_ssize_t feasible
    bint has_alone  # some row needs the integer formulas
    bint is_bad  # some row's node class has no verdict


cdef struct PartC:
    # What one thread needs to score rows of some classes, a share at a time until none is left, and its results.
    ClassC** classes
    Py_ssize_t count
    const TableC* table
    row_t* next  # the first row that no thread has taken yet
    row_t share  # rows to take at once, whole chunks
    double* numbers  # buffer for a chunk
    unsigned char* filled  # [resource] whether its numbers are those of the present chunk
    Py_ssize_t* counts  # memory that `feasible_in` of a thread of its own points into
    FoundC found[CLASSES_TOGETHER]
    char apart[64]  # keeps what different threads write in different cache lines


cdef row_t share_of_rows(Py_ssize_t classes) noexcept nogil
cdef bint begin_part(Py_ssize_t worker, PartC* part) noexcept nogil
cdef bint end_part(Py_ssize_t worker, PartC* part) noexcept nogil
cdef void look_at_part(void* part) noexcept nogil
cdef int assume_all_feasible(ClassC* c) noexcept nogil
cdef int renormalize(ClassC* c, const TableC* table) noexcept nogil
cdef int apply_totals(
    ClassC* c, const int32_t* rows, const int32_t* totals, const node_class_t* node_classes, Py_ssize_t count
) noexcept nogil
cdef int add_node_classes(
    const ClassC* c, int32_t* totals, const node_class_t* node_classes, Py_ssize_t count
) noexcept nogil
cdef bint matters(const ClassC* c, node_class_t node_class) noexcept nogil
cdef int survey_again(ClassC* c, Py_ssize_t block) noexcept nogil
cdef int clear_rest(ClassC* c, row_t rows) noexcept nogil
cdef BestC find_best(ClassC* c) noexcept nogil
cdef row_t nth_best(const ClassC* c, int32_t best, Py_ssize_t skipped) noexcept nogil


# --- one row more or less ---


cdef inline row_t own_scores_end(const ClassC* c, row_t end) noexcept nogil:
    """Return the first row, at most `end`, from which on rows have no scores or marks of their own."""
    cdef Py_ssize_t i
    cdef row_t most = end if c.asked_count or c.ruled_count or c.inside is not NULL else 0
    for i in range(c.row_list_count):
        most = max(most, c.row_lists[i].count)
    return min(most, end)


cdef inline score_t row_score(const ClassC* c, row_t row) noexcept nogil:
    """Return the weighted sum of the row's own scores; -1 if the row is marked as rejected, or is outside."""
    cdef Py_ssize_t i
    cdef score_t total = 0
    cdef const AnswersC* answers
    if c.inside is not NULL and (row >= c.inside_count or not c.inside[row]):
        return -1
    for i in range(c.row_list_count):
        if row < c.row_lists[i].count:
            total += c.row_lists[i].weight * c.row_lists[i].scores[row]
    for i in range(c.asked_count):
        answers = c.asked[i].answers
        if row >= answers.rows:
            continue
        if answers.scores is not NULL:
            total += c.asked[i].weight * answers.scores[row]
        elif answers.marks is not NULL and answers.marks[row]:
            return -1
    for i in range(c.ruled_count):
        if c.ruled[i].filters and c.ruled[i].rules.marks[row]:
            return -1
        total += c.ruled[i].weight * c.ruled[i].rules.points[row]
    return total


cdef inline int32_t with_row_score(const ClassC* c, row_t row, int32_t total) noexcept nogil:
    """Return the total of a feasible row plus its own scores; -1 if the row is marked as rejected."""
    cdef score_t own = row_score(c, row)
    return total + <int32_t>own if own >= 0 else -1


cdef inline void mark_stale(ClassC* c, Py_ssize_t group) noexcept nogil:
    """Note that a group has to be surveyed. Until then what is left of it may be next after the best of all."""
    if c.best.next.total < c.groups[group].best.total:
        c.best.next.total = NOT_KNOWN
        c.best.next.ties = 0
    if not c.is_stale[group]:
        c.is_stale[group] = 1
        c.stale[c.stale_count] = <int32_t>group
        c.stale_count = c.stale_count + 1


cdef inline void pass_on(ClassC* c, Py_ssize_t block, BestC before) noexcept nogil:
    """Count a block's best, which was `before`, in its group, and the group's in all."""
    cdef Py_ssize_t group = block // GROUP
    cdef BestC group_before = c.groups[group].best
    if before.total == c.blocks[block].total and before.ties == c.blocks[block].ties:
        return
    exchange(&c.groups[group], before, c.blocks[block])
    if c.groups[group].best.ties == 0:
        mark_stale(c, group)
    exchange(&c.best, group_before, c.groups[group].best)


cdef inline void take_out(ClassC* c, row_t row, int32_t total, node_class_t node_class) noexcept nogil:
    """Stop counting a row. A block that lost its best rows must be surveyed after all rows have come and gone."""
    cdef Py_ssize_t block = row // BLOCK
    cdef BestC before = c.blocks[block]
    c.feasible = c.feasible - 1
    exchange_row(&c.blocks[block], total, -1)
    pass_on(c, block, before)
    if c.is_uneven:
        c.feasible_in[node_class] = c.feasible_in[node_class] - 1
        if c.feasible_in[node_class] == 0:
            c.must_normalize = c.must_normalize or matters(c, node_class)


cdef inline void put_in(ClassC* c, row_t row, int32_t total, node_class_t node_class) noexcept nogil:
    cdef Py_ssize_t block = row // BLOCK
    cdef BestC before = c.blocks[block]
    set_total(&c.totals, row, total)
    if total < 0:
        return
    c.feasible = c.feasible + 1
    exchange_row(&c.blocks[block], -1, total)
    pass_on(c, block, before)
    if c.is_uneven:
        c.feasible_in[node_class] = c.feasible_in[node_class] + 1
        if c.feasible_in[node_class] == 1:
            c.must_normalize = c.must_normalize or matters(c, node_class)
