from __future__ import annotations

from array import array
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from tests.fast.tables import GI, NodeSpec, each_raises, make_columns, plain

ZONES = [0, 0, 1, 1, 2, -1]
ROWS = len(ZONES)


class Bench:
    """Six nodes in three zones, the last in none; all have the same score for what they have."""

    def __init__(self, fast: ModuleType, node_classes: Sequence[int] = (0,) * ROWS) -> None:
        self.fast: Any = fast
        self.columns = make_columns(fast, [NodeSpec(node_class=node_class) for node_class in node_classes])
        self.joiner = self.fast.Joiner(self.fast.Placer(self.columns, 1 << 20))
        self.pods = self.new_class()

    def new_class(self) -> Any:
        return self.fast.PodClass(self.columns, self.fast.PodRequest(*plain(100, GI)), bytes(3))

    def mask(self, *outside: int) -> Any:
        mask = self.fast.RowMask()
        mask.take_alive(self.columns)
        mask.drop_rows(bytearray(row in outside for row in range(self.columns.rows)))
        return mask

    def tally(self, counts: Sequence[int], ids: Sequence[int] = ZONES, *, outside: Sequence[int] = ()) -> Any:
        made = self.fast.DomainTally()
        made.rebuild(array("q", counts), array("i", ids), max(ids) + 1, self.mask(*outside))
        return made

    def each_row(self, counts: Sequence[int], ids: Sequence[int] = tuple(range(ROWS))) -> Any:
        made = self.fast.DomainTally()
        made.rebuild(array("q", counts), array("i", ids), max(ids) + 1, self.mask(), True)
        return made

    def terms(self, weight: int = 0, may_be_first: bool = False) -> Any:
        return self.fast.JoinTerms(weight, may_be_first)

    def feasible(self, *terms: Any) -> list[int]:
        """All rows that the pod fits on. Only where scores are equal."""
        count = self.joiner.join(self.pods, terms)
        return [self.joiner.row(bits) for bits in range(count)]

    def best(self, *terms: Any) -> int:
        self.joiner.join(self.pods, terms)
        row: int = self.joiner.row(None)
        return row


# --- tallies ----------------------------------------------------------------------------------------------------


def test_a_tally_sums_by_domain_the_rows_that_are_looked_at(fast: ModuleType) -> None:
    bench = Bench(fast)
    tally = bench.tally([1, 2, 4, 8, 16, 32], outside=[1])
    assert [tally.sum_of(row) for row in range(ROWS)] == [1, 1, 12, 12, 16, None]
    assert (tally.present, tally.occupied, tally.minimum, tally.is_good) == (3, 3, 1, True)
    assert bench.tally([1] * ROWS, outside=[4]).present == 2


def test_a_tally_follows_what_comes_and_goes(fast: ModuleType) -> None:
    tally = Bench(fast).tally([0] * ROWS, outside=[3])
    for row, amount, minimum, occupied in (
        (0, 2, 0, 1),
        (4, 1, 0, 2),
        (3, 9, 0, 2),  # not looked at
        (2, 3, 1, 3),
        (5, 9, 1, 3),  # in no domain
        (4, 1, 2, 3),
        (1, -1, 1, 3),
        (1, -1, 0, 2),
    ):
        tally.add(row, amount)
        assert (tally.minimum, tally.occupied) == (minimum, occupied), row


def test_hostnames_are_domains_of_one_row_each(fast: ModuleType) -> None:
    tally = Bench(fast).tally([3, 1, 0, 0, 0, 2], [5, 4, 3, 2, 1, -1])
    assert [tally.sum_of(row) for row in range(ROWS)] == [3, 1, 0, 0, 0, None]
    tally.add(2, 7)
    assert (tally.sum_of(2), tally.present, tally.minimum) == (7, 5, 0)
    shared = Bench(fast).each_row([3, 1, 0, 0, 0, 2], [0, 0, 0, 0, 0, -1])
    assert [shared.sum_of(row) for row in range(ROWS)] == [3, 1, 0, 0, 0, None]


