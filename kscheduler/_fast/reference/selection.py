"""The choice of a node: the best total, and one of the rows that have it."""

from __future__ import annotations

from kscheduler._fast.reference.checks import check_scores
from kscheduler._fast.reference.scoring import Scores
from kscheduler._fast.reference.verdicts import Verdicts


def best_total(verdicts: Verdicts, scores: Scores) -> tuple[int, int]:
    """Return (highest total, number of feasible nodes that have it); (-1, 0) if none is feasible."""
    check_scores(verdicts, scores)
    totals = [scores._total[row] for row in verdicts.feasible_rows()]
    best = max(totals, default=-1)
    return best, totals.count(best)


def select_host(verdicts: Verdicts, scores: Scores, random_bits: int | None) -> int:
    """Return the row of the node to take: one of those with the best total; -1 if no node is feasible.

    It is the lowest such row or, with `random_bits`, the one at that number modulo the count of such rows.
    """
    best, ties = best_total(verdicts, scores)
    if ties == 0:
        return -1
    rows = [row for row in verdicts.feasible_rows() if scores._total[row] == best]
    return rows[0 if random_bits is None else random_bits % ties]
