"""The choice of a node: the best total, and one of the rows that have it."""

from kscheduler._fast.codes cimport FEASIBLE
from kscheduler._fast.scoring cimport Scores
from kscheduler._fast.typedefs cimport code_t, row_t, score_t
from kscheduler._fast.verdicts cimport Verdicts


cdef struct BestC:
    score_t total  # -1 if no row is feasible
    row_t ties  # feasible rows that have it
    row_t first  # the lowest of them


def best_total(Verdicts verdicts not None, Scores scores not None):
    """Return (highest total, number of feasible nodes that have it); (-1, 0) if none is feasible."""
    cdef BestC best = _find(verdicts, scores)
    return best.total, best.ties


def select_host(Verdicts verdicts not None, Scores scores not None, random_bits):
    """Return the row of the node to take: one of those with the best total; -1 if no node is feasible.

    It is the lowest such row or, with `random_bits`, the one at that number modulo the count of such rows.
    """
    cdef BestC best = _find(verdicts, scores)
    cdef row_t skipped, row
    if best.ties <= 1 or random_bits is None:
        return best.first
    skipped = random_bits % best.ties
    with nogil:
        row = _nth(verdicts.codes, scores.totals, best.first, verdicts.rows, best.total, skipped)
    return row


cdef BestC _find(Verdicts verdicts, Scores scores) except *:
    cdef BestC best
    best.total = best.first = -1
    best.ties = 0
    scores.check_verdicts(verdicts)
    with nogil:
        _best(verdicts.codes, scores.totals, verdicts.rows, &best)
    return best


cdef int _best(const code_t[::1] codes, const score_t[::1] totals, row_t rows, BestC* best) except -1 nogil:
    cdef row_t row
    for row in range(rows):
        if codes[row] != FEASIBLE:
            continue
        if totals[row] > best.total:
            best.total = totals[row]
            best.ties = 1
            best.first = row
        elif totals[row] == best.total:
            best.ties += 1
    return 0


cdef row_t _nth(
    const code_t[::1] codes, const score_t[::1] totals, row_t start, row_t rows, score_t wanted, row_t skipped
) except? -2 nogil:
    """Return number `skipped`, from 0, of the rows with the wanted total, in ascending order."""
    cdef row_t row
    for row in range(start, rows):
        if codes[row] == FEASIBLE and totals[row] == wanted:
            if skipped == 0:
                return row
            skipped -= 1
    return -1
