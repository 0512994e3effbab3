"""Counts of pods by topology domain, for PodTopologySpread and InterPodAffinity.

Domains are numbered by the caller: `ids` is array('i'), row -> domain, -1 without one; counters are array('q'), row ->
number of pods. Filters and scores change only rows that are still feasible.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import final

from kscheduler._fast.codes import MAX_CODE, MAX_RAW, MAX_WEIGHT
from kscheduler._fast.reference.checks import INT32_MAX, INT64_MAX, check_length, check_node_class, check_scores, within
from kscheduler._fast.reference.columns import NodeColumns
from kscheduler._fast.reference.scoring import Scores
from kscheduler._fast.reference.verdicts import Verdicts
from kscheduler._fast.rounding import round_half_away


@final
class RowMask:
    """A set of rows (nodes)."""

    def __init__(self) -> None:
        self._rows = 0
        self._inside: set[int] = set()

    @property
    def rows(self) -> int:
        return self._rows

    def take_alive(self, columns: NodeColumns) -> None:
        """Set the mask to all rows that hold a node."""
        self._rows = columns.rows
        self._inside = {row for row in range(columns.rows) if columns.is_alive(row)}

    def take_feasible(self, verdicts: Verdicts) -> None:
        """Set the mask to all rows (nodes) that are still feasible."""
        self._rows = verdicts.rows
        self._inside = set(verdicts.feasible_rows())

    def take(self, other: RowMask) -> None:
        """Set the mask to the rows (nodes) of another mask."""
        self._rows = other._rows
        self._inside = set(other._inside)

    def drop_without_domain(self, ids: array[int]) -> None:
        check_length("ids", len(ids), self._rows)
        self._inside = {row for row in self._inside if ids[row] >= 0}

    def drop_node_classes(self, columns: NodeColumns, verdict_by_node_class: bytes | bytearray | array[int]) -> None:
        """Remove the nodes whose node class has a verdict other than 0 (one byte for each class).

        A node class has the nodes with equal labels and taints.
        """
        if columns.rows < self._rows:
            raise ValueError(f"mask has {self._rows} rows, these columns {columns.rows}")
        for row in sorted(self._inside):
            check_node_class(columns, row, len(verdict_by_node_class))
            if verdict_by_node_class[columns.node_class(row)]:
                self._inside.discard(row)

    def drop_rows(self, refused: bytes | bytearray) -> None:
        """Remove the rows (nodes) whose byte is not 0."""
        check_length("refused", len(refused), self._rows)
        self._inside = {row for row in self._inside if not refused[row]}

    def __contains__(self, row: int) -> bool:
        return row in self._inside

    def __len__(self) -> int:
        return len(self._inside)


@final
class DomainSums:
    """A sum for each domain of one topology key. `sum_by_domain` fills it, as often as needed."""

    def __init__(self) -> None:
        self._sums: list[int] = []
        self._marked: set[int] = set()  # domains with a row in the mask

    @property
    def domains(self) -> int:
        return len(self._sums)

    @property
    def present(self) -> int:
        """The number of topology domains with at least one row (node) in the mask of `sum_by_domain`."""
        return len(self._marked)

    @property
    def minimum(self) -> int:
        """The lowest sum of a topology domain with a row (node) in the mask of `sum_by_domain`; 0 if there is none."""
        return min((self._sums[domain] for domain in self._marked), default=0)

    def sum_of(self, domain: int) -> int:
        return self._sums[within("domain", domain, 0, len(self._sums) - 1)]

    def is_present(self, domain: int) -> bool:
        return within("domain", domain, 0, len(self._sums) - 1) in self._marked


@final
class RowTotals:
    """A sum of doubles for each row (node): PodTopologySpread's score before rounding."""

    def __init__(self) -> None:
        self._values: list[float] = []

    @property
    def rows(self) -> int:
        return len(self._values)

    def reset(self, columns: NodeColumns) -> None:
        self._values = [0.0] * columns.rows

    def value(self, row: int) -> float:
        return self._values[within("row", row, 0, len(self._values) - 1)]


# --- sums ---


