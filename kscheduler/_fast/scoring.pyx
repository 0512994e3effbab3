"""Scores of feasible rows: from the columns and one pod, a raw score for each row; then normalised, weighted, summed.

The results are those of kube-scheduler 1.36's formulas, bit for bit.
"""

cimport cython
from cython cimport view
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from kscheduler._fast.checks cimport index, within
from kscheduler._fast.chunks cimport ALONE, CHUNK, FIELDS, ChunkC, DemandC, fill_resource, is_small, score_chunk
from kscheduler._fast.codes cimport (
    CPU,
    EPHEMERAL_STORAGE,
    FEASIBLE,
    MAX_AMOUNT,
    MAX_RAW,
    MAX_SCORED_RESOURCES,
    MAX_WEIGHT,
    MEMORY,
)
from kscheduler._fast.columns cimport NodeColumns, PodRequest
from kscheduler._fast.simd cimport as_double, cloned, in_bytes, in_ints, in_longs, out_longs
from kscheduler._fast.strategies cimport LEAST, MOST, RATIO, Strategy
from kscheduler._fast.typedefs cimport amount_t, code_t, node_class_t, resource_t, row_t, score_t
from kscheduler._fast.verdicts cimport Verdicts

cdef enum:
    WIDTH = 4  # resources that are scored by chunks; a chunk of these stays in the L1 cache


@cython.final
cdef class Scores:
    """For each row (node): the raw score of the current Score plugin, and the weighted total of all plugins before."""

    def __cinit__(self):
        self._allocate(1)

    cdef int _allocate(self, Py_ssize_t capacity) except -1:
        raws = view.array(shape=(capacity,), itemsize=sizeof(score_t), format="q")
        self.totals = view.array(shape=(capacity,), itemsize=sizeof(score_t), format="q")
        self.raws = raws
        return 0

    def reset(self, NodeColumns columns not None):
        """Begin with a new pod: set raw scores and totals to 0 on every row (node)."""
        if self.raws.shape[0] < columns.rows:
            self._allocate(columns.capacity)
        self.rows = columns.rows
        memset(&self.raws[0], 0, self.rows * sizeof(score_t))
        memset(&self.totals[0], 0, self.rows * sizeof(score_t))

    def raw(self, row):
        index("row", row, self.rows)
        return self.raws[<row_t>row]

    def total(self, row):
        index("row", row, self.rows)
        return self.totals[<row_t>row]

    def set_raw(self, row, value):
        index("row", row, self.rows)
        self.raws[<row_t>row] = within("value", value, -MAX_RAW, MAX_RAW)

    def add_total(self, row, value):
        """Add a score without weight to the total of a row (node), such as the score of an extender."""
        index("row", row, self.rows)
        self.totals[<row_t>row] += <score_t>within("value", value, -MAX_AMOUNT, MAX_AMOUNT)

    cdef int check_verdicts(self, Verdicts verdicts) except -1:
        if self.rows < verdicts.rows:
            raise ValueError(f"verdicts have {verdicts.rows} rows, these scores {self.rows}: reset them together")
        return 0


# --- what the node would use ---


cdef Py_ssize_t fill_terms(
    TermC* terms, NodeColumns columns, PodRequest request, object resources, bint with_defaults
) except -1:
    """Fill `terms` from (resource, weight) pairs, without unrequested extended resources. Returns their number."""
    if len(resources) > MAX_SCORED_RESOURCES:
        raise ValueError(f"resources: expected at most {MAX_SCORED_RESOURCES}, got {len(resources)}")
    cdef Py_ssize_t count = 0
    cdef resource_t column
    cdef amount_t amount
    for resource, weight in resources:
        index("resource", resource, columns.resource_count)
        within("weight", weight, 1, MAX_WEIGHT)
        column = resource
        amount = request.amount_of(column)
        if column > EPHEMERAL_STORAGE and amount == 0:
            continue
        if with_defaults and column == CPU:
            amount = request.cpu
        elif with_defaults and column == MEMORY:
            amount = request.memory
        terms[count].resource = column
        terms[count].weight = weight
        terms[count].amount = amount
        count += 1
    return count


# --- NodeResourcesFit ---


def score_least_allocated(
    NodeColumns columns not None, Verdicts verdicts not None, Scores scores not None,
    PodRequest request not None, resources,
):
    """Score like NodeResourcesFit's LeastAllocated: the weighted mean of the free percentages with the pod there.

    `resources` are (resource column, weight). cpu and memory include scoring's defaults for containers without a
    request.
    """
    _score_fit(columns, verdicts, scores, request, resources, LEAST, NULL)


