"""Filters and scores up to 256 rows (nodes) at once for one pod class, in doubles; chunks.pxd explains why it is exact.

Nothing here checks an index: counts are at most CHUNK, and the caller provides arrays of the right size.
"""

cimport cython
from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t, int64_t, uint64_t

from kscheduler._fast.scoring cimport TermC
from kscheduler._fast.simd cimport as_double, cloned, in_doubles, in_longs, out_bits, out_doubles, out_ints
from kscheduler._fast.strategies cimport LEAST, MOST, RATIO, Strategy
from kscheduler._fast.typedefs cimport amount_t, score_t

cdef enum:
    SMALL_BITS = 46  # 70 Ti; a hundred times 2^46 is below 2^53


cdef bint is_small(amount_t amount) noexcept nogil:
    return -(<amount_t>1 << SMALL_BITS) <= amount < <amount_t>1 << SMALL_BITS


# --- from columns to a chunk ---


cdef bint fill_resource(
    double* numbers, Py_ssize_t stride, const amount_t* allocatable, const amount_t* used, const amount_t* scored,
    Py_ssize_t count,
) noexcept nogil:
    """Write the FIELDS of one resource. Returns False, with invalid fields, if an amount is too large for doubles."""
    cdef uint64_t large = 0
    _convert(
        numbers + HAS * stride, numbers + PRESENT * stride, numbers + FREE * stride, numbers + USED * stride,
        numbers + SCORED * stride, numbers + TAKEN * stride, allocatable, used, scored, count, &large,
    )
    return large == 0


@cython.overflowcheck(False)
cdef cloned _convert(
    out_doubles has, out_doubles present, out_doubles free, out_doubles asked, out_doubles counted, out_doubles taken,
    in_longs allocatable, in_longs used, in_longs scored, Py_ssize_t count, out_bits large,
) noexcept nogil:
    cdef Py_ssize_t i
    cdef double whole, part
    cdef uint64_t wide = 0, half = <uint64_t>1 << SMALL_BITS
    for i in range(count):
        wide |= (<uint64_t>allocatable[i] + half) | (<uint64_t>used[i] + half) | (<uint64_t>scored[i] + half)
        whole = as_double(allocatable[i])
        part = as_double(used[i])
        present[i] = 1.0 if whole > 0.0 else 0.0
        free[i] = whole - part
        whole = whole if whole > 1.0 else 1.0  # amounts are integers: what is not above 1 is 1, or is not there
        has[i] = whole
        asked[i] = part
        counted[i] = as_double(scored[i])
        taken[i] = (part if part < whole else whole) / whole
    large[0] = wide >> (SMALL_BITS + 1)


cdef bint fill_room(
    double* numbers, const amount_t* pods_allowed, const amount_t* pods, Py_ssize_t count
) noexcept nogil:
    """Write the ROOM of each row (for pods). Returns False, with invalid values, if a number is too large."""
    cdef uint64_t large = 0
    _subtract(numbers, pods_allowed, pods, count, &large)
    return large == 0


@cython.overflowcheck(False)
cdef cloned _subtract(
    out_doubles room, in_longs allowed, in_longs taken, Py_ssize_t count, out_bits large
) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint64_t wide = 0, half = <uint64_t>1 << SMALL_BITS
    for i in range(count):
        wide |= (<uint64_t>allowed[i] + half) | (<uint64_t>taken[i] + half)
        room[i] = as_double(allowed[i]) - as_double(taken[i])
    large[0] = wide >> (SMALL_BITS + 1)


# --- from a chunk to scores ---


cdef int score_chunk(const DemandC* demand, const ChunkC* chunk, Py_ssize_t count, int32_t* scores) noexcept nogil:
    """Write for each row its weighted score of resources, -1 without room for the pod, or ALONE (see there)."""
    cdef double room[CHUNK]
    cdef double score[CHUNK]
    cdef double total[CHUNK]
    cdef double weights[CHUNK]
    cdef Py_ssize_t i
    _room_for_one(room, chunk.numbers, count)
    for i in range(demand.entry_count):
        _room_for(room, _field(chunk, demand.entries[i].resource, FREE), <double>demand.entries[i].amount, count)
    _clear(score, count)
    if demand.fit_weight:
        _clear(total, count)
        _clear(weights, count)
        _fit(demand, chunk, total, weights, count)
        if demand.strategy == RATIO:
            _mean_up(score, total, weights, <double>demand.fit_weight, count)
        else:
            _mean(score, total, weights, <double>demand.fit_weight, count)
    if demand.balanced_weight:
        _balanced(demand, chunk, score, total, weights, count)
    _finish(scores, room, score, count)
    if demand.balanced_weight and demand.balanced_count > 2:
        for i in range(count):
            if scores[i] >= 0 and weights[i] != demand.balanced_count:
                scores[i] = ALONE
    return 0


