"""Percentages of two rows at a time are those of integers, and the measurement says whether the goal is met."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kscheduler._fast import COMPILED
from perf.wasm_columns import TURN, guest_forms, kernel_form, main, native_forms, ratio, scores_by_hand
from tests.support.skips import NOT_BUILT, package

package("wasmtime")
package("ziglang")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not COMPILED, reason=NOT_BUILT)]

MOST = (1 << 46) - 1
amount = st.one_of(st.integers(0, 9), st.integers(0, MOST), st.integers(MOST - 1000, MOST))
nodes = st.lists(st.tuples(amount, amount, amount, amount), min_size=TURN, max_size=TURN)


def beside_whole_percents(step: int) -> list[tuple[int, int, int, int]]:
    """Nodes as large as may be, whose free part is the least that makes a percentage whole, or one more or less."""
    found = []
    for node in range(TURN):
        has, percent = MOST - 7 * node, 6 * node + 3
        used = has - -(-percent * has // 100) - step
        found.append((has, 100 * node + 1, used, 3 * node))
    return found


@settings(max_examples=150, deadline=None)
@given(nodes, amount, amount)
@example([(MOST, MOST - 1, MOST // 2, 1)] * TURN, 0, MOST)
@example(beside_whole_percents(-1), 0, 0)
@example(beside_whole_percents(0), 0, 0)
@example(beside_whole_percents(1), 0, 0)
def test_every_form_gives_the_scores_of_integers(table: list[tuple[int, int, int, int]], cpu: int, memory: int) -> None:
    amounts = tuple(map(list, zip(*table, strict=True)))
    expected = scores_by_hand(amounts, cpu, memory)  # type: ignore[arg-type]
    for forms in (native_forms, guest_forms):
        for form in forms(amounts, cpu, memory):  # type: ignore[arg-type]
            form.score()
            assert form.scores() == expected, form.name


def test_the_kernel_that_is_compared_with_gives_equal_scores() -> None:
    amounts = ([0, 4000, 0, 4000], [0, 0, 1 << 30, 1 << 30], [0, 999, 0, 9999], [0, 0, 1 << 29, 3])
    form = kernel_form(amounts, 10, 1 << 20)
    form.score()
    assert form.scores() == scores_by_hand(amounts, 10, 1 << 20)


def test_ratios_are_taken_within_a_round() -> None:
    assert ratio({"kernel": [1.0, 2.0, 4.0], "guest": [3.0, 4.0, 4.0]}, "guest", "kernel") == 2.0


def test_the_command_says_whether_the_goal_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rows", "160", "--rounds", "1"]) == 0
    assert capsys.readouterr().out.count("goal <= 1.5") == 2
