from __future__ import annotations

from types import ModuleType

import pytest

from tests.fast.tables import NodeSpec, codes, each_raises, make_columns, start

DEAD = NodeSpec(alive=False)
NODE = NodeSpec()


def test_reset_makes_every_node_feasible_and_leaves_dead_rows_out(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NODE, DEAD, NODE]))
    assert codes(verdicts) == [(fast.FEASIBLE, 0), (fast.NO_NODE, 0), (fast.FEASIBLE, 0)]
    assert (verdicts.feasible_count(), verdicts.feasible_rows()) == (2, [0, 2])


def test_reset_forgets_the_pod_before_and_takes_a_larger_table(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NODE] * 3))
    verdicts.reject(1, 7, 8)
    verdicts.reset(make_columns(fast, [NODE] * 40))
    assert codes(verdicts) == [(0, 0)] * 40
    verdicts.reject(39, 7, 8)
    verdicts.reset(make_columns(fast, [NODE] * 2))
    assert codes(verdicts) == [(0, 0)] * 2


def test_without_nodes_there_is_nothing_to_say(fast: ModuleType) -> None:
    verdicts, _ = start(fast, fast.NodeColumns())
    assert (verdicts.rows, verdicts.feasible_count(), verdicts.feasible_rows()) == (0, 0, [])
    assert (verdicts.histogram(), verdicts.rows_with(0, 0), verdicts.limit_feasible(0, 5)) == ({}, [], 0)
    verdicts.reject_rows([], 1)
    verdicts.keep_only([], 1)
    with pytest.raises(IndexError, match=r"^row 0: the table is empty$"):
        verdicts.code(0)


def test_the_first_reason_stands(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NODE, DEAD]))
    verdicts.reject(0, 3)
    verdicts.reject(0, 4, 9)
    verdicts.reject(1, 4, 9)
    verdicts.reject_rows([0, 1], 5)
    assert codes(verdicts) == [(3, 0), (fast.NO_NODE, 0)]


def test_rows_are_rejected_together(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NODE] * 4))
    verdicts.reject_rows([3, 1, 3], 6, 2)
    assert codes(verdicts) == [(0, 0), (6, 2), (0, 0), (6, 2)]


def test_keep_only_rejects_the_feasible_rest(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NODE, NODE, NODE, DEAD, NODE]))
    verdicts.reject(0, 1, 1)
    verdicts.keep_only([4, 0, 3, 4], 6, 2)
    assert codes(verdicts) == [(1, 1), (6, 2), (6, 2), (fast.NO_NODE, 0), (0, 0)]
    verdicts.keep_only([], 7)
    assert verdicts.feasible_count() == 0


def test_a_bad_row_in_a_list_changes_nothing(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NODE] * 3))
    for call in (verdicts.reject_rows, verdicts.keep_only):
        for bad in (3, -1):
            with pytest.raises(IndexError, match=rf"^row {bad} outside 0\.\.2$"):
                call([0, bad], 5)
    assert codes(verdicts) == [(0, 0)] * 3


def test_the_histogram_counts_nodes_by_reason(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NODE] * 6 + [DEAD]))
    verdicts.reject_rows([0, 3], 5, 2)
    verdicts.reject(4, 5, 2 | fast.UNRESOLVABLE)
    assert verdicts.histogram() == {(0, 0): 3, (5, 2): 2, (5, 2 | fast.UNRESOLVABLE): 1}
    assert verdicts.rows_with(5, 2) == [0, 3]
    assert verdicts.rows_with(0, 0) == [1, 2, 5]


def test_the_histogram_holds_more_reasons_than_it_has_slots(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NODE] * 600))
    for row in range(600):
        verdicts.reject(row, 1 + row % 3, row % 150)
    expected = {(1 + row % 3, row % 150): 4 for row in range(150)}
    assert verdicts.histogram() == expected


def test_limit_examines_in_a_circle_up_to_a_feasible_node_too_many(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NODE, NODE, DEAD, NODE, NODE, NODE]))
    verdicts.reject(4, 5, 1)
    verdicts.reject(1, 5, 1)
    # From row 3: 3 feasible, 4 rejected, 5 feasible; 0 is one too many, and row 1 is not read.
    assert verdicts.limit_feasible(3, 2) == 3
    left = (fast.NOT_EXAMINED, 0)
    assert codes(verdicts) == [left, left, (fast.NO_NODE, 0), (0, 0), (5, 1), (0, 0)]
    assert verdicts.histogram() == {(0, 0): 2, (5, 1): 1, left: 2}


def test_limit_examines_rejected_nodes_behind_the_last_wanted_one(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NODE] * 5))
    verdicts.reject_rows([1, 2], 5, 1)
    assert verdicts.limit_feasible(0, 1) == 3
    assert codes(verdicts) == [(0, 0), (5, 1), (5, 1), (fast.NOT_EXAMINED, 0), (fast.NOT_EXAMINED, 0)]


def test_a_limit_nobody_reaches_examines_every_node(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NODE, DEAD, NODE]))
    assert verdicts.limit_feasible(1, 1 << 62) == 2
    assert verdicts.feasible_rows() == [0, 2]


def test_limit_checks_where_to_start_and_how_many(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NODE] * 2))
    with pytest.raises(IndexError, match=r"^start 2 outside 0\.\.1$"):
        verdicts.limit_feasible(2, 1)
    with pytest.raises(ValueError, match=r"^limit: expected 1"):
        verdicts.limit_feasible(0, 0)


@pytest.mark.parametrize("code", [-1, 0, 201, 253, 254, 255, 256])
def test_codes_that_are_not_the_callers_are_refused(fast: ModuleType, code: int) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NODE]))
    each_raises(
        ValueError,
        rf"^code: expected 1\.\.200, got {code}$",
        lambda: verdicts.reject(0, code),
        lambda: verdicts.reject_rows([0], code),
        lambda: verdicts.keep_only([0], code),
    )


def test_a_detail_is_not_negative_and_fits_63_bits(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NODE]))
    for detail in (-1, 1 << 63):
        with pytest.raises(ValueError, match=r"^detail: expected 0"):
            verdicts.reject(0, 1, detail)
    verdicts.reject(0, 1, (1 << 63) - 1)
    assert verdicts.detail(0) == (1 << 63) - 1


def test_reading_outside_the_table_is_an_index_error(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NODE]))
    each_raises(
        IndexError,
        r"outside 0\.\.0$",
        lambda: verdicts.code(1),
        lambda: verdicts.detail(-1),
        lambda: verdicts.reject(1, 1),
    )