def test_a_tally_that_cannot_know_says_so(fast: ModuleType) -> None:
    bench = Bench(fast)
    too_large, unknown, unheard = (bench.tally([0] * ROWS) for _ in range(3))
    too_large.add(0, 1 << 31)
    unknown.add(ROWS, 1)
    unheard.give_up()
    for tally in (too_large, unknown, unheard, bench.tally([1 << 40] * ROWS), bench.fast.DomainTally()):
        assert not tally.is_good
        terms = bench.terms()
        terms.forbid(tally)
        assert bench.joiner.join(bench.pods, [terms]) is None
    too_large.rebuild(array("q", [0] * ROWS), array("i", ZONES), 3, bench.mask())
    assert too_large.is_good


def test_bad_tallies_are_refused(fast: ModuleType) -> None:
    bench = Bench(fast)
    tally, mask = bench.fast.DomainTally(), bench.mask()
    counts, ids = array("q", [0] * ROWS), array("i", ZONES)
    message = "^ids: expected at least 6 rows, got 5$"
    each_raises(ValueError, message, lambda: tally.rebuild(counts, ids[:5], 3, mask))
    message = "^counts: expected at least 6 rows, got 5$"
    each_raises(ValueError, message, lambda: tally.rebuild(counts[:5], ids, 3, mask))
    message = "^row 4 is in domain 2, there are sums for 2$"
    each_raises(IndexError, message, lambda: tally.rebuild(counts, ids, 2, mask))


# --- which rows are left ----------------------------------------------------------------------------------------


def test_hard_spread_keeps_domains_even(fast: ModuleType) -> None:
    bench = Bench(fast)
    tally = bench.tally([1, 0, 1, 1, 0, 5])
    for max_skew, min_domains, own, expected in (
        (1, 1, 1, [4]),
        (2, 1, 1, [0, 1, 4]),
        (2, 1, 0, [0, 1, 2, 3, 4]),
        (1, 4, 1, [4]),
        ((1 << 31) - 1, 1, 1, [0, 1, 2, 3, 4]),
    ):
        terms = bench.terms()
        terms.keep_even(tally, max_skew, min_domains, own)
        assert bench.feasible(terms) == expected, max_skew
    tally.add(4, 1)
    terms = bench.terms()
    terms.keep_even(tally, 1, 3, 1)
    assert bench.feasible(terms) == [0, 1, 4]
    terms = bench.terms()
    terms.keep_even(tally, 1, 4, 1)
    assert bench.feasible(terms) == []


def test_affinity_needs_a_domain_with_such_pods_unless_the_pod_is_the_first(fast: ModuleType) -> None:
    bench = Bench(fast)
    tally = bench.tally([0, 0, 0, 1, 0, 3])
    terms, first = bench.terms(), bench.terms(may_be_first=True)
    for part in (terms, first):
        part.need(tally)
        assert bench.feasible(part) == [2, 3]
    tally.add(3, -1)
    assert bench.feasible(terms) == []
    assert bench.feasible(first) == [0, 1, 2, 3, 4]


def test_anti_affinity_rules_out_domains_with_such_pods(fast: ModuleType) -> None:
    bench = Bench(fast)
    zones, hosts = bench.tally([0, 0, 0, 1, 0, 3]), bench.each_row([1, 0, 0, 0, 0, 0])
    terms = bench.terms()
    terms.forbid(zones)
    terms.forbid(hosts)
    assert bench.feasible(terms) == [1, 4, 5]
    assert bench.best(terms) == 1
    assert bench.joiner.row(5) == 5


# --- how they are scored ----------------------------------------------------------------------------------------


def test_what_is_near_scores_between_the_lowest_and_the_highest_that_are_left(fast: ModuleType) -> None:
    bench = Bench(fast)
    tally, away = bench.tally([1, 0, 3, 0, 9, 0]), bench.tally([0, 0, 0, 0, 1, 0])
    near = bench.terms(weight=2)
    near.prefer(tally, 10)
    assert bench.best(near) == 4
    without = bench.terms()
    without.forbid(away)
    assert bench.best(without, near) == 2
    near.prefer(tally, -20)
    assert bench.best(near) == 5


