"""Amounts in use are exact, and their integrals are those of the times between the changes."""

from __future__ import annotations

import random
from types import ModuleType

import pytest

from kscheduler._fast.reference import use_over_time as reference


def test_integrals_count_what_was_in_use_until_each_change(fast: ModuleType) -> None:
    use = fast.UseOverTime(2, 10.0)
    assert not use.change(((0, 3), (1, 2**70)), 1, 12.0, [3, 2**70])
    assert use.amounts == [3, 2**70]
    assert use.integrals == [0.0, 0.0]
    use.change(((0, 1),), -1, 16.0, [3, 2**70])
    use.settle(17.0)
    assert use.amounts == [2, 2**70]
    assert use.integrals == [3 * 4.0 + 2 * 1.0, 2**70 * 5.0]


def test_a_resource_above_its_limit_is_reported_if_it_was_changed(fast: ModuleType) -> None:
    use = fast.UseOverTime(2, 0.0)
    assert use.change(((0, 5),), 1, 0.0, [4, 4])
    assert not use.change(((1, 4),), 1, 0.0, [4, 4])
    assert use.change(((0, 1), (1, 1)), 1, 0.0, [6, 4])


def test_a_resource_that_is_added_later_was_not_in_use(fast: ModuleType) -> None:
    use = fast.UseOverTime(0, 0.0)
    use.add_resource()
    use.settle(5.0)
    use.change(((0, 1),), 1, 5.0, [1])
    use.settle(7.0)
    assert (use.amounts, use.integrals) == ([1], [2.0])


@pytest.mark.parametrize(("index", "limits"), [(2, [9, 9, 9]), (-1, [9, 9]), (1, [9])])
def test_an_index_out_of_range_changes_nothing(fast: ModuleType, index: int, limits: list[int]) -> None:
    use = fast.UseOverTime(2, 0.0)
    with pytest.raises(IndexError):
        use.change(((0, 1), (index, 1)), 1, 1.0, limits)
    assert (use.amounts, use.integrals) == ([0, 0], [0.0, 0.0])


def test_random_changes_give_the_same_bits_as_the_reference(fast: ModuleType) -> None:
    rng = random.Random(5)
    one, other, now_s = fast.UseOverTime(4, 0.0), reference.UseOverTime(4, 0.0), 0.0
    for _ in range(2_000):
        now_s += rng.choice([0.0, 0.1, rng.expovariate(1.0), 1e6 * rng.random()])
        parts = tuple((index, rng.randrange(10 ** rng.randrange(1, 16))) for index in rng.sample(range(4), 2))
        sign, limits = rng.choice([1, -1]), [rng.randrange(10**14) for _ in range(4)]
        assert one.change(parts, sign, now_s, limits) == other.change(parts, sign, now_s, limits)
    assert (one.amounts, one.integrals) == (other.amounts, other.integrals)