def sum_by_domain(
    sums: DomainSums, counts: array[int] | None, ids: array[int], domains: int, mask: RowMask, missing: int = -1
) -> int:
    """Sum the counts of the rows (nodes) in the mask by topology domain into `sums`.

    Also record which domains have such a row; with `counts` None that is all. Rows without a domain count for the
    domain `missing`, or not at all if that is -1. Returns the number of domains that have a row in the mask.
    """
    within("domains", domains, 0, INT32_MAX)
    within("missing", missing, -1, domains - 1)
    check_length("ids", len(ids), mask.rows)
    if counts is not None:
        check_length("counts", len(counts), mask.rows)
    sums._sums = [0] * domains
    sums._marked = set()
    for row in sorted(mask._inside):
        domain = ids[row] if ids[row] >= 0 else missing
        if domain >= domains:
            raise _no_sum(row, ids[row], domains)
        if domain >= 0:
            sums._marked.add(domain)
            sums._sums[domain] += counts[row] if counts is not None else 0
    return sums.present


# --- filters ---


def filter_skew(
    verdicts: Verdicts,
    sums: DomainSums,
    ids: array[int],
    code: int,
    most: int,
    missing_detail: int,
    skewed_detail: int,
) -> int:
    """Reject rows (nodes) without a topology domain, or whose domain's sum is above `most`.

    `missing_detail` and `skewed_detail` are the reason numbers of the two. Returns the number of feasible nodes left.
    """
    _check_reason(code, missing_detail)
    _check_reason(code, skewed_detail)
    within("most", most, -INT64_MAX, INT64_MAX)
    for row, found in list(_sums_of_rows(verdicts, sums, ids)):
        if found is None:
            verdicts.reject(row, code, missing_detail)
        elif found > most:
            verdicts.reject(row, code, skewed_detail)
    return verdicts.feasible_count()


def filter_outside(verdicts: Verdicts, sums: DomainSums, ids: array[int], code: int, detail: int) -> int:
    """Reject rows (nodes) without a topology domain, or whose domain's sum is not above 0.

    Returns the number of feasible nodes left.
    """
    _check_reason(code, detail)
    for row, found in list(_sums_of_rows(verdicts, sums, ids)):
        if found is None or found <= 0:
            verdicts.reject(row, code, detail)
    return verdicts.feasible_count()


def filter_inside(verdicts: Verdicts, sums: DomainSums, ids: array[int], code: int, detail: int) -> int:
    """Reject rows (nodes) whose topology domain has a sum above 0. Returns the number of feasible nodes left."""
    _check_reason(code, detail)
    for row, found in list(_sums_of_rows(verdicts, sums, ids)):
        if found is not None and found > 0:
            verdicts.reject(row, code, detail)
    return verdicts.feasible_count()


def filter_without_domain(verdicts: Verdicts, ids: array[int], code: int, detail: int) -> int:
    """Reject rows (nodes) that are in no topology domain. Returns the number of feasible nodes left."""
    _check_reason(code, detail)
    check_length("ids", len(ids), verdicts.rows)
    for row in verdicts.feasible_rows():
        if ids[row] < 0:
            verdicts.reject(row, code, detail)
    return verdicts.feasible_count()


def _sums_of_rows(verdicts: Verdicts, sums: DomainSums, ids: array[int]) -> Iterator[tuple[int, int | None]]:
    """Yield each feasible row (node) with the sum of its topology domain, None if it has no domain."""
    check_length("ids", len(ids), verdicts.rows)
    for row in verdicts.feasible_rows():
        if ids[row] >= sums.domains:
            raise _no_sum(row, ids[row], sums.domains)
        yield row, sums._sums[ids[row]] if ids[row] >= 0 else None


# --- scores ---


def add_domain_sums(verdicts: Verdicts, scores: Scores, sums: DomainSums, ids: array[int], weight: int) -> None:
    """Add to the raw score of every feasible row (node) the sum of its topology domain times `weight`.

    Rows without a domain get nothing. ValueError if a raw score is beyond MAX_RAW; the rows before that one have then
    been changed.
    """
    check_scores(verdicts, scores)
    within("weight", weight, -MAX_WEIGHT, MAX_WEIGHT)
    limit = MAX_RAW // abs(weight) if weight else MAX_RAW
    for row, found in list(_sums_of_rows(verdicts, sums, ids)):
        if found is None:
            continue
        raw = scores._raw[row] + weight * found
        if abs(found) > limit or abs(raw) > MAX_RAW:
            raise ValueError(f"row {row}: raw score beyond {MAX_RAW}")
        scores._raw[row] = raw


