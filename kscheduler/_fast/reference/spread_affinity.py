"""Placement of pods with topology spread constraints or pod affinity, by the kernels of topology.py, one pod a call."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import final

from kscheduler._fast.codes import MAX_CLASS_WEIGHT
from kscheduler._fast.reference.answers import RowAnswers
from kscheduler._fast.reference.checks import INT32_MAX, within
from kscheduler._fast.reference.classes import PodClass
from kscheduler._fast.reference.placement import Placer
from kscheduler._fast.reference.scoring import Scores, accumulate, clear_raw, normalize
from kscheduler._fast.reference.selection import select_host
from kscheduler._fast.reference.tallies import DomainTally
from kscheduler._fast.reference.topology import (
    DomainSums,
    RowMask,
    RowTotals,
    add_domain_sums,
    add_spread,
    add_spread_by_row,
    filter_inside,
    filter_outside,
    filter_skew,
    filter_without_domain,
    normalize_range,
    normalize_spread,
    score_spread,
    sum_by_domain,
)
from kscheduler._fast.reference.verdicts import Verdicts

_MAX_SUM = 1 << 30
_CODE, _DETAIL = 3, 1  # of rows that are out


@final
class JoinTerms:
    """The terms of a pod class: its constraints on the pods in a node's topology domains (spreading, pod affinity).

    `weight` is the weight of the score that the terms give. With `may_be_first`, a pod that needs other pods fits
    without them while no domain has any.
    """

    def __init__(self, weight: int = 0, may_be_first: bool = False) -> None:
        self._weight = within("weight", weight, 0, MAX_CLASS_WEIGHT)
        self._may_be_first = may_be_first
        self._even: list[tuple[DomainTally, int, int, int]] = []  # max_skew, min_domains, own
        self._needed: list[DomainTally] = []
        self._forbidden: list[DomainTally] = []
        self._near: list[tuple[DomainTally, int]] = []  # weight
        self._spread: list[tuple[DomainTally, int, bool]] = []  # max_skew, counts_missing
        self._scored: RowMask | None = None
        self._answers: tuple[RowAnswers, bool] | None = None

    # --- which rows are out ---

    def keep_even(self, tally: DomainTally, max_skew: int, min_domains: int, own: int) -> None:
        """Reject rows (nodes) that would violate a spread constraint, or are in no topology domain.

        They would if the count of their domain, with the pod, is more than `max_skew` above the lowest. `own`, 0 or 1,
        is added to the domain's count for the pod. With fewer than `min_domains` domains the lowest count is 0.
        """
        within("max_skew", max_skew, 1, INT32_MAX)
        within("min_domains", min_domains, 1, INT32_MAX)
        within("own", own, 0, 1)
        self._even.append((tally, max_skew, min_domains, own))

    def need(self, tally: DomainTally) -> None:
        """Reject rows (nodes) without a topology domain, and rows whose domain has a count of 0.

        If the pod may be, and is, the first of the pods that it needs, a count of 0 is accepted.
        """
        self._needed.append(tally)

    def forbid(self, tally: DomainTally) -> None:
        """Reject rows (nodes) whose topology domain has a count above 0."""
        self._forbidden.append(tally)

    # --- how those left are scored ---

    def prefer(self, tally: DomainTally, weight: int) -> None:
        """Score rows (nodes) by the counts of their topology domains times `weight`.

        The products of all calls are added up, and then mapped to 0..100.
        """
        within("weight", weight, -INT32_MAX, INT32_MAX)
        self._check_score(not self._spread and self._answers is None)
        self._near.append((tally, weight))

    def spread(self, tally: DomainTally, max_skew: int, counts_missing: bool = False) -> None:
        """Score rows (nodes): the lower the counts of their topology domains, the higher the score.

        `counts_missing`: rows without a domain form one more domain.
        """
        within("max_skew", max_skew, 1, INT32_MAX)
        self._check_score(not self._near and self._answers is None)
        self._spread.append((tally, max_skew, counts_missing))

    def score_answers(self, answers: RowAnswers, reverse: bool = False) -> None:
        """Score rows (nodes) by a plugin's answers, normalised over the feasible rows.

        The caller must refresh the answers before `Joiner.join`.
        """
        self._check_score(not (self._near or self._spread or self._answers))
        if answers._is_marks or answers._limits[0] < 0:
            raise ValueError("expected scores that are never below 0")
        self._answers = answers, reverse

    def score_only(self, mask: RowMask) -> None:
        """Give the scores of `spread` to the rows (nodes) in the mask only; others get 0."""
        self._scored = None
        if len(mask) < mask.rows:
            self._scored = RowMask()
            self._scored.take(mask)

    # --- inside ---

    @staticmethod
    def _check_score(is_good: bool) -> None:
        if not is_good:
            raise ValueError(
                "terms are scored in one way: for what is near, for how pods spread, or by a plugin's answers"
            )

    def _can_tell(self, rows: int) -> bool:
        tallies = [*self._needed, *self._forbidden, *(rule[0] for rule in self._even)]
        tallies += [*(near[0] for near in self._near), *(spread[0] for spread in self._spread)]
        largest = sum(23 * tally._largest + max_skew for tally, max_skew, _ in self._spread)
        largest += sum(abs(weight) * tally._largest for tally, weight in self._near)
        if not all(tally.is_good and tally.rows >= rows for tally in tallies) or largest > _MAX_SUM:
            return False
        if any(tally._went_below for tally, *_ in self._spread):
            return False
        if self._answers is not None and len(self._answers[0]._kept) < rows:
            return False
        return self._scored is None or self._scored.rows >= rows

    def _rule_out(self, verdicts: Verdicts) -> None:
        is_first = self._may_be_first and not any(tally.occupied for tally in self._needed)
        for tally, max_skew, min_domains, own in self._even:
            sums, ids = tally._summed()
            least = sums.minimum if sums.present >= min_domains else 0
            filter_skew(verdicts, sums, ids, _CODE, max_skew - own + least, _DETAIL, _DETAIL)
        for tally in self._needed:
            sums, ids = tally._summed()
            if is_first:
                filter_without_domain(verdicts, ids, _CODE, _DETAIL)
            else:
                filter_outside(verdicts, sums, ids, _CODE, _DETAIL)
        for tally in self._forbidden:
            sums, ids = tally._summed()
            filter_inside(verdicts, sums, ids, _CODE, _DETAIL)

    def _score(self, verdicts: Verdicts, scores: Scores) -> None:
        if self._near:
            clear_raw(verdicts, scores)
            for tally, weight in self._near:
                sums, ids = tally._summed()
                add_domain_sums(verdicts, scores, sums, ids, weight)
            normalize_range(verdicts, scores)
            accumulate(verdicts, scores, self._weight)
        elif self._spread:
            self._score_spread(verdicts, scores)
            accumulate(verdicts, scores, self._weight)
        elif self._answers is not None:
            answers, reverse = self._answers
            for row in verdicts.feasible_rows():
                scores.set_raw(row, answers._score(row))
            normalize(verdicts, scores, reverse)
            accumulate(verdicts, scores, self._weight)

    def _score_spread(self, verdicts: Verdicts, scores: Scores) -> None:
        scored, totals, sizes = RowMask(), RowTotals(), DomainSums()
        scored.take_feasible(verdicts)
        if self._scored is not None:
            scored.drop_rows(bytes(row not in self._scored for row in range(verdicts.rows)))
        totals._values = [0.0] * verdicts.rows
        for tally, max_skew, counts_missing in self._spread:
            if tally._each_row:
                weight = math.log(float(len(scored) + 2))
                add_spread_by_row(verdicts, totals, tally._counts, tally._ids, weight, max_skew)
                continue
            sums, ids = tally._summed()
            missing = tally._domains if counts_missing else -1
            size = sum_by_domain(sizes, None, ids, tally._domains + counts_missing, scored, missing)
            add_spread(verdicts, totals, sums, ids, math.log(float(size + 2)), max_skew)
        score_spread(verdicts, scores, totals, scored)
        normalize_spread(verdicts, scores, scored)


@final
class Joiner:
    """Places one pod at a time by its pod class together with its terms, i.e. spread constraints and pod affinity."""

    def __init__(self, placer: Placer) -> None:
        self._placer = placer
        self._judged: tuple[Verdicts, Scores] | None = None

    @property
    def placer(self) -> Placer:
        return self._placer

    def join(self, pod_class: PodClass, terms: Iterable[JoinTerms]) -> int | None:
        """Return the number of rows (nodes) on which a pod of the class with these terms fits.

        `row` then returns the best one. None if amounts or weights are too large for this computation, or a tally
        (count by topology domain) is shorter than the table.
        """
        parts = tuple(terms)
        self._judged = None
        weights = pod_class._weights + sum(part._weight for part in parts)
        if weights > MAX_CLASS_WEIGHT or not all(part._can_tell(self._placer.columns.rows) for part in parts):
            return None
        self._judged = self._placer._judge(pod_class, parts)
        return self._judged[0].feasible_count()

    def row(self, random_bits: int | None) -> int:
        """Return the row of the best node for the pod of the last `join`, chosen like `select_host`; -1 if none."""
        return -1 if self._judged is None else select_host(*self._judged, random_bits)
