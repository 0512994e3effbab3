"""Counts of pods by topology domain: sums counters by row to sums by domain, and makes verdicts and scores of them.

Domains are numbered by the caller: `ids` is array('i'), row -> domain, -1 without one; counters are array('q'), row ->
number of pods.
"""

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBuffer_Release, PyObject_GetBuffer
from cython cimport view
from libc.math cimport round
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from kscheduler._fast.checks cimport within
from kscheduler._fast.codes cimport FEASIBLE, MAX_CODE, MAX_RAW, MAX_WEIGHT
from kscheduler._fast.columns cimport NodeColumns
from kscheduler._fast.scoring cimport Scores
from kscheduler._fast.typedefs cimport amount_t, code_t, detail_t, node_class_t, row_t, score_t
from kscheduler._fast.verdicts cimport Verdicts

cdef object _INT32_MAX = (1 << 31) - 1
cdef object _INT64_MAX = (1 << 63) - 1

# What the loops over rows answer when they meet a domain that there is no sum for.
cdef enum:
    FINE = -1


@cython.final
cdef class RowMask:
    """A set of rows (nodes)."""

    def __cinit__(self):
        self.inside = view.array(shape=(1,), itemsize=sizeof(code_t), format="B")

    cdef int _hold(self, Py_ssize_t rows) except -1:
        if self.inside.shape[0] < rows:
            self.inside = view.array(shape=(2 * rows,), itemsize=sizeof(code_t), format="B")
        self.rows = rows
        return 0

    cdef int check_rows(self, Py_ssize_t rows) except -1:
        if self.rows < rows:
            raise ValueError(f"mask: expected at least {rows} rows, got {self.rows}")
        return 0

    def take_alive(self, NodeColumns columns not None):
        """Set the mask to all rows that hold a node."""
        self._hold(columns.rows)
        if self.rows:
            memcpy(&self.inside[0], &columns.alive[0], self.rows * sizeof(code_t))

    def take_feasible(self, Verdicts verdicts not None):
        """Set the mask to all rows (nodes) that are still feasible."""
        self._hold(verdicts.rows)
        with nogil:
            _take_feasible(verdicts.codes, self.inside, self.rows)

    def take(self, RowMask other not None):
        """Set the mask to the rows (nodes) of another mask."""
        self._hold(other.rows)
        if self.rows:
            memcpy(&self.inside[0], &other.inside[0], self.rows * sizeof(code_t))

    def drop_without_domain(self, const int[::1] ids not None):
        _check_length("ids", ids.shape[0], self.rows)
        with nogil:
            _drop_without_domain(ids, self.inside, self.rows)

    def drop_node_classes(self, NodeColumns columns not None, verdict_by_node_class):
        """Remove the nodes whose node class has a verdict other than 0 (one byte for each class).

        A node class has the nodes with equal labels and taints.
        """
        if columns.rows < self.rows:
            raise ValueError(f"mask has {self.rows} rows, these columns {columns.rows}")
        cdef Py_buffer buffer
        cdef row_t bad
        PyObject_GetBuffer(verdict_by_node_class, &buffer, PyBUF_ND | PyBUF_FORMAT)
        try:
            if buffer.itemsize != 1 or buffer.ndim != 1:
                raise ValueError(f"verdict_by_node_class: expected single bytes, got items of {buffer.itemsize}")
            with nogil:
                bad = _drop_node_classes(
                    columns.node_classes, <const unsigned char*>buffer.buf, buffer.len, self.inside, self.rows
                )
            if bad != FINE:
                raise IndexError(
                    f"row {bad} has node class {columns.node_classes[bad]}, there are values for {buffer.len}"
                )
        finally:
            PyBuffer_Release(&buffer)

    def drop_rows(self, const unsigned char[::1] refused not None):
        """Remove the rows (nodes) whose byte is not 0."""
        _check_length("refused", refused.shape[0], self.rows)
        with nogil:
            _drop_rows(refused, self.inside, self.rows)

    def __contains__(self, row):
        return 0 <= row < self.rows and self.inside[<row_t>row] != 0

    def __len__(self):
        cdef row_t row, count = 0
        for row in range(self.rows):
            count += self.inside[row]
        return count


