"""Amounts of resources added to vectors and compared with limits, in both forms of the kernel."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.support.skips import NOT_BUILT, missing_tool


def test_a_request_is_added_so_many_times_and_the_vector_grows(fast: ModuleType) -> None:
    vector = [1]
    fast.add_amounts(vector, ((0, 2), (3, 2**70)), 2)
    assert vector == [5, 0, 0, 2**71]
    fast.add_amounts(vector, {0: 2, 4: 0}.items(), -1)
    assert vector == [3, 0, 0, 2**71, 0]


def test_a_place_below_zero_is_refused(fast: ModuleType) -> None:
    with pytest.raises(IndexError, match="place: expected at least 0, got -1"):
        fast.add_amounts([1], ((-1, 1),))


def test_requests_stay_within_the_limits_of_what_they_name(fast: ModuleType) -> None:
    limits = {0: 10, 2: 0}
    assert fast.is_within(limits, [4], ((0, 2),), 3)
    assert not fast.is_within(limits, [4], ((0, 2),), 4)
    assert fast.is_within(limits, [4], ((1, 2**70),), 9), "it has no limit"
    assert fast.is_within(limits, [11], ((2, 0),), 1), "a limit that it does not name is not compared"
    assert not fast.is_within(limits, [11], ((0, 0),), 1), "a limit that is exceeded already"
    assert not fast.is_within(limits, [], ((2, 1),), 1)


amounts = st.one_of(st.integers(0, 9), st.sampled_from([2**62, 2**63, 2**70]))
requests = st.dictionaries(st.integers(0, 5), amounts, max_size=4).map(lambda found: tuple(sorted(found.items())))


@given(st.lists(amounts, max_size=5), requests, st.integers(-3, 300), st.dictionaries(st.integers(0, 5), amounts))
def test_both_forms_do_the_same(
    used: list[int], request: tuple[tuple[int, int], ...], number: int, limits: dict[int, int]
) -> None:
    compiled = load_compiled()
    if compiled is None:
        missing_tool(NOT_BUILT)
    assert reference.is_within(limits, used, request, number) == compiled.is_within(limits, used, request, number)
    one, other = list(used), list(used)
    reference.add_amounts(one, request, number)
    compiled.add_amounts(other, request, number)
    assert one == other