def score_most_allocated(
    NodeColumns columns not None, Verdicts verdicts not None, Scores scores not None,
    PodRequest request not None, resources,
):
    """Score like NodeResourcesFit's MostAllocated: the weighted mean of the used percentages with the pod there."""
    _score_fit(columns, verdicts, scores, request, resources, MOST, NULL)


def score_requested_to_capacity_ratio(
    NodeColumns columns not None, Verdicts verdicts not None, Scores scores not None,
    PodRequest request not None, resources, shape,
):
    """Score like NodeResourcesFit's RequestedToCapacityRatio: the weighted mean of used percentages mapped by `shape`.

    `shape` is a piecewise linear function as configured: points of (utilization 0..100 ascending, score 0..10).
    """
    cdef score_t line[101]
    draw_line(line, shape)
    _score_fit(columns, verdicts, scores, request, resources, RATIO, line)


cdef int _score_fit(
    NodeColumns columns, Verdicts verdicts, Scores scores, PodRequest request, object resources,
    Strategy strategy, const score_t* line,
) except -1:
    cdef TermC terms[MAX_SCORED_RESOURCES]
    verdicts.check_columns(columns)
    scores.check_verdicts(verdicts)
    cdef Py_ssize_t count = fill_terms(terms, columns, request, resources, True)
    cdef DemandC demand
    demand.fit = terms
    demand.fit_count = count
    demand.fit_weight = 1
    demand.strategy = strategy
    demand.balanced_weight = 0
    if line is not NULL:
        memcpy(demand.line, line, sizeof(demand.line))
    with nogil:
        _score_rows(columns, terms, count, &demand, verdicts.codes, scores.raws, verdicts.rows)
    return 0


cdef int _score_rows(
    NodeColumns columns, TermC* terms, Py_ssize_t count, DemandC* demand,
    const code_t[::1] codes, score_t[::1] raws, row_t rows,
) except -1 nogil:
    """Score chunk by chunk; row by row where an amount is large, or resources are many."""
    cdef double numbers[(1 + WIDTH * FIELDS) * CHUNK]
    cdef int32_t scored[CHUNK]
    cdef TermC dense[WIDTH]  # the terms, of a chunk that has only their resources
    cdef ChunkC chunk
    cdef row_t start = 0, row
    cdef Py_ssize_t i, size
    cdef bint by_fit = demand.fit_weight != 0, is_narrow = count <= WIDTH, is_alone
    for i in range(count):
        is_narrow = is_narrow and is_small(terms[i].amount)
    if is_narrow:
        for i in range(count):
            dense[i] = terms[i]
            dense[i].resource = <resource_t>i
        for i in range(CHUNK):
            numbers[i] = 1.0  # there is room for a pod: that is not asked here
    demand.entry_count = 0
    chunk.numbers = numbers
    chunk.stride = CHUNK
    while start < rows:
        size = min(<row_t>CHUNK, rows - start)
        if is_narrow and _fill(columns, terms, count, by_fit, numbers, start, size):
            if by_fit:
                demand.fit = dense
            else:
                demand.balanced = dense
            score_chunk(demand, &chunk, size, scored)
            _take(&codes[start], scored, &raws[start], size)
            is_alone = not by_fit and count > 2
        else:
            is_alone = True
            for i in range(size):
                scored[i] = ALONE
        for i in range(size if is_alone else 0):
            row = start + i
            if scored[i] != ALONE or codes[row] != FEASIBLE:
                continue
            if by_fit:
                raws[row] = fit_of_row(
                    columns.allocated, columns.used, columns.used_cpu, columns.used_memory,
                    terms, count, demand.strategy, demand.line, row,
                )
            else:
                raws[row] = balanced_of_row(columns.allocated, columns.used, terms, count, row)
        start += size
    return 0