@cython.final
cdef class DomainSums:
    """A sum for each domain of one topology key. `sum_by_domain` fills it, as often as needed."""

    def __cinit__(self):
        self._allocate(1)

    cdef int _allocate(self, Py_ssize_t capacity) except -1:
        marks = view.array(shape=(capacity,), itemsize=sizeof(code_t), format="B")
        self.sums = view.array(shape=(capacity,), itemsize=sizeof(amount_t), format="q")
        self.marks = marks
        return 0

    cdef int _hold(self, Py_ssize_t domains) except -1:
        """Make room for this many domains, with zero sums."""
        if self.sums.shape[0] < domains:
            self._allocate(2 * domains)
        self.domains = domains
        self.present = 0
        self.minimum = 0
        memset(&self.sums[0], 0, domains * sizeof(amount_t))
        memset(&self.marks[0], 0, domains * sizeof(code_t))
        return 0

    def sum_of(self, domain):
        return self.sums[<Py_ssize_t>within("domain", domain, 0, self.domains - 1)]

    def is_present(self, domain):
        return self.marks[<Py_ssize_t>within("domain", domain, 0, self.domains - 1)] != 0


@cython.final
cdef class RowTotals:
    """A sum of doubles for each row (node): PodTopologySpread's score before rounding."""

    def __cinit__(self):
        self.values = view.array(shape=(1,), itemsize=sizeof(double), format="d")

    def reset(self, NodeColumns columns not None):
        if self.values.shape[0] < columns.rows:
            self.values = view.array(shape=(columns.capacity,), itemsize=sizeof(double), format="d")
        self.rows = columns.rows
        memset(&self.values[0], 0, self.rows * sizeof(double))

    def value(self, row):
        return self.values[<row_t>within("row", row, 0, self.rows - 1)]


# --- sums ---


def sum_by_domain(
    DomainSums sums not None, const int64_t[::1] counts, const int[::1] ids not None, domains, RowMask mask not None,
    missing=-1,
):
    """Sum the counts of the rows (nodes) in the mask by topology domain into `sums`.

    Also record which domains have such a row; with `counts` None that is all. Rows without a domain count for the
    domain `missing`, or not at all if that is -1. Returns the number of domains that have a row in the mask.
    """
    cdef Py_ssize_t count = within("domains", domains, 0, _INT32_MAX)
    cdef int absent = within("missing", missing, -1, count - 1)
    _check_length("ids", ids.shape[0], mask.rows)
    if counts is not None:
        _check_length("counts", counts.shape[0], mask.rows)
    sums._hold(count)
    cdef row_t bad
    with nogil:
        if counts is None:
            bad = _mark(ids, mask.inside, mask.rows, absent, sums.marks, count)
        else:
            bad = _sum(counts, ids, mask.inside, mask.rows, absent, sums.sums, sums.marks, count)
    if bad != FINE:
        raise _no_sum(bad, ids[bad], count)
    with nogil:
        sums.present = _present(sums.marks, count)
        sums.minimum = _minimum(sums.sums, sums.marks, count)
    return sums.present


# --- filters ---


def filter_skew(
    Verdicts verdicts not None, DomainSums sums not None, const int[::1] ids not None, code, most, missing_detail,
    skewed_detail,
):
    """Reject rows (nodes) without a topology domain, or whose domain's sum is above `most`.

    `missing_detail` and `skewed_detail` are the reason numbers of the two. Returns the number of feasible nodes left.
    """
    cdef code_t c_code = _reason(code, missing_detail)
    _reason(code, skewed_detail)
    cdef amount_t highest = within("most", most, -_INT64_MAX, _INT64_MAX)
    return _filter(verdicts, sums, ids, c_code, True, missing_detail, False, 0, highest, skewed_detail)


def filter_outside(Verdicts verdicts not None, DomainSums sums not None, const int[::1] ids not None, code, detail):
    """Reject rows (nodes) without a topology domain, or whose domain's sum is not above 0.

    Returns the number of feasible nodes left.
    """
    cdef code_t c_code = _reason(code, detail)
    return _filter(verdicts, sums, ids, c_code, True, detail, True, 1, _INT64_MAX, detail)


def filter_inside(Verdicts verdicts not None, DomainSums sums not None, const int[::1] ids not None, code, detail):
    """Reject rows (nodes) whose topology domain has a sum above 0. Returns the number of feasible nodes left."""
    cdef code_t c_code = _reason(code, detail)
    return _filter(verdicts, sums, ids, c_code, False, 0, False, 0, 0, detail)


