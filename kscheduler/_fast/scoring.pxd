# Invariant: rows <= length of both columns. The formulas of one row are here, inline: for the tables in scoring.pyx and
# for the classes in placement.pyx.

cimport cython
from libc.math cimport fabs, sqrt
from libc.stdint cimport uint64_t

from kscheduler._fast.codes cimport CPU, MAX_SCORED_RESOURCES, MEMORY
from kscheduler._fast.columns cimport NodeColumns, PodRequest
from kscheduler._fast.strategies cimport LEAST, RATIO, Strategy
from kscheduler._fast.typedefs cimport amount_t, resource_t, row_t, score_t
from kscheduler._fast.verdicts cimport Verdicts


cdef struct TermC:
    # One resource to score, with everything that is the same on every row.
    resource_t resource
    score_t weight
    amount_t amount  # what the pod adds, scoring defaults included


cdef class Scores:
    cdef readonly Py_ssize_t rows
    cdef score_t[::1] raws  # [row] of the plugin at work
    cdef score_t[::1] totals  # [row] weighted sum of the plugins done

    cdef int _allocate(self, Py_ssize_t capacity) except -1
    cdef int check_verdicts(self, Verdicts verdicts) except -1


cdef Py_ssize_t fill_terms(
    TermC* terms, NodeColumns columns, PodRequest request, object resources, bint with_defaults
) except -1
cdef int draw_line(score_t* line, object shape) except -1


# --- exact arithmetic ---


# Unsigned products wrap, which is meant; the debug build would call it an overflow.
@cython.overflowcheck(False)
cdef inline score_t percent(amount_t part, amount_t whole) noexcept nogil:
    """Return part * 100 // whole, exactly, for 0 <= part <= whole <= 2^62 and whole > 0, without an integer division.

    The quotient of doubles is off by less than one, so its integer part by at most one. The remainder it leaves, taken
    modulo 2^64, lies in -whole .. 2 * whole - 1 and so reads correctly as a signed number.
    """
    cdef score_t quotient = <score_t>(100.0 * <double>part / <double>whole)
    cdef amount_t rest = <amount_t>(<uint64_t>part * 100 - <uint64_t>quotient * <uint64_t>whole)
    return quotient - (rest < 0) + (rest >= whole)


cdef inline score_t mean(score_t total, score_t weights) noexcept nogil:
    """Return total // weights for 0 <= total < 2^53: rounding never lifts such a quotient to the next integer."""
    return <score_t>(<double>total / <double>weights) if weights else 0


# --- NodeResourcesFit ---


cdef inline amount_t used_by_pods(
    const amount_t[:, ::1] used,
    const amount_t[::1] used_cpu,
    const amount_t[::1] used_memory,
    resource_t resource,
    row_t row,
) except? -1 nogil:
    """Return what pods on the row's node request of a resource, with scoring's defaults for cpu and memory."""
    if resource == CPU:
        return used_cpu[row]
    if resource == MEMORY:
        return used_memory[row]
    return used[resource, row]


cdef inline score_t fit_of_row(
    const amount_t[:, ::1] allocatable,
    const amount_t[:, ::1] used,
    const amount_t[::1] used_cpu,
    const amount_t[::1] used_memory,
    const TermC* terms,
    Py_ssize_t count,
    Strategy strategy,
    const score_t* line,
    row_t row,
) except? -1 nogil:
    """Return the weighted mean over the resources that the node has; `line` is for RATIO."""
    cdef Py_ssize_t i
    cdef amount_t has, free
    cdef score_t score, total = 0, weights = 0
    for i in range(count):
        has = allocatable[terms[i].resource, row]
        if has <= 0:
            continue
        # Two subtractions: the sum of what is used and what is added might pass 2^63 - 1.
        free = has - used_by_pods(used, used_cpu, used_memory, terms[i].resource, row) - terms[i].amount
        score = percent((free if free > 0 else 0) if strategy == LEAST else (has - free if free > 0 else has), has)
        if strategy == RATIO:
            score = line[score]
            if score == 0:
                continue
        total += terms[i].weight * score
        weights += terms[i].weight
    if strategy == RATIO:
        return mean(2 * total + weights, 2 * weights)  # halves round up
    return mean(total, weights)


# --- NodeResourcesBalancedAllocation ---


cdef inline double fraction(amount_t free, amount_t has) noexcept nogil:
    return 1.0 if free <= 0 else <double>(has - free) / <double>has


cdef inline score_t evenness(const double* fractions, Py_ssize_t count) noexcept nogil:
    """Return 100 less the standard deviation in percent, truncated."""
    cdef double total = 0.0, squares = 0.0, deviation = 0.0, average
    cdef Py_ssize_t i
    if count == 2:
        deviation = fabs((fractions[0] - fractions[1]) / 2)
    elif count > 2:
        for i in range(count):
            total += fractions[i]
        average = total / count
        for i in range(count):
            squares = squares + (fractions[i] - average) * (fractions[i] - average)
        deviation = sqrt(squares / count)
    return <score_t>((1 - deviation) * 100)


cdef inline score_t balanced_of_row(
    const amount_t[:, ::1] allocatable, const amount_t[:, ::1] used, const TermC* terms, Py_ssize_t count, row_t row
) except? -1 nogil:
    cdef double before[MAX_SCORED_RESOURCES]
    cdef double after[MAX_SCORED_RESOURCES]
    cdef Py_ssize_t i, n = 0
    cdef amount_t has, free
    for i in range(count):
        has = allocatable[terms[i].resource, row]
        if has > 0:
            free = has - used[terms[i].resource, row]
            before[n] = fraction(free, has)
            after[n] = fraction(free - terms[i].amount, has)
            n += 1
    # Each is between 50 and 100, as a deviation is at most a half.
    return 50 + (50 + evenness(after, n) - evenness(before, n)) // 2


# --- from raw to total ---


cdef inline score_t normalized(score_t raw, score_t highest, bint reverse) noexcept nogil:
    """Return a raw score normalised, for raw <= highest, the highest raw or 0."""
    if highest == 0:
        raw = 0 if reverse else raw
    elif raw >= 0:
        raw = percent(raw, highest)
    else:
        raw = -((-raw * 100) // highest)  # Go divides toward zero
    return 100 - raw if reverse else raw
