"""Trimaran's scores for all rows at once, by the formulas of trimaran_formulas.py, operation by operation."""

from libc.math cimport INFINITY, NAN, isfinite, pow, round

from kscheduler._fast.checks cimport within
from kscheduler._fast.codes cimport CPU, FEASIBLE, MAX_AMOUNT, MEMORY
from kscheduler._fast.columns cimport NodeColumns
from kscheduler._fast.scoring cimport Scores
from kscheduler._fast.typedefs cimport amount_t, row_t
from kscheduler._fast.verdicts cimport Verdicts

cdef double MEBI = 1.0 / 1024.0 / 1024.0
cdef object _INT32_MAX = (1 << 31) - 1


def rate_target_load(rows, used, whole, missing, own, target):
    """Rate each row 0..100 like TargetLoadPacking: best where the predicted usage is at `target` percent of CPU.

    `used` is the measured usage in percent; in milli-cores are: `whole`, the node's capacity; `missing`, the predicted
    usage of recent pods; `own`, that of the pod. Values past the end of an array are unknown, or zero.
    """
    cdef int aim = <int>within("target", target, 1, 100)
    cdef double asked = <double>within("own", own, 0, MAX_AMOUNT)
    cdef Py_ssize_t count = within("rows", rows, 0, _INT32_MAX), row
    rates = bytearray(count)
    if count == 0:
        return bytes(rates)
    cdef unsigned char[::1] out = rates
    cdef const double[::1] use = used
    cdef const double[::1] all_there_is = whole
    cdef const amount_t[::1] lately = missing
    for row in range(count):
        out[row] = _target_load(
            use[row] if row < use.shape[0] else NAN,
            all_there_is[row] if row < all_there_is.shape[0] else 0.0,
            <double>lately[row] if row < lately.shape[0] else 0.0, asked, aim,
        )
    return bytes(rates)


cdef unsigned char _target_load(double used, double whole, double missing, double own, double target) noexcept nogil:
    cdef double predicted = 0.0
    if not isfinite(used):
        return 0
    if whole != 0.0:
        predicted = 100.0 * ((used / 100.0) * whole + own + missing) / whole
        predicted = predicted if predicted > 0.0 else 0.0
    if predicted > target:
        if predicted > 100.0:
            return 0
        return <unsigned char>round(target * (100.0 - predicted) / (100.0 - target))
    return <unsigned char>round((100.0 - target) * predicted / target + target)


def rate_load_variation(
    NodeColumns columns not None, cpu, cpu_deviation, memory, memory_deviation, own_cpu, own_memory, double margin,
    double sensitivity,
):
    """Rate each row (node) 0..100 like LoadVariationRiskBalancing: less where CPU or memory usage is high or varies."""
    cdef double asked_cpu = <double>within("own_cpu", own_cpu, 0, MAX_AMOUNT)
    cdef double asked_memory = <double>within("own_memory", own_memory, 0, MAX_AMOUNT) * MEBI
    cdef double exponent = -1.0, of_cpu, of_memory
    cdef row_t row
    if sensitivity >= 0.0:
        exponent = 1.0 / sensitivity if sensitivity > 0.0 else INFINITY
    rates = bytearray(columns.rows)
    if columns.rows == 0:
        return bytes(rates)
    cdef unsigned char[::1] out = rates
    cdef const double[::1] cpu_use = cpu
    cdef const double[::1] cpu_varies = cpu_deviation
    cdef const double[::1] memory_use = memory
    cdef const double[::1] memory_varies = memory_deviation
    for row in range(columns.rows):
        of_cpu = _risk_score(
            cpu_use[row] if row < cpu_use.shape[0] else NAN, cpu_varies[row] if row < cpu_varies.shape[0] else NAN,
            <double>columns.allocated[CPU, row], asked_cpu, margin, exponent,
        )
        of_memory = _risk_score(
            memory_use[row] if row < memory_use.shape[0] else NAN,
            memory_varies[row] if row < memory_varies.shape[0] else NAN,
            <double>columns.allocated[MEMORY, row] * MEBI, asked_memory, margin, exponent,
        )
        if of_cpu < 0.0 or of_memory < 0.0:
            of_cpu = max(of_cpu, max(of_memory, 0.0))
        else:
            of_cpu = min(of_memory, of_cpu)
        out[row] = <unsigned char>round(of_cpu)
    return bytes(rates)


cdef double _risk_score(
    double used, double deviation, double whole, double own, double margin, double exponent
) noexcept nogil:
    """Return the score by one resource, or -1 if nothing is known of it."""
    cdef double mean, sigma
    if not isfinite(used) and not isfinite(deviation):
        return -1.0
    if whole <= 0.0:
        return 0.0
    mean = _within(used * whole / 100.0 if isfinite(used) else 0.0, whole)
    sigma = _within(deviation * whole / 100.0 if isfinite(deviation) else 0.0, whole)
    mean = _within((mean + own) / whole, 1.0)
    sigma = _within(sigma / whole, 1.0)
    if exponent >= 0.0:
        sigma = pow(sigma, exponent)
    sigma = _within(sigma * margin, 1.0)
    return (1.0 - (mean + sigma) / 2.0) * 100.0


cdef double _within(double value, double most) noexcept nogil:
    value = value if value < most else most
    return value if value > 0.0 else 0.0


def score_rated(Verdicts verdicts not None, Scores scores not None, const unsigned char[::1] rates not None):
    """Set the raw score of every feasible row (node) to its byte in `rates`; a row past the end gets 0."""
    cdef row_t row
    scores.check_verdicts(verdicts)
    for row in range(verdicts.rows):
        if verdicts.codes[row] == FEASIBLE:
            scores.raws[row] = rates[row] if row < rates.shape[0] else 0