def filter_without_domain(Verdicts verdicts not None, const int[::1] ids not None, code, detail):
    """Reject rows (nodes) that are in no topology domain. Returns the number of feasible nodes left."""
    cdef code_t c_code = _reason(code, detail)
    cdef detail_t c_detail = detail
    _check_length("ids", ids.shape[0], verdicts.rows)
    cdef row_t left
    with nogil:
        left = _without_domain(verdicts.codes, verdicts.details, verdicts.rows, ids, c_code, c_detail)
    return left


# --- scores ---


def add_domain_sums(
    Verdicts verdicts not None, Scores scores not None, DomainSums sums not None, const int[::1] ids not None, weight
):
    """Add to the raw score of every feasible row (node) the sum of its topology domain times `weight`.

    Rows without a domain get nothing. ValueError if a raw score is beyond MAX_RAW; the rows before that one have then
    been changed.
    """
    scores.check_verdicts(verdicts)
    cdef score_t c_weight = within("weight", weight, -MAX_WEIGHT, MAX_WEIGHT)
    _check_length("ids", ids.shape[0], verdicts.rows)
    cdef row_t bad
    with nogil:
        bad = _without_sum(verdicts.codes, verdicts.rows, ids, sums.domains)
    if bad != FINE:
        raise _no_sum(bad, ids[bad], sums.domains)
    with nogil:
        bad = _add_sums(verdicts.codes, scores.raws, verdicts.rows, ids, sums.sums, c_weight)
    if bad != FINE:
        raise ValueError(f"row {bad}: raw score beyond {MAX_RAW}")


def normalize_range(Verdicts verdicts not None, Scores scores not None):
    """Normalise like InterPodAffinity: the lowest raw score becomes 0, the highest 100; if all are equal, 0.

    The result is computed in doubles and truncated.
    """
    scores.check_verdicts(verdicts)
    with nogil:
        _normalize_range(verdicts.codes, scores.raws, verdicts.rows)


def add_spread(
    Verdicts verdicts not None, RowTotals totals not None, DomainSums sums not None, const int[::1] ids not None,
    double weight, max_skew,
):
    """Add PodTopologySpread's score by one constraint to the total of each feasible row (node) with a topology domain.

    It is the domain's sum * weight + (max_skew - 1).
    """
    cdef double allowance = <double>(within("max_skew", max_skew, 1, _INT32_MAX) - 1)
    _check_length("ids", ids.shape[0], verdicts.rows)
    _check_length("totals", totals.rows, verdicts.rows)
    cdef row_t bad
    with nogil:
        bad = _without_sum(verdicts.codes, verdicts.rows, ids, sums.domains)
    if bad != FINE:
        raise _no_sum(bad, ids[bad], sums.domains)
    with nogil:
        _add_spread(verdicts.codes, totals.values, verdicts.rows, ids, sums.sums, weight, allowance)


def add_spread_by_row(
    Verdicts verdicts not None, RowTotals totals not None, const int64_t[::1] counts not None,
    const int[::1] ids not None, double weight, max_skew,
):
    """Add like `add_spread`, but with the count of the row (node) itself: so kube-scheduler spreads over hostnames."""
    cdef double allowance = <double>(within("max_skew", max_skew, 1, _INT32_MAX) - 1)
    _check_length("ids", ids.shape[0], verdicts.rows)
    _check_length("counts", counts.shape[0], verdicts.rows)
    _check_length("totals", totals.rows, verdicts.rows)
    with nogil:
        _add_spread_by_row(verdicts.codes, totals.values, verdicts.rows, ids, counts, weight, allowance)


def score_spread(Verdicts verdicts not None, Scores scores not None, RowTotals totals not None, RowMask mask not None):
    """Set raw scores to the totals (PodTopologySpread's scores before rounding), halves rounded away from zero.

    Feasible rows (nodes) outside the mask get 0.
    """
    scores.check_verdicts(verdicts)
    mask.check_rows(verdicts.rows)
    _check_length("totals", totals.rows, verdicts.rows)
    with nogil:
        _score_spread(verdicts.codes, scores.raws, verdicts.rows, totals.values, mask.inside)


def normalize_spread(Verdicts verdicts not None, Scores scores not None, RowMask mask not None):
    """Set feasible rows (nodes) in the mask to 100 * (highest + lowest - raw) / highest, or 100 if `highest` is 0.

    Others get 0. Lowest and highest are those of the raw scores in the mask.
    """
    scores.check_verdicts(verdicts)
    mask.check_rows(verdicts.rows)
    with nogil:
        _normalize_spread(verdicts.codes, scores.raws, verdicts.rows, mask.inside)


# --- checks ---


