"""The kernel that searches devices, compiled and in Python."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import event, given, settings

from kscheduler.testing.kernels import load_compiled, reference
from tests.support.skips import NOT_BUILT, missing_tool

MOST_STEPS = 3000


@dataclass
class Problem:
    """Claims for devices of one node; by default one claim for one of two devices."""

    claims: list[list[list[int]]] = field(default_factory=lambda: [[[1]]])  # claim -> request -> variant -> number
    matching: list[list[int]] = field(default_factory=lambda: [[1, 1]])  # variant -> device
    in_use: list[int] = field(default_factory=lambda: [0, 0])
    uses: list[list[tuple[int, int]]] = field(default_factory=lambda: [[], []])  # device -> (counter, amount)
    available: list[int] = field(default_factory=list)
    # (claim, kind, each device's value, the variants that it concerns)
    constraints: list[tuple[int, int, list[int], list[int]]] = field(default_factory=list)
    has_alternatives: list[int] | None = None
    flags: list[int] | None = None  # of the variants
    sharing: list[int] | None = None  # of the devices
    room: list[list[int]] | None = None  # device -> what is left of its capacities
    needs: list[int] | None = None  # variant x capacity

    def solve(self, fast: ModuleType, most_steps: int = MOST_STEPS) -> tuple[int, list[int] | None]:
        requests = [variants for claim in self.claims for variants in claim]
        is_choice = self.has_alternatives or [int(len(variants) > 1) for variants in requests]
        flat = [use for uses in self.uses for use in uses]
        room = self.room or [[] for _ in self.in_use]
        arguments: list[Any] = [
            _starts([len(claim) for claim in self.claims]),
            _starts([len(variants) for variants in requests]),
            bytes(is_choice),
            array("i", [count for variants in requests for count in variants]),
            bytes(self.flags or sum(len(variants) for variants in requests)),
            bytes(each for row in self.matching for each in row),
            bytes(self.in_use),
            bytes(self.sharing or len(self.in_use)),
            _starts([len(uses) for uses in self.uses]),
            array("i", [counter for counter, _ in flat]),
            array("q", [amount for _, amount in flat]),
            array("i", [0] * len(self.in_use)),
            array("i", [0, len(self.available)]),
            array("q", self.available),
            _starts([len(of_device) for of_device in room]),
            array("q", [left for of_device in room for left in of_device]),
            array("q", self.needs or ()),
            array("i", [claim for claim, *_ in self.constraints]),
            bytes(kind for _, kind, _, _ in self.constraints),
            array("q", [value for _, _, values, _ in self.constraints for value in values]),
            bytes(each for *_, concerned in self.constraints for each in concerned),
            most_steps,
        ]
        found: tuple[int, list[int] | None] = fast.find_devices(*arguments)
        return found


def _starts(lengths: list[int]) -> array[int]:
    starts = array("i", [0])
    for length in lengths:
        starts.append(starts[-1] + length)
    return starts


def test_the_first_free_device_that_matches_is_taken(fast: ModuleType) -> None:
    assert Problem().solve(fast) == (4, [0, 0])
    assert Problem(in_use=[1, 0]).solve(fast)[1] == [0, 1]
    assert Problem(matching=[[0, 1]]).solve(fast)[1] == [0, 1]
    assert Problem(in_use=[1, 1]).solve(fast) == (1, None)


def test_a_device_is_given_back_for_a_later_claim(fast: ModuleType) -> None:
    problem = Problem(claims=[[[1]], [[1]]], matching=[[1, 1], [1, 0]])
    assert problem.solve(fast)[1] == [0, 1, 1, 0]


def test_alternatives_are_tried_in_order(fast: ModuleType) -> None:
    problem = Problem(claims=[[[2, 1]]], matching=[[1, 0], [0, 1]])
    assert problem.solve(fast)[1] == [1, 1]


def test_counters_must_not_be_overdrawn(fast: ModuleType) -> None:
    problem = Problem(uses=[[(0, 3)], [(0, 2)]], available=[2])
    assert problem.solve(fast)[1] == [0, 1]
    problem.available = [2, -1]  # of the same pool
    assert problem.solve(fast)[1] is None


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (0, [1, 2, 2], [1, 2]),
        (0, [1, -1, 1], [0, 2]),
        (1, [1, 1, 2], [0, 2]),
        (1, [-1, 2, 3], [1, 2]),
        (2, [1, 1, 2], [0, 2]),
        (3, [1, 2, 6], [1, 2]),
        (3, [0, -1, 3, 1], [2, 3]),
        (4, [1, 2, 6], [1, 2]),
        (5, [3, 5, 4], [0, 2]),
        (5, [0, -1, 1, 2], [2, 3]),
        (6, [0, -1, 3, 4], [0, 2]),
    ],
)
def test_constraints_hold(fast: ModuleType, kind: int, values: list[int], expected: list[int]) -> None:
    devices = len(values)
    problem = Problem([[[2]]], [[1] * devices], [0] * devices, [[]] * devices, constraints=[(0, kind, values, [1])])
    found = problem.solve(fast)[1]
    assert found is not None
    assert found[1::2] == expected


def test_only_the_last_value_of_a_request_counts_where_that_is_the_kind(fast: ModuleType) -> None:
    problem = Problem([[[3]]], [[1, 1, 1]], [0] * 3, [[]] * 3, constraints=[(0, 2, [1, 2, 1], [1])])
    assert problem.solve(fast)[1] == [0, 0, 0, 1, 0, 2]


@pytest.mark.parametrize(("kind", "expected"), [(3, [0, 3, 4]), (4, None)])
def test_a_device_that_is_given_back_widens_what_the_others_have_in_common_unless_that_is_the_kind(
    fast: ModuleType, kind: int, expected: list[int] | None
) -> None:
    """The first with the second have the value 1 in common, which no other has; the first with the others, 2."""
    problem = Problem([[[3]]], [[1] * 5], [0] * 5, [[]] * 5, constraints=[(0, kind, [3, 1, 4, 2, 2], [1])])
    found = problem.solve(fast)[1]
    assert (None if found is None else found[1::2]) == expected


def test_a_shared_device_is_chosen_as_long_as_its_capacity_lasts(fast: ModuleType) -> None:
    problem = Problem([[[1]]] * 3, [[1, 1]] * 3, sharing=[1, 1], room=[[5], [5]], needs=[3, 3, 2, 2, 2, 2])
    assert problem.solve(fast)[1] == [0, 0, 1, 0, 2, 1]
    problem.room = [[4], [1]]
    assert problem.solve(fast)[1] is None


def test_a_shared_device_uses_counters_once(fast: ModuleType) -> None:
    problem = Problem([[[1]]] * 2, [[1]] * 2, [0], [[(0, 2)]], [2], sharing=[1])
    assert problem.solve(fast)[1] == [0, 0, 1, 0]
    problem.available = [1]
    assert problem.solve(fast)[1] is None
    problem.available, problem.sharing = [0], [2]
    assert problem.solve(fast)[1] == [0, 0, 1, 0]


def test_all_devices_that_match_are_chosen_or_none(fast: ModuleType) -> None:
    problem = Problem([[[2]]], [[1, 0, 1]], [0] * 3, [[]] * 3, flags=[1])
    assert problem.solve(fast)[1] == [0, 0, 0, 2]
    problem.in_use = [1, 0, 0]
    assert problem.solve(fast)[1] is None
    problem.in_use, problem.matching = [0] * 3, [[1, 0, 2]]
    assert problem.solve(fast)[1] is None
    problem.claims, problem.matching = [[[0]]], [[0, 0, 0]]
    assert problem.solve(fast) == (1, None)


def test_a_constraint_that_all_devices_violate_is_for_the_general_search(fast: ModuleType) -> None:
    problem = Problem([[[2]]], [[1, 1]], constraints=[(0, 0, [1, 2], [1])], flags=[1])
    assert problem.solve(fast) == (-1, None)


def test_admin_access_may_choose_devices_in_use(fast: ModuleType) -> None:
    problem = Problem([[[1], [1]]], [[1, 1]] * 2, in_use=[1, 1], flags=[2, 2])
    assert problem.solve(fast)[1] == [0, 0, 1, 1]  # each once for a claim
    problem.claims = [[[1]], [[1]]]
    assert problem.solve(fast)[1] == [0, 0, 1, 0]


def test_more_results_than_a_claim_can_have_are_no_solution(fast: ModuleType) -> None:
    devices = 40
    problem = Problem([[[20], [13]]], [[1] * devices] * 2, [0] * devices, [[]] * devices)
    assert problem.solve(fast)[1] is None
    problem.claims = [[[20]], [[13]]]
    found = problem.solve(fast)[1]
    assert found is not None
    assert len(found) == 2 * 33


def test_a_search_ends_after_a_number_of_steps(fast: ModuleType) -> None:
    assert Problem().solve(fast, most_steps=3) == (-1, None)
    assert Problem().solve(fast, most_steps=4)[0] == 4


def test_tables_of_different_sizes_are_refused() -> None:
    compiled = load_compiled()
    if compiled is None:
        missing_tool(NOT_BUILT)
    with pytest.raises(ValueError, match="matching: expected 2, got 1"):
        Problem(matching=[[1]]).solve(compiled)
    with pytest.raises(IndexError, match="no counter 1"):
        Problem(uses=[[(1, 1)], []], available=[1]).solve(compiled)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    devices = draw(st.integers(1, 7))
    numbers = st.integers(1, 3)
    requests = st.lists(st.lists(numbers, min_size=1, max_size=3), max_size=3)
    claims = draw(st.lists(requests, min_size=1, max_size=3))
    flat = [variants for claim in claims for variants in claim]
    variants = sum(map(len, flat))
    bits = st.lists(st.sampled_from([0, 1, 1, 1, 2]), min_size=devices, max_size=devices)
    counters = draw(st.integers(0, 3))
    use = st.tuples(st.integers(0, counters - 1), st.integers(0, 3)) if counters else st.nothing()
    uses = st.lists(use, max_size=2) if counters else st.just([])
    values = st.lists(st.integers(-2, 2), min_size=devices, max_size=devices)
    concerned = st.lists(st.integers(0, 1), min_size=variants, max_size=variants)
    numbers_of = st.tuples(st.integers(0, len(claims) - 1), st.integers(0, 2), values, concerned)
    sets = st.lists(st.integers(-1, 15), min_size=devices, max_size=devices)
    sets_of = st.tuples(st.integers(0, len(claims) - 1), st.integers(3, 6), sets, concerned)
    constraint = numbers_of | sets_of
    flags = draw(st.lists(st.sampled_from([0, 0, 0, 1, 2, 3]), min_size=variants, max_size=variants))
    matching = [draw(bits) for _ in range(variants)]
    numbered = iter(zip(flags, matching, strict=True))
    for each in flat:
        for place, (flag, row) in enumerate([next(numbered) for _ in each]):
            if flag & 1:
                each[place] = len(row) - row.count(0)
    sharing = draw(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=devices, max_size=devices))
    room = [draw(st.lists(st.integers(-1, 6), max_size=2)) if each else [] for each in sharing]
    needs = variants * sum(map(len, room))
    return Problem(
        claims,
        matching,
        draw(st.lists(st.sampled_from([0, 0, 0, 1]), min_size=devices, max_size=devices)),
        [draw(uses) for _ in range(devices)],
        draw(st.lists(st.integers(-1, 6), min_size=counters, max_size=counters)),
        draw(st.lists(constraint, max_size=2)),
        [draw(st.integers(0, 1)) if len(each) == 1 else 1 for each in flat],
        flags,
        sharing,
        room,
        draw(st.lists(st.integers(0, 3), min_size=needs, max_size=needs)),
    )


@given(problems())
@settings(max_examples=400, deadline=None)
def test_both_forms_find_the_same_in_as_many_steps(problem: Problem) -> None:
    compiled = load_compiled()
    if compiled is None:
        missing_tool(NOT_BUILT)
    expected = problem.solve(reference)
    assert problem.solve(compiled) == expected
    event("found" if expected[1] is not None else "too long" if expected[0] < 0 else "none")