cdef inline const double* _field(const ChunkC* chunk, Py_ssize_t resource, int field) noexcept nogil:
    return chunk.numbers + (1 + resource * FIELDS + field) * chunk.stride


cdef cloned _clear(out_doubles numbers, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        numbers[i] = 0.0


cdef cloned _room_for_one(out_doubles room, in_doubles pods, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        room[i] = pods[i] - 1.0


cdef cloned _room_for(out_doubles room, in_doubles free, double amount, Py_ssize_t count) noexcept nogil:
    """Make `room` negative where the resource is short."""
    cdef Py_ssize_t i
    cdef double left
    for i in range(count):
        left = free[i] - amount
        room[i] = left if left < room[i] else room[i]


cdef cloned _finish(out_ints scores, in_doubles room, in_doubles score, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        scores[i] = <int32_t>score[i] if room[i] >= 0.0 else -1


# --- NodeResourcesFit ---


cdef int _fit(
    const DemandC* demand, const ChunkC* chunk, double* total, double* weights, Py_ssize_t count
) noexcept nogil:
    cdef Py_ssize_t i
    cdef const TermC* term
    cdef const double* has
    cdef const double* present
    cdef const double* used
    for i in range(demand.fit_count):
        term = &demand.fit[i]
        has, present = _field(chunk, term.resource, HAS), _field(chunk, term.resource, PRESENT)
        used = _field(chunk, term.resource, SCORED)
        if demand.strategy == LEAST:
            _least(total, weights, has, present, used, <double>term.amount, <double>term.weight, count)
        elif demand.strategy == MOST:
            _most(total, weights, has, present, used, <double>term.amount, <double>term.weight, count)
        else:
            _ratio(total, weights, has, present, used, <double>term.amount, <double>term.weight, demand.line, count)
    return 0


cdef cloned _least(
    out_doubles total, out_doubles weights, in_doubles has, in_doubles present, in_doubles used,
    double amount, double weight, Py_ssize_t count,
) noexcept nogil:
    cdef Py_ssize_t i
    cdef double free, counts
    for i in range(count):
        free = has[i] - used[i] - amount
        free = free if free > 0.0 else 0.0
        counts = weight * present[i]
        total[i] = total[i] + counts * <double><int32_t>(free * 100.0 / has[i])
        weights[i] = weights[i] + counts


cdef cloned _most(
    out_doubles total, out_doubles weights, in_doubles has, in_doubles present, in_doubles used,
    double amount, double weight, Py_ssize_t count,
) noexcept nogil:
    cdef Py_ssize_t i
    cdef double taken, counts
    for i in range(count):
        taken = used[i] + amount
        taken = taken if taken < has[i] else has[i]
        counts = weight * present[i]
        total[i] = total[i] + counts * <double><int32_t>(taken * 100.0 / has[i])
        weights[i] = weights[i] + counts


cdef cloned _ratio(
    out_doubles total, out_doubles weights, in_doubles has, in_doubles present, in_doubles used,
    double amount, double weight, const score_t* line, Py_ssize_t count,
) noexcept nogil:
    """Add RequestedToCapacityRatio's scores; a score of zero counts neither in the sum nor in the weights."""
    cdef Py_ssize_t i
    cdef double taken, score
    for i in range(count):
        taken = used[i] + amount
        taken = taken if taken < has[i] else has[i]
        score = <double>line[<int32_t>(taken * 100.0 / has[i])] * present[i]
        total[i] = total[i] + weight * score
        weights[i] = weights[i] + (weight if score > 0.0 else 0.0)


cdef cloned _mean(
    out_doubles score, in_doubles total, in_doubles weights, double weight, Py_ssize_t count
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        score[i] = score[i] + weight * <double><int32_t>(total[i] / (weights[i] if weights[i] > 1.0 else 1.0))


cdef cloned _mean_up(
    out_doubles score, in_doubles total, in_doubles weights, double weight, Py_ssize_t count
) noexcept nogil:
    """Add the weighted mean, halves rounded up."""
    cdef Py_ssize_t i
    cdef double twice
    for i in range(count):
        twice = 2.0 * weights[i]
        twice = twice if twice > 1.0 else 1.0
        score[i] = score[i] + weight * <double><int32_t>((2.0 * total[i] + weights[i]) / twice)


# --- NodeResourcesBalancedAllocation ---


cdef int _balanced(
    const DemandC* demand, const ChunkC* chunk, double* score, double* work, double* present, Py_ssize_t count
) noexcept nogil:
    """Add the weighted balance to `score`; with more than two resources, count in `present` those of each node."""
    cdef double weight = <double>demand.balanced_weight
    cdef const TermC* one = demand.balanced
    cdef const TermC* other = demand.balanced + 1
    if demand.balanced_count < 2:
        _add_neutral(score, weight, count)
    elif demand.balanced_count == 2:
        _balanced_pair(
            score,
            _field(chunk, one.resource, HAS), _field(chunk, one.resource, PRESENT),
            _field(chunk, one.resource, USED), _field(chunk, one.resource, TAKEN),
            _field(chunk, other.resource, HAS), _field(chunk, other.resource, PRESENT),
            _field(chunk, other.resource, USED), _field(chunk, other.resource, TAKEN),
            <double>one.amount, <double>other.amount, weight, count,
        )
    else:
        _balanced_many(demand, chunk, score, work, present, count)
    return 0


cdef cloned _add_neutral(out_doubles score, double weight, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        score[i] = score[i] + 75.0 * weight


cdef cloned _balanced_pair(
    out_doubles score,
    in_doubles has, in_doubles present, in_doubles used, in_doubles taken_before,
    in_doubles other_has, in_doubles other_present, in_doubles other_used, in_doubles other_before,
    double amount, double other_amount, double weight, Py_ssize_t count,
) noexcept nogil:
    """Add the balance of two resources, the default: the deviation is half their difference, 0 if one is missing."""
    cdef Py_ssize_t i
    cdef double before, after, both, taken, other
    for i in range(count):
        both = present[i] * other_present[i]
        before = fabs((taken_before[i] - other_before[i]) / 2.0) * both
        taken = used[i] + amount
        taken = taken if taken < has[i] else has[i]
        other = other_used[i] + other_amount
        other = other if other < other_has[i] else other_has[i]
        after = fabs((taken / has[i] - other / other_has[i]) / 2.0) * both
        before = <double><int32_t>((1.0 - before) * 100.0)
        after = <double><int32_t>((1.0 - after) * 100.0)
        score[i] = score[i] + weight * (50.0 + <double><int32_t>((50.0 + after - before) / 2.0))


cdef int _balanced_many(
    const DemandC* demand, const ChunkC* chunk, double* score, double* work, double* present, Py_ssize_t count
) noexcept nogil:
    """Add the balance of three or more resources for rows that have all; count in `present` how many a row has."""
    cdef double before[CHUNK]
    cdef double after[CHUNK]
    cdef Py_ssize_t i
    _clear(present, count)
    for i in range(demand.balanced_count):
        _add(present, _field(chunk, demand.balanced[i].resource, PRESENT), count)
    _evenness(demand, chunk, before, work, 0.0, count)
    _evenness(demand, chunk, after, work, 1.0, count)
    _add_change(score, before, after, <double>demand.balanced_weight, count)
    return 0


cdef int _evenness(
    const DemandC* demand, const ChunkC* chunk, double* evenness, double* average, double share, Py_ssize_t count
) noexcept nogil:
    """Write 100 minus the standard deviation in percent, with `share` times the pod's request added to the usage."""
    cdef Py_ssize_t i
    cdef const TermC* term
    _clear(average, count)
    for i in range(demand.balanced_count):
        term = &demand.balanced[i]
        _add_fraction(
            average, _field(chunk, term.resource, HAS), _field(chunk, term.resource, USED),
            <double>term.amount * share, count,
        )
    _divide(average, <double>demand.balanced_count, count)
    _clear(evenness, count)
    for i in range(demand.balanced_count):
        term = &demand.balanced[i]
        _add_square(
            evenness, average, _field(chunk, term.resource, HAS), _field(chunk, term.resource, USED),
            <double>term.amount * share, count,
        )
    _to_evenness(evenness, <double>demand.balanced_count, count)
    return 0


cdef cloned _add(out_doubles sums, in_doubles numbers, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        sums[i] = sums[i] + numbers[i]


cdef cloned _divide(out_doubles numbers, double by, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        numbers[i] = numbers[i] / by


cdef cloned _add_fraction(
    out_doubles sums, in_doubles has, in_doubles used, double amount, Py_ssize_t count
) noexcept nogil:
    cdef Py_ssize_t i
    cdef double taken
    for i in range(count):
        taken = used[i] + amount
        taken = taken if taken < has[i] else has[i]
        sums[i] = sums[i] + taken / has[i]


cdef cloned _add_square(
    out_doubles squares, in_doubles average, in_doubles has, in_doubles used, double amount, Py_ssize_t count
) noexcept nogil:
    cdef Py_ssize_t i
    cdef double taken
    for i in range(count):
        taken = used[i] + amount
        taken = taken if taken < has[i] else has[i]
        taken = taken / has[i] - average[i]
        squares[i] = squares[i] + taken * taken


cdef cloned _to_evenness(out_doubles squares, double terms, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        squares[i] = <double><int32_t>((1.0 - sqrt(squares[i] / terms)) * 100.0)


cdef cloned _add_change(
    out_doubles score, in_doubles before, in_doubles after, double weight, Py_ssize_t count
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        score[i] = score[i] + weight * (50.0 + <double><int32_t>((50.0 + after[i] - before[i]) / 2.0))