cdef int _check_length(str what, Py_ssize_t length, Py_ssize_t rows) except -1:
    if length < rows:
        raise ValueError(f"{what}: expected at least {rows} rows, got {length}")
    return 0


cdef int _reason(code, detail) except -1:
    within("detail", detail, 0, _INT64_MAX)
    return within("code", code, 1, MAX_CODE)


cdef object _no_sum(row_t row, Py_ssize_t domain, Py_ssize_t domains):
    return IndexError(f"row {row} is in domain {domain}, there are sums for {domains}")


# --- loops over rows ---


cdef int _take_feasible(const code_t[::1] codes, code_t[::1] inside, row_t rows) except -1 nogil:
    cdef row_t row
    for row in range(rows):
        inside[row] = codes[row] == FEASIBLE
    return 0


cdef int _drop_without_domain(const int[::1] ids, code_t[::1] inside, row_t rows) except -1 nogil:
    cdef row_t row
    for row in range(rows):
        inside[row] &= ids[row] >= 0
    return 0


cdef row_t _drop_node_classes(
    const node_class_t[::1] node_classes, const unsigned char* verdicts, Py_ssize_t count,
    code_t[::1] inside, row_t rows
) except? -2 nogil:
    cdef row_t row
    for row in range(rows):
        if inside[row]:
            if not 0 <= node_classes[row] < count:
                return row
            inside[row] = verdicts[node_classes[row]] == 0
    return FINE


cdef int _drop_rows(const unsigned char[::1] refused, code_t[::1] inside, row_t rows) except -1 nogil:
    cdef row_t row
    for row in range(rows):
        inside[row] &= refused[row] == 0
    return 0


cdef row_t _mark(
    const int[::1] ids, const code_t[::1] inside, row_t rows, int missing, code_t[::1] marks, Py_ssize_t domains
) except? -2 nogil:
    cdef row_t row
    cdef int domain
    for row in range(rows):
        if inside[row]:
            domain = ids[row] if ids[row] >= 0 else missing
            if domain >= domains:
                return row
            if domain >= 0:
                marks[domain] = 1
    return FINE


cdef row_t _sum(
    const int64_t[::1] counts,
    const int[::1] ids,
    const code_t[::1] inside,
    row_t rows,
    int missing,
    amount_t[::1] sums,
    code_t[::1] marks,
    Py_ssize_t domains,
) except? -2 nogil:
    cdef row_t row
    cdef int domain
    for row in range(rows):
        if inside[row]:
            domain = ids[row] if ids[row] >= 0 else missing
            if domain >= domains:
                return row
            if domain >= 0:
                sums[domain] += counts[row]
                marks[domain] = 1
    return FINE


cdef Py_ssize_t _present(const code_t[::1] marks, Py_ssize_t domains) except? -1 nogil:
    cdef Py_ssize_t domain, present = 0
    for domain in range(domains):
        present += marks[domain]
    return present


cdef amount_t _minimum(const amount_t[::1] sums, const code_t[::1] marks, Py_ssize_t domains) except? -1 nogil:
    cdef Py_ssize_t domain
    cdef amount_t lowest = 0
    cdef bint found = False
    for domain in range(domains):
        if marks[domain] and (not found or sums[domain] < lowest):
            lowest = sums[domain]
            found = True
    return lowest


cdef row_t _without_sum(
    const code_t[::1] codes, row_t rows, const int[::1] ids, Py_ssize_t domains
) except? -2 nogil:
    """Return the first feasible row in a domain without a sum, or FINE."""
    cdef row_t row
    for row in range(rows):
        if codes[row] == FEASIBLE and ids[row] >= domains:
            return row
    return FINE


cdef object _filter(
    Verdicts verdicts,
    DomainSums sums,
    const int[::1] ids,
    code_t code,
    bint needs_domain,
    detail_t missing_detail,
    bint has_least,
    amount_t least,
    amount_t most,
    detail_t detail,
):
    """Reject the rows whose domain's sum is not within `least` (if there is one) and `most`."""
    _check_length("ids", ids.shape[0], verdicts.rows)
    cdef row_t bad, left
    with nogil:
        bad = _without_sum(verdicts.codes, verdicts.rows, ids, sums.domains)
    if bad != FINE:
        raise _no_sum(bad, ids[bad], sums.domains)
    with nogil:
        left = _keep_between(
            verdicts.codes, verdicts.details, verdicts.rows, ids, sums.sums, code, needs_domain, missing_detail,
            has_least, least, most, detail,
        )
    return left


