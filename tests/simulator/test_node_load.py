"""A node's load adds up exactly: what pods use while they rise, and after; and the time above a level."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.simulator.node_load import NodeLoad


def test_what_comes_and_goes_leaves_no_trace() -> None:
    load = NodeLoad(0.0)
    load.add(1.0, "a", 300)
    load.add(2.0, "b", 700, ramp_s=10.0)
    load.remove(5.0, "b", 700)
    load.remove(9.0, "a", 300)
    assert load.at(9.0) == 0
    assert load.integral_until(20.0) == pytest.approx(300 * 8 + 700 * 0.3 * 3 / 2)


def test_a_pod_rises_in_a_straight_line() -> None:
    load = NodeLoad(0.0)
    load.add(10.0, "a", 100, ramp_s=20.0)
    assert [load.at(10.0), load.at(15.0), load.at(30.0), load.at(99.0)] == [0.0, 25.0, 100.0, 100.0]
    load.settle(50.0)
    load.remove(60.0, "a", 100)
    assert load.at(60.0) == 0


def test_the_time_above_a_level_is_exact_while_a_pod_rises() -> None:
    load = NodeLoad(0.0)
    load.set_capacity(0.0, 100)
    load.add(0.0, "a", 100, ramp_s=100.0)
    load.settle(150.0)
    # Above 80 from second 80 on, above 90 from 90 on, and never above 100.
    assert load.over_s == [pytest.approx(70.0), pytest.approx(60.0), 0.0]


def test_a_node_with_nothing_to_give_is_above_no_level() -> None:
    load = NodeLoad(0.0)
    load.add(0.0, "a", 100)
    load.settle(10.0)
    assert load.over_s == [0.0, 0.0, 0.0]


EVENT = st.tuples(st.integers(0, 20), st.integers(1, 500), st.integers(0, 40), st.integers(1, 60))


@given(st.lists(EVENT, max_size=8), st.lists(st.integers(0, 150), max_size=5))
def test_sums_are_those_of_many_small_steps(pods: list[tuple[int, int, int, int]], looks: list[int]) -> None:
    """`pods`: start, amount, ramp and life, in seconds; `looks` settle in between, which must not matter."""
    load = NodeLoad(0.0)
    load.set_capacity(0.0, 500)
    moments = [(start, 1, number) for number, (start, _, _, _) in enumerate(pods)]
    moments += [(start + life, -1, number) for number, (start, _, _, life) in enumerate(pods)]
    moments += [(look, 0, 0) for look in looks]
    for at, sign, number in sorted(moments):
        _, amount, ramp, _ = pods[number] if pods else (0, 0, 0, 0)
        if sign > 0:
            load.add(float(at), str(number), amount, float(ramp))
        elif sign < 0:
            load.remove(float(at), str(number), amount)
        else:
            load.settle(float(at))
    load.settle(150.0)
    # Straight lines between whole seconds: the middle of each second is its mean.
    exact = sum(_at(pods, second + 0.5) for second in range(150))
    assert load.integral_until(150.0) == pytest.approx(exact)
    fine = sum(_at(pods, (step + 0.5) / 20) > 400 for step in range(150 * 20)) / 20
    assert load.over_s[0] == pytest.approx(fine, abs=0.5)


def _at(pods: list[tuple[int, int, int, int]], now: float) -> float:
    return sum(
        amount * min(1.0, (now - start) / ramp if ramp else 1.0)
        for start, amount, ramp, life in pods
        if start <= now < start + life
    )