def test_scores_of_node_classes_are_normalised_over_the_rows_that_are_left(fast: ModuleType) -> None:
    """With row 2 left the others' node class is worth 10, and spreading decides; without it 100."""
    bench = Bench(fast, (0, 0, 1, 1, 2, 2))
    pods = bench.pods
    pods.score_node_classes(array("q", [1, 10, 0]), False, 1)
    assert bench.best() == 2
    near = bench.terms(weight=1)
    near.prefer(bench.each_row([0, 0, 0, 0, 50, 0]), 1)
    assert bench.best(near) == 2
    without = bench.terms()
    without.forbid(bench.tally([0, 0, 1, 0, 0, 0]))
    assert bench.best(without, near) == 0


def test_soft_spread_prefers_domains_with_few_pods(fast: ModuleType) -> None:
    bench = Bench(fast)
    spread = bench.terms(weight=2)
    spread.spread(bench.tally([2, 0, 1, 0, 3, 0]), 1)
    spread.score_only(bench.mask(5))
    assert bench.best(spread) == 2
    spread.spread(bench.each_row([0, 0, 1, 0, 0, 0]), 3)
    assert bench.best(spread) == 3


def test_rows_that_are_not_scored_get_nothing(fast: ModuleType) -> None:
    bench = Bench(fast)
    spread = bench.terms(weight=1)
    spread.spread(bench.tally([2, 2, 1, 1, 3, 0]), 1, True)
    assert bench.best(spread) == 5  # no domain: nothing is there
    spread.score_only(bench.mask(5, 2, 3))
    assert bench.best(spread) == 4


def test_scores_are_of_one_kind(fast: ModuleType) -> None:
    bench = Bench(fast)
    tally, message = (
        bench.tally([0] * ROWS),
        "^terms are scored in one way: for what is near, for how pods spread, or by",
    )
    spread, near = bench.terms(), bench.terms()
    spread.spread(tally, 1)
    near.prefer(tally, 1)
    each_raises(ValueError, message, lambda: spread.prefer(tally, 1), lambda: near.spread(tally, 1))


def test_what_does_not_fit_is_not_answered(fast: ModuleType) -> None:
    bench = Bench(fast)
    tally = bench.tally([1 << 20] * ROWS)
    for name, *more in (("prefer", 1 << 12), ("spread", (1 << 31) - 1)):
        terms = bench.terms(weight=1)
        getattr(terms, name)(tally, *more)
        assert bench.joiner.join(bench.pods, [terms]) is None
        assert bench.joiner.row(None) == -1
    heavy = [bench.terms(weight=bench.fast.MAX_CLASS_WEIGHT) for _ in range(2)]
    assert bench.joiner.join(bench.pods, heavy[:1]) == ROWS
    assert bench.joiner.join(bench.pods, heavy) is None
    bench.columns.add_row()
    bench.columns.set_node_class(ROWS, 0)
    terms = bench.terms()
    terms.need(tally)
    assert bench.joiner.join(bench.pods, [terms]) is None


def test_bad_terms_are_refused(fast: ModuleType) -> None:
    bench = Bench(fast)
    terms, tally = bench.terms(), bench.tally([0] * ROWS)
    each_raises(ValueError, r"^max_skew: expected 1\.\.2147483647, got 0$", lambda: terms.keep_even(tally, 0, 1, 1))
    each_raises(ValueError, r"^min_domains: expected 1\.\.2147483647, got 0$", lambda: terms.keep_even(tally, 1, 0, 1))
    each_raises(ValueError, r"^own: expected 0\.\.1, got 2$", lambda: terms.keep_even(tally, 1, 1, 2))
    each_raises(ValueError, r"^weight: expected 0\.\.21474836, got -1$", lambda: bench.terms(-1))
    with pytest.raises(ValueError, match=r"^the class is of another table$"):
        bench.joiner.join(Bench(fast).pods, ())
