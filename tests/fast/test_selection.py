from __future__ import annotations

from types import ModuleType
from typing import Any

from tests.fast.tables import NodeSpec, each_raises, make_columns, start


def with_totals(fast: ModuleType, totals: list[int], rejected: tuple[int, ...] = ()) -> tuple[Any, Any]:
    verdicts, scores = start(fast, make_columns(fast, [NodeSpec()] * len(totals)))
    for row, total in enumerate(totals):
        scores.set_raw(row, total)
    assert fast.accumulate(verdicts, scores, 1) == -1
    verdicts.reject_rows(rejected, 1)
    return verdicts, scores


def test_the_best_total_and_how_many_share_it(fast: ModuleType) -> None:
    assert fast.best_total(*with_totals(fast, [3, 9, 9, 1])) == (9, 2)
    assert fast.best_total(*with_totals(fast, [3, 9, 9, 1], rejected=(1, 2))) == (3, 1)
    assert fast.best_total(*with_totals(fast, [0, 0])) == (0, 2)


def test_ties_go_to_the_lowest_row_or_to_the_bits(fast: ModuleType) -> None:
    table = with_totals(fast, [5, 7, 7, 0, 7, 7], rejected=(2,))
    assert fast.select_host(*table, None) == 1
    assert [fast.select_host(*table, bits) for bits in range(5)] == [1, 4, 5, 1, 4]
    assert fast.select_host(*table, (1 << 200) + 1) == [1, 4, 5][((1 << 200) + 1) % 3]


def test_a_single_best_needs_no_bits(fast: ModuleType) -> None:
    table = with_totals(fast, [5, 7, 0])
    assert {fast.select_host(*table, bits) for bits in (None, 0, 1, 2)} == {1}


def test_no_feasible_row_is_no_host(fast: ModuleType) -> None:
    table = with_totals(fast, [5, 7], rejected=(0, 1))
    assert fast.best_total(*table) == (-1, 0)
    assert (fast.select_host(*table, None), fast.select_host(*table, 5)) == (-1, -1)
    empty = start(fast, fast.NodeColumns())
    assert fast.best_total(*empty) == (-1, 0)
    assert fast.select_host(*empty, 3) == -1


def test_scores_of_a_smaller_table_do_not_meet_larger_verdicts(fast: ModuleType) -> None:
    verdicts, _ = with_totals(fast, [1, 2])
    _, scores = with_totals(fast, [1])
    message = "^verdicts have 2 rows, these scores 1: reset them together$"
    each_raises(
        ValueError, message, lambda: fast.best_total(verdicts, scores), lambda: fast.select_host(verdicts, scores, None)
    )