cdef row_t _keep_between(
    code_t[::1] codes,
    detail_t[::1] details,
    row_t rows,
    const int[::1] ids,
    const amount_t[::1] sums,
    code_t code,
    bint needs_domain,
    detail_t missing_detail,
    bint has_least,
    amount_t least,
    amount_t most,
    detail_t detail,
) except? -1 nogil:
    cdef row_t row, left = 0
    cdef amount_t found
    for row in range(rows):
        if codes[row] != FEASIBLE:
            continue
        if ids[row] < 0:
            if needs_domain:
                codes[row] = code
                details[row] = missing_detail
            else:
                left += 1
            continue
        found = sums[ids[row]]
        if found > most or (has_least and found < least):
            codes[row] = code
            details[row] = detail
        else:
            left += 1
    return left


cdef row_t _without_domain(
    code_t[::1] codes, detail_t[::1] details, row_t rows, const int[::1] ids, code_t code, detail_t detail
) except? -1 nogil:
    cdef row_t row, left = 0
    for row in range(rows):
        if codes[row] != FEASIBLE:
            continue
        if ids[row] < 0:
            codes[row] = code
            details[row] = detail
        else:
            left += 1
    return left


cdef row_t _add_sums(
    const code_t[::1] codes, score_t[::1] raws, row_t rows, const int[::1] ids, const amount_t[::1] sums, score_t weight
) except? -2 nogil:
    cdef row_t row
    cdef score_t raw
    # A sum within this, times the weight, cannot pass 2^63.
    cdef amount_t limit = MAX_RAW // (weight if weight > 0 else -weight) if weight else MAX_RAW
    for row in range(rows):
        if codes[row] == FEASIBLE and ids[row] >= 0:
            if not -limit <= sums[ids[row]] <= limit:
                return row
            raw = raws[row] + weight * sums[ids[row]]
            if not -MAX_RAW <= raw <= MAX_RAW:
                return row
            raws[row] = raw
    return FINE


cdef int _normalize_range(const code_t[::1] codes, score_t[::1] raws, row_t rows) except -1 nogil:
    cdef row_t row
    cdef score_t lowest = 0, highest = 0
    cdef bint found = False
    for row in range(rows):
        if codes[row] == FEASIBLE:
            if not found or raws[row] < lowest:
                lowest = raws[row]
            if not found or raws[row] > highest:
                highest = raws[row]
            found = True
    for row in range(rows):
        if codes[row] == FEASIBLE:
            if highest > lowest:
                raws[row] = <score_t>(100.0 * (<double>(raws[row] - lowest) / <double>(highest - lowest)))
            else:
                raws[row] = 0
    return 0


cdef int _add_spread(
    const code_t[::1] codes,
    double[::1] totals,
    row_t rows,
    const int[::1] ids,
    const amount_t[::1] sums,
    double weight,
    double allowance,
) except -1 nogil:
    cdef row_t row
    for row in range(rows):
        if codes[row] == FEASIBLE and ids[row] >= 0:
            totals[row] += <double>sums[ids[row]] * weight + allowance
    return 0


cdef int _add_spread_by_row(
    const code_t[::1] codes,
    double[::1] totals,
    row_t rows,
    const int[::1] ids,
    const int64_t[::1] counts,
    double weight,
    double allowance,
) except -1 nogil:
    cdef row_t row
    for row in range(rows):
        if codes[row] == FEASIBLE and ids[row] >= 0:
            totals[row] += <double>counts[row] * weight + allowance
    return 0


cdef int _score_spread(
    const code_t[::1] codes, score_t[::1] raws, row_t rows, const double[::1] totals, const code_t[::1] inside
) except -1 nogil:
    cdef row_t row
    for row in range(rows):
        if codes[row] == FEASIBLE:
            raws[row] = <score_t>round(totals[row]) if inside[row] else 0
    return 0


cdef int _normalize_spread(
    const code_t[::1] codes, score_t[::1] raws, row_t rows, const code_t[::1] inside
) except -1 nogil:
    cdef row_t row
    cdef score_t lowest = MAX_RAW, highest = 0
    for row in range(rows):
        if codes[row] == FEASIBLE and inside[row]:
            lowest = min(lowest, raws[row])
            highest = max(highest, raws[row])
    for row in range(rows):
        if codes[row] != FEASIBLE:
            continue
        if not inside[row]:
            raws[row] = 0
        elif highest == 0:
            raws[row] = 100
        else:
            raws[row] = 100 * (highest + lowest - raws[row]) // highest
    return 0