cdef cloned _take(in_bytes codes, in_ints scored, out_longs raws, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        raws[i] = scored[i] if codes[i] == FEASIBLE else raws[i]


cdef bint _fill(
    NodeColumns columns, const TermC* terms, Py_ssize_t count, bint with_defaults,
    double* numbers, row_t start, Py_ssize_t size,
) noexcept nogil:
    """Write the terms' resources of these rows as a chunk of doubles. Returns False if an amount is too large."""
    cdef Py_ssize_t i
    cdef resource_t resource
    cdef const amount_t* used
    for i in range(count):
        resource = terms[i].resource
        used = &columns.used[resource, start]
        if with_defaults and resource == CPU:
            used = &columns.used_cpu[start]
        elif with_defaults and resource == MEMORY:
            used = &columns.used_memory[start]
        if not fill_resource(
            numbers + (1 + i * FIELDS) * CHUNK, CHUNK, &columns.allocated[resource, start], used, used, size
        ):
            return False
    return True


cdef int draw_line(score_t* line, object shape) except -1:
    """Write the score, 0..100, for each utilization 0..100 by the shape, which is constant beyond its ends."""
    if not shape:
        raise ValueError("shape: expected at least one point, got none")
    cdef int left = -1, right, at
    cdef score_t left_score = 0, right_score, rise, step
    for utilization, score in shape:
        within("utilization", utilization, left + 1, 100)
        within("score", score, 0, 10)
        right = utilization
        right_score = <score_t>score * 10
        for at in range(left + 1, right + 1):
            rise = 0 if left < 0 else (right_score - left_score) * (at - left)
            # Go divides toward zero, and the line may fall.
            step = 0 if left < 0 else (rise if rise >= 0 else -rise) // (right - left)
            line[at] = right_score if left < 0 else left_score + (step if rise >= 0 else -step)
        left, left_score = right, right_score
    for at in range(left + 1, 101):
        line[at] = left_score
    return 0


# --- NodeResourcesBalancedAllocation ---


def score_balanced(
    NodeColumns columns not None, Verdicts verdicts not None, Scores scores not None,
    PodRequest request not None, resources,
):
    """Score like NodeResourcesBalancedAllocation: 50..100, more if the pod makes the node's used fractions more equal.

    75 is neutral. Amounts are as requested, without scoring's defaults. Doubles are computed in kube-scheduler's order.
    """
    cdef TermC terms[MAX_SCORED_RESOURCES]
    verdicts.check_columns(columns)
    scores.check_verdicts(verdicts)
    cdef Py_ssize_t count = fill_terms(terms, columns, request, [(resource, 1) for resource in resources], False)
    cdef DemandC demand
    demand.balanced = terms
    demand.balanced_count = count
    demand.balanced_weight = 1
    demand.fit_weight = 0
    with nogil:
        _score_rows(columns, terms, count, &demand, verdicts.codes, scores.raws, verdicts.rows)


# --- scores that come from outside ---


def score_node_classes(
    NodeColumns columns not None, Verdicts verdicts not None, Scores scores not None,
    const score_t[::1] value_by_node_class not None,
):
    """Set the raw score of every feasible row to the value of its node class (nodes with equal labels and taints).

    `value_by_node_class` is array('q').
    """
    verdicts.check_columns(columns)
    scores.check_verdicts(verdicts)
    cdef Py_ssize_t node_class, count = value_by_node_class.shape[0]
    for node_class in range(count):
        if not -MAX_RAW <= value_by_node_class[node_class] <= MAX_RAW:
            raise ValueError(
                f"value of node class {node_class}: expected {-MAX_RAW}..{MAX_RAW}, "
                f"got {value_by_node_class[node_class]}"
            )
    cdef row_t bad
    with nogil:
        bad = _without_value(columns.node_classes, verdicts.codes, verdicts.rows, count)
    if bad >= 0:
        raise IndexError(f"row {bad} has node class {columns.node_classes[bad]}, there are values for {count}")
    with nogil:
        _gather(columns.node_classes, value_by_node_class, verdicts.codes, scores.raws, verdicts.rows)


cdef row_t _without_value(
    const node_class_t[::1] node_classes, const code_t[::1] codes, row_t rows, Py_ssize_t count
) except? -2 nogil:
    """Return the first feasible row whose node class has no value, or -1."""
    cdef row_t row
    for row in range(rows):
        if codes[row] == FEASIBLE and not 0 <= node_classes[row] < count:
            return row
    return -1


cdef int _gather(
    const node_class_t[::1] node_classes, const score_t[::1] values,
    const code_t[::1] codes, score_t[::1] raws, row_t rows
) except -1 nogil:
    cdef row_t row
    for row in range(rows):
        if codes[row] == FEASIBLE:
            raws[row] = values[node_classes[row]]
    return 0


def clear_raw(Verdicts verdicts not None, Scores scores not None):
    """Set the raw score of every row (node) to 0, before a plugin that adds to raw scores."""
    scores.check_verdicts(verdicts)
    memset(&scores.raws[0], 0, scores.rows * sizeof(score_t))


def add_to_rows(Scores scores not None, const int[::1] rows not None, amount):
    """Add an amount to the raw scores of these rows (nodes), feasible or not; `rows` is array('i').

    ValueError if a sum is beyond MAX_RAW; the rows before that one have then been changed.
    """
    cdef score_t added = within("amount", amount, -MAX_RAW, MAX_RAW)
    cdef Py_ssize_t i
    cdef score_t result
    for i in range(rows.shape[0]):
        if not 0 <= rows[i] < scores.rows:
            index("row", rows[i], scores.rows)
    for i in range(rows.shape[0]):
        result = scores.raws[rows[i]] + added
        if not -MAX_RAW <= result <= MAX_RAW:
            raise ValueError(f"raw score: expected {-MAX_RAW}..{MAX_RAW}, got {result}")
        scores.raws[rows[i]] = result


def score_images(Verdicts verdicts not None, Scores scores not None, min_threshold, max_threshold):
    """Score like ImageLocality: map raw scores, the bytes of images that a node already has, to 0..100.

    `min_threshold` bytes or less become 0, `max_threshold` or more 100.
    """
    scores.check_verdicts(verdicts)
    cdef score_t low = within("min_threshold", min_threshold, 0, MAX_RAW)
    cdef score_t high = within("max_threshold", max_threshold, min_threshold + 1, MAX_RAW)
    with nogil:
        _images(verdicts.codes, scores.raws, verdicts.rows, low, high)


cdef int _images(const code_t[::1] codes, score_t[::1] raws, row_t rows, score_t low, score_t high) except -1 nogil:
    cdef row_t row
    cdef score_t held
    if rows and is_small(high):
        _shares(&codes[0], &raws[0], rows, low, high, False)
        return 0
    for row in range(rows):
        if codes[row] == FEASIBLE:
            held = min(max(raws[row], low), high)
            raws[row] = percent(held - low, high - low)
    return 0


cdef cloned _shares(
    in_bytes codes, out_longs raws, row_t rows, score_t low, score_t high, bint reverse
) noexcept nogil:
    """Turn raw scores into percentages from `low` to `high`, truncated; those outside count as the nearer end.

    `low` and `high` are small. Only feasible rows are written, without a branch, so that it becomes vector
    instructions.
    """
    cdef row_t row
    cdef score_t held, share
    cdef double begin = <double>low, whole = <double>(high - low)
    for row in range(rows):
        held = raws[row] if raws[row] > low else low
        held = held if held < high else high
        share = <int32_t>((as_double(held) - begin) * 100.0 / whole)
        share = 100 - share if reverse else share
        raws[row] = share if codes[row] == FEASIBLE else raws[row]


# --- from raw to total ---


def normalize(Verdicts verdicts not None, Scores scores not None, bint reverse):
    """Normalise like kube-scheduler's default: raw * 100 / the highest raw, truncated; `reverse`: 100 minus that.

    If no raw score is above 0 they stay as they are, or all become 100 with `reverse`.
    """
    scores.check_verdicts(verdicts)
    with nogil:
        _normalize(verdicts.codes, scores.raws, verdicts.rows, reverse)


cdef int _normalize(const code_t[::1] codes, score_t[::1] raws, row_t rows, bint reverse) except -1 nogil:
    cdef row_t row
    cdef score_t highest = 0, lowest = 0
    for row in range(rows):
        if codes[row] == FEASIBLE:
            highest = raws[row] if raws[row] > highest else highest
            lowest = raws[row] if raws[row] < lowest else lowest
    if highest > 0 and lowest == 0 and is_small(highest):
        _shares(&codes[0], &raws[0], rows, 0, highest, reverse)
        return 0
    for row in range(rows):
        if codes[row] == FEASIBLE:
            raws[row] = normalized(raws[row], highest, reverse)
    return 0


def accumulate(Verdicts verdicts not None, Scores scores not None, weight):
    """Add weight * raw score to the total of each feasible row (node), and return -1.

    If a raw score is not 0..100, add nothing and return the first such row.
    """
    scores.check_verdicts(verdicts)
    cdef score_t c_weight = within("weight", weight, 0, MAX_WEIGHT)
    cdef row_t bad
    with nogil:
        bad = _out_of_range(verdicts.codes, scores.raws, verdicts.rows)
        if bad == -1:
            _accumulate(verdicts.codes, scores.raws, scores.totals, verdicts.rows, c_weight)
    return bad


cdef row_t _out_of_range(const code_t[::1] codes, const score_t[::1] raws, row_t rows) except? -2 nogil:
    """Return the first feasible row whose raw is outside 0..100, or -1."""
    cdef row_t row
    for row in range(rows):
        if codes[row] == FEASIBLE and not 0 <= raws[row] <= 100:
            return row
    return -1


cdef int _accumulate(
    const code_t[::1] codes, const score_t[::1] raws, score_t[::1] totals, row_t rows, score_t weight
) except -1 nogil:
    cdef row_t row
    for row in range(rows):
        if codes[row] == FEASIBLE:
            totals[row] += weight * raws[row]
    return 0
