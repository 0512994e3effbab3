"""Fair shares of random trees of queues are those of KAI-Scheduler's steps, which in turn give its published results.

KSCHEDULER_PARITY_QUEUES says how many trees are tried, KSCHEDULER_SEED from which seed on.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from random import Random

import pytest

from tests.parity.quotas.compare_divisions import Tally
from tests.parity.quotas.kai_division import UNLIMITED, Division, Number, Row, Terms
from tests.parity.quotas.queue_trees import generate_tree
from tests.quotas.kai_vectors import DIVISIONS, SURPLUS, Asks
from tests.quotas.kai_vectors import Division as Published
from tests.support.seeds import kept_seeds, search_seeds

SEEDS = search_seeds("KSCHEDULER_PARITY_QUEUES", 1600)
FEW = 200  # of a search, which may be asked for one tree
MET = (
    "above what is deserved",
    "less than what is asked for",
    "at the limit",
    "corrected by usage",
)


@pytest.mark.search
def test_fair_shares_of_random_trees_are_kais() -> None:
    tally = Tally()
    for seed in [*kept_seeds("queues"), *SEEDS]:
        tally.add(generate_tree(seed))
        assert not tally.exact, "\n".join(tally.exact)
        assert not tally.apart, "\n".join(tally.apart)
    counts = tally.counts
    assert counts["trees"] < FEW or all(counts[what] for what in MET), counts
    assert counts["divisions that differ by floating point"] * 100 <= counts["divisions"], counts


@pytest.mark.parametrize("number", [float, Fraction])
@pytest.mark.parametrize("case", DIVISIONS, ids=lambda case: case.name)
def test_the_oracle_divides_as_published(case: Published, number: Callable[[float], Number]) -> None:
    check(case, division := oracle_of(case, number), division.divide(number(case.total)))


@pytest.mark.parametrize("number", [float, Fraction])
@pytest.mark.parametrize("case", SURPLUS, ids=lambda case: case.name)
def test_the_oracle_divides_a_surplus_as_published(case: Published, number: Callable[[float], Number]) -> None:
    division = oracle_of(case, number)
    division.fair = {str(index): number(asks.fair) for index, asks in enumerate(case.queues)}
    check(case, division, division.give_surplus(number(case.total)))


def oracle_of(case: Published, number: Callable[[float], Number]) -> Division:
    rows = [Row(str(index), asks.priority, "", terms_of(asks)) for index, asks in enumerate(case.queues)]
    return Division(rows, 1, number, Random(1))


def terms_of(asks: Asks) -> Terms:
    return Terms(
        UNLIMITED if asks.deserved is None else Fraction(asks.deserved),
        UNLIMITED if asks.limit is None else Fraction(asks.limit),
        Fraction(asks.weight),
        Fraction(asks.request),
    )


def check(case: Published, division: Division, left: Number) -> None:
    assert float(left) == pytest.approx(case.left)
    for index, expected in enumerate(case.shares):
        assert expected is None or float(division.fair[str(index)]) == pytest.approx(expected), index