def normalize_range(verdicts: Verdicts, scores: Scores) -> None:
    """Normalise like InterPodAffinity: the lowest raw score becomes 0, the highest 100; if all are equal, 0.

    The result is computed in doubles and truncated.
    """
    check_scores(verdicts, scores)
    rows = verdicts.feasible_rows()
    lowest = min((scores._raw[row] for row in rows), default=0)
    highest = max((scores._raw[row] for row in rows), default=0)
    for row in rows:
        part = float(scores._raw[row] - lowest)
        scores._raw[row] = int(100.0 * (part / float(highest - lowest))) if highest > lowest else 0


def add_spread(
    verdicts: Verdicts, totals: RowTotals, sums: DomainSums, ids: array[int], weight: float, max_skew: int
) -> None:
    """Add PodTopologySpread's score by one constraint to the total of each feasible row (node) with a topology domain.

    It is the domain's sum * weight + (max_skew - 1).
    """
    within("max_skew", max_skew, 1, INT32_MAX)
    check_length("ids", len(ids), verdicts.rows)
    check_length("totals", totals.rows, verdicts.rows)
    for row, found in list(_sums_of_rows(verdicts, sums, ids)):
        if found is not None:
            totals._values[row] += float(found) * weight + float(max_skew - 1)


def add_spread_by_row(
    verdicts: Verdicts, totals: RowTotals, counts: array[int], ids: array[int], weight: float, max_skew: int
) -> None:
    """Add like `add_spread`, but with the count of the row (node) itself: so kube-scheduler spreads over hostnames."""
    within("max_skew", max_skew, 1, INT32_MAX)
    check_length("ids", len(ids), verdicts.rows)
    check_length("counts", len(counts), verdicts.rows)
    check_length("totals", totals.rows, verdicts.rows)
    for row in verdicts.feasible_rows():
        if ids[row] >= 0:
            totals._values[row] += float(counts[row]) * weight + float(max_skew - 1)


def score_spread(verdicts: Verdicts, scores: Scores, totals: RowTotals, mask: RowMask) -> None:
    """Set raw scores to the totals (PodTopologySpread's scores before rounding), halves rounded away from zero.

    Feasible rows (nodes) outside the mask get 0.
    """
    check_scores(verdicts, scores)
    _check_mask(mask, verdicts)
    check_length("totals", totals.rows, verdicts.rows)
    for row in verdicts.feasible_rows():
        scores._raw[row] = round_half_away(totals._values[row]) if row in mask else 0


def normalize_spread(verdicts: Verdicts, scores: Scores, mask: RowMask) -> None:
    """Set feasible rows (nodes) in the mask to 100 * (highest + lowest - raw) / highest, or 100 if `highest` is 0.

    Others get 0. Lowest and highest are those of the raw scores in the mask.
    """
    check_scores(verdicts, scores)
    _check_mask(mask, verdicts)
    rows = verdicts.feasible_rows()
    raws = [scores._raw[row] for row in rows if row in mask]
    highest, lowest = max(raws, default=0), min(raws, default=0)
    for row in rows:
        if row not in mask:
            scores._raw[row] = 0
        elif highest <= 0:
            scores._raw[row] = 100
        else:
            scores._raw[row] = 100 * (highest + lowest - scores._raw[row]) // highest


# --- checks ---


def _check_mask(mask: RowMask, verdicts: Verdicts) -> None:
    check_length("mask", mask.rows, verdicts.rows)


def _check_reason(code: int, detail: int) -> None:
    within("detail", detail, 0, INT64_MAX)
    within("code", code, 1, MAX_CODE)


def _no_sum(row: int, domain: int, domains: int) -> IndexError:
    return IndexError(f"row {row} is in domain {domain}, there are sums for {domains}")
