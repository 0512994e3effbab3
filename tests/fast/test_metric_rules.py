"""Rules on live metrics: what they say of a row, and that all forms say it of all rows at any time."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler._fast.metric_formulas import (
    EQUAL,
    GREATER,
    LESS,
    LOW_RISK,
    MAXIMIZE,
    MINIMIZE,
    NOT_EQUAL,
    PODS,
    TARGET,
    Load,
    MetricGoal,
    MetricTest,
)
from kscheduler.testing.kernels import load_compiled, reference
from tests.fast.strategies import RESOURCES, allocatable, nodes, pods
from tests.fast.tables import GI, NodeSpec, codes, each_raises, make_columns, plain, raws, start
from tests.support.seeds import sampled
from tests.support.skips import NOT_BUILT

NAN, INF = math.nan, math.inf
COMPILED = load_compiled()


def goal(kind: int = MINIMIZE, **reported: Any) -> MetricGoal:
    return MetricGoal(**{"kind": kind, "value": 0, "weight": 1, "neutral": 50.0, "excludes": False, **reported})


def points(fast: ModuleType, values: Sequence[float], *goals: MetricGoal, low: float = 0.0, high: float = 1.0) -> Any:
    """One input for all, on as many empty nodes as there are values."""
    columns = make_columns(fast, [NodeSpec()] * len(values))
    rules = fast.MetricRules(columns, [], goals, 1)
    rules.feed([array("d", values)], [(low, high)] * len(goals))
    return [rules.points(row) for row in range(len(values))]


def marks(fast: ModuleType, inputs: Sequence[Sequence[float]], *groups: Sequence[MetricTest]) -> list[int]:
    columns = make_columns(fast, [NodeSpec()] * len(inputs[0]))
    rules = fast.MetricRules(columns, groups, [], len(inputs))
    rules.feed([array("d", each) for each in inputs], [])
    return [rules.mark(row) for row in range(columns.rows)]


def test_less_is_better_within_the_range_and_past_its_ends_nothing_changes(fast: ModuleType) -> None:
    assert points(fast, [0.0, 0.25, 1.0, -3.0, 7.0], goal(MINIMIZE)) == [100, 75, 0, 100, 0]
    assert points(fast, [0.0, 0.25, 1.0, -3.0, 7.0], goal(MAXIMIZE)) == [0, 25, 100, 0, 100]
    assert points(fast, [60.0, 70.0], goal(MINIMIZE), low=60.0, high=80.0) == [100, 50]


def test_a_range_without_width_distinguishes_its_one_value_from_worse_ones(fast: ModuleType) -> None:
    for kind, expected in ((MINIMIZE, [100, 0]), (MAXIMIZE, [100, 100]), (TARGET, [100, 0]), (LOW_RISK, [100, 0])):
        assert points(fast, [3.0, 4.0], goal(kind, deviation=0, margin=0.0), low=3.0, high=3.0)[0] == expected[0]


def test_a_target_is_packed_up_to_and_kept_clear_of_past_it(fast: ModuleType) -> None:
    """With 40 % for a target, 0 % is worth 40 points and 20 % 70; past it 70 % is worth 20, and 100 % nothing."""
    values = [0.0, 0.2, 0.4, 0.7, 1.0, 1.1]
    assert points(fast, values, goal(TARGET, target=0.4)) == [40, 70, 100, 20, 0, 0]
    assert points(fast, [0.0, 0.5], goal(TARGET, target=0.0)) == [100, 0]
    assert points(fast, [0.0, 0.5, 1.0], goal(TARGET, target=1.0)) == [100, 100, 100]


def test_risk_is_the_mean_and_what_it_varies_by(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()] * 4)
    mean, deviation = array("d", [0.5, 0.5, 0.5, NAN]), array("d", [0.0, 0.25, NAN, 0.1])
    for reported, expected in (
        ({}, [75, 63, 50, 50]),
        ({"sensitivity": 2.0}, [75, 50, 50, 50]),  # the root of a quarter
        ({"margin": 2.0}, [75, 50, 50, 50]),
        ({"margin": 9.0}, [75, 25, 50, 50]),
        ({"sensitivity": 0.0}, [75, 75, 50, 50]),
    ):
        rules = fast.MetricRules(columns, [], [goal(LOW_RISK, deviation=1, **reported)], 2)
        rules.feed([mean, deviation], [(0.0, 1.0)])
        assert [rules.points(row) for row in range(4)] == expected, reported


def test_goals_count_by_weight_and_halves_are_rounded_up(fast: ModuleType) -> None:
    assert points(fast, [0.0], goal(MINIMIZE, weight=3), goal(MAXIMIZE)) == [75]
    assert points(fast, [0.0], goal(MINIMIZE), goal(MAXIMIZE, weight=7)) == [13]
    assert points(fast, [0.3]) == [0]
    assert points(fast, [0.3], goal(MINIMIZE, weight=0)) == [0]


def test_a_value_that_is_no_number_is_none(fast: ModuleType) -> None:
    absent = [NAN, INF, -INF]
    assert points(fast, absent, goal(MINIMIZE, neutral=17.0)) == [17, 17, 17]
    assert points(fast, [0.5], goal(MINIMIZE, neutral=17.0), low=NAN, high=NAN) == [17]
    assert marks(fast, [absent], [MetricTest(0, LESS, 5.0, False)]) == [0, 0, 0]
    assert marks(fast, [absent], [MetricTest(0, LESS, 5.0, True)]) == [2, 2, 2]


def test_of_each_group_one_test_has_to_hold_and_the_mark_names_the_first_that_fails(fast: ModuleType) -> None:
    first, second = [1.0, 1.0, 9.0, 9.0, NAN], [1.0, 9.0, 1.0, 9.0, NAN]
    low, lower = MetricTest(0, LESS, 5.0, True), MetricTest(1, LESS, 5.0, True)
    assert marks(fast, [first, second], [low, lower]) == [0, 0, 0, 1, 2]
    assert marks(fast, [first, second], [low], [lower]) == [0, 2, 1, 1, 3]
    assert marks(fast, [first, second], []) == [1] * 5
    assert marks(fast, [first], [MetricTest(0, EQUAL, 9.0, False)]) == [1, 1, 0, 0, 0]
    assert marks(fast, [first], [MetricTest(0, NOT_EQUAL, 9.0, False)]) == [0, 0, 1, 1, 0]


def test_a_goal_may_leave_out_nodes_without_a_value(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(), NodeSpec()])
    rules = fast.MetricRules(columns, [[MetricTest(0, LESS, 5.0, False)]], [goal(), goal(excludes=True)], 1)
    rules.feed([array("d", [1.0])], [(0, 1), (0, 1)])
    assert [rules.mark(row) for row in (0, 1)] == [0, 4]


def test_pods_that_came_since_the_sample_count_and_pods_that_went_too(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec((4000, 8 * GI, 0), pods=(plain(1000, 0),))])
    cpu, each = Load(0, 1.0, 1), Load(PODS, 0.125, 2)
    rules = fast.MetricRules(
        columns, [[MetricTest(0, GREATER, 0.5, True, cpu)]], [goal(load=cpu), goal(MAXIMIZE, load=each)], 3
    )
    rules.feed([array("d", [0.25]), array("d", [1000.0]), array("d", [1.0])], [(0, 1), (0, 1)])
    assert (rules.mark(0), rules.points(0)) == (1, (75 + 25) // 2)
    columns.add_pod(0, fast.PodRequest(*plain(2000, 0)))
    assert (rules.mark(0), rules.points(0)) == (0, 31)  # 0.75 by cpu, 0.375 by pods
    columns.remove_pod(0, fast.PodRequest(*plain(2000, 0)))
    columns.remove_pod(0, fast.PodRequest(*plain(1000, 0)))
    assert (rules.mark(0), rules.points(0)) == (1, 56)  # never below zero


def test_without_a_baseline_or_anything_to_share_a_value_stands_as_it_is(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec((4000, 0, 0)), NodeSpec((0, 0, 0), pods=(plain(9, 0),))])
    rules = fast.MetricRules(columns, [], [goal(load=Load(0, 1.0, 1))], 2)
    rules.feed([array("d", [0.25, 0.25]), array("d", [NAN, 0.0])], [(0, 1)])
    assert [rules.points(row) for row in (0, 1)] == [75, 75]


def test_a_negative_value_may_be_corrected_upwards_only(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec((1000, 0, 0))])
    rules = fast.MetricRules(columns, [], [goal(load=Load(0, 20.0, 1))], 2)
    rules.feed([array("d", [-10.0]), array("d", [500.0])], [(-20.0, 0.0)])
    assert rules.points(0) == 50


def test_table_forms_reject_and_score_what_is_still_in(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()] * 4)
    rules = fast.MetricRules(columns, [[MetricTest(0, LESS, 0.5, True)]], [goal()], 1)
    rules.feed([array("d", [0.1, 0.2, 0.9])], [(0.0, 1.0)])
    verdicts, scores = start(fast, columns)
    verdicts.reject(0, 9, 9)
    assert rules.filter(verdicts, 3) == 1
    assert codes(verdicts) == [(9, 9), (0, 0), (3, 0), (3, 1)]
    rules.score(verdicts, scores)
    assert raws(scores) == [0, 80, 0, 0]


def test_bad_arguments_are_named(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()])
    other = make_columns(fast, [NodeSpec()])
    rules = fast.MetricRules(columns, [], [goal()], 1)
    make = fast.MetricRules
    each_raises(IndexError, "input 1 outside", lambda: make(columns, [], [goal(value=1)], 1))
    each_raises(
        IndexError, "input 2 outside", lambda: make(columns, [[MetricTest(0, 0, 0.0, True, Load(0, 1.0, 2))]], [], 1)
    )
    each_raises(
        ValueError, "expected",
        lambda: make(columns, [], [goal(7)], 1),
        lambda: make(columns, [[MetricTest(0, 6, 0.0, True)]], [], 1),
        lambda: make(columns, [], [goal(weight=-1)], 1),
        lambda: make(columns, [], [goal(neutral=101.0)], 1),
        lambda: make(columns, [[]] * 128, [], 1),
        lambda: make(columns, [], [goal(load=Load(3, 1.0, 0))], 1),
        lambda: make(columns, [], [], 5000),
        lambda: rules.feed([], [(0, 1)]),
        lambda: rules.feed([array("d")], []),
        lambda: rules.filter(start(fast, columns)[0], 0),
    )  # fmt: skip
    each_raises(IndexError, "row 1", lambda: rules.mark(1), lambda: rules.points(1))
    made = fast.PodClass(other, fast.PodRequest(*plain(1, 1)), b"\0")
    each_raises(ValueError, "another table", lambda: made.follow_rules(rules, True))


# --- what was in use when a sample was taken ---


def test_use_is_copied_as_it_is_now(fast: ModuleType) -> None:
    table = [NodeSpec(pods=(plain(100, 5), plain(50, 0))), NodeSpec(), NodeSpec(alive=False)]
    columns = make_columns(fast, table)
    assert list(fast.copy_use(columns, 0))[:2] == [150.0, 0.0]
    assert list(fast.copy_use(columns, PODS))[:2] == [2.0, 0.0]
    assert math.isnan(fast.copy_use(columns, PODS)[2])
    each_raises(ValueError, "resource", lambda: fast.copy_use(columns, 3))


def test_a_sample_of_a_moment_is_about_what_was_there_then(fast: ModuleType) -> None:
    times, uses = array("d", [10, 20, 30]), [array("d", [1, NAN]), array("d", [2, 2]), array("d", [3, 3])]
    now = array("d", [9, 9, 9])

    def at(moment: float) -> list[float]:
        return list(fast.mean_use(times, uses, array("d", [moment] * 2), 0.0, now))

    assert [at(moment) for moment in (5, 10, 20, 20.5, 31)] == [[1, 2, 9], [1, 2, 9], [1, 2, 9], [2, 2, 9], [3, 3, 9]]
    assert list(fast.mean_use(times, uses, array("d", [INF, NAN]), 0.0, now)) == [9, 9, 9]
    assert list(fast.mean_use(array("d"), [], array("d", [1]), 0.0, now)) == [9, 9, 9]


def test_a_sample_over_a_window_is_about_the_mean(fast: ModuleType) -> None:
    times, uses = array("d", [10, 20]), [array("d", [4, NAN]), array("d", [8, 8])]
    now = array("d", [9, 9])
    assert list(fast.mean_use(times, uses, array("d", [30, 30]), 40.0, now)) == [5.0, 8.0]
    assert list(fast.mean_use(times, uses, array("d", [12, 12]), 4.0, now)) == [4.0, 8.0]
    unknown = [array("d"), array("d", [NAN, NAN])]
    assert list(fast.mean_use(times, unknown, array("d", [12, 12]), 4.0, now)) == [9.0, 9.0]
    each_raises(ValueError, "uses: expected 1", lambda: fast.mean_use(array("d", [1]), [], array("d", [1]), 0.0, now))


# --- all forms agree ---

doubles = st.one_of(
    st.sampled_from([NAN, INF, -INF, 0.0, 1.0, -1.0, 0.5, 1e300, -1e300, 5e-324]),
    st.floats(0, 1.5),
    st.floats(allow_nan=True, allow_infinity=True),
)
finite = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 100.0]), st.floats(-2, 2), st.floats(-1e12, 1e12))
INPUTS = 4
number = st.integers(0, INPUTS - 1)
loads = st.none() | st.builds(Load, st.integers(PODS, RESOURCES - 1), finite, number)
tests = st.builds(MetricTest, number, st.integers(0, 5), finite, st.booleans(), loads)
goals = st.builds(
    MetricGoal,
    kind=st.integers(0, 3), value=number, weight=st.integers(0, 100), neutral=st.floats(0, 100),
    excludes=st.sampled_from([False, False, True]), load=loads, target=finite, deviation=number,
    margin=st.floats(0, 10), sensitivity=st.sampled_from([1.0, 2.0, 0.5, 0.0, -1.0, 3.7]),
)  # fmt: skip
columns_of_doubles = st.lists(
    st.lists(doubles, max_size=10).map(lambda v: array("d", v)), min_size=INPUTS, max_size=INPUTS
)
row = st.integers(0, 8)
changes = st.one_of(
    st.tuples(st.just("add_row")),
    st.tuples(st.just("free_row"), row),
    st.tuples(st.just("set_allocatable"), row, st.integers(0, RESOURCES - 1), allocatable),
    st.tuples(st.just("add_pod"), row, pods),
    st.tuples(st.just("remove_pod"), row, pods),
)
feeds = st.tuples(st.just("feed"), columns_of_doubles, st.tuples(finite, finite))
steps = st.one_of(
    feeds,
    st.tuples(st.just("change"), changes),
    st.tuples(st.just("place"), st.integers(0, 1)),
    st.tuples(st.just("many"), st.lists(st.integers(0, 1), max_size=8)),
    st.tuples(st.just("look")),
)


@dataclass
class Run:
    """One form with rules, and two classes that follow them."""

    fast: Any
    table: list[NodeSpec]
    groups: list[list[MetricTest]]
    goals: list[MetricGoal]

    def __post_init__(self) -> None:
        fast = self.fast
        self.columns = make_columns(fast, self.table, RESOURCES)
        self.rules = fast.MetricRules(self.columns, self.groups, self.goals, INPUTS)
        self.placer = fast.Placer(self.columns, 1 << 30)
        self.classes = []
        for filters, weight in ((True, 3), (False, 1)):
            made = fast.PodClass(self.columns, fast.PodRequest(((0, 10),), 10, 5), bytes(5))
            made.score_least_allocated([(0, 1)], 1)
            made.follow_rules(self.rules, filters, weight)
            self.classes.append(made)

    def step(self, name: str, *reported: Any) -> object:
        try:
            return getattr(self, name)(*reported)
        except (ValueError, IndexError, OverflowError) as error:
            return type(error), str(error)

    def feed(self, inputs: list[array[float]], ends: tuple[float, float]) -> object:
        return self.rules.feed(inputs, [(min(ends), max(ends))] * len(self.goals))

    def change(self, reported: tuple[Any, ...]) -> object:
        name, *rest = reported
        if name.endswith("_pod"):
            return getattr(self.columns, name)(rest[0], self.fast.PodRequest(*rest[1]))
        made = getattr(self.columns, name)(*rest)
        if name == "add_row":
            self.columns.set_node_class(made, 2)
            self.columns.set_allowed_pods(made, 3)
        return made

    def place(self, at: int) -> object:
        return self.placer.place(self.classes[at], 12_345), self.placer.count_feasible(self.classes[at])

    def many(self, order: list[int]) -> object:
        rows, feasible = array("i", [-7] * len(order)), array("i", [-7] * len(order))
        reported = self.placer.place_many([self.classes[at] for at in order], None, rows, feasible)
        return reported, rows.tolist()

    def look(self) -> object:
        verdicts, scores = self.fast.Verdicts(), self.fast.Scores()
        verdicts.reset(self.columns)
        scores.reset(self.columns)
        self.rules.score(verdicts, scores)
        self.rules.filter(verdicts, 3)
        absent = [self.rules.absent(number) for number in range(INPUTS)]
        recorded = [(self.rules.mark(each), self.rules.points(each)) for each in range(self.columns.rows)]
        # Of a row without a node nothing is known that anybody may use.
        alive = [each for each in range(self.columns.rows) if self.columns.is_alive(each)]
        return absent, codes(verdicts), [raws(scores)[each] for each in alive], [recorded[each] for each in alive]


@pytest.mark.slow
@pytest.mark.skipif(COMPILED is None, reason=NOT_BUILT)
@settings(max_examples=sampled(300), deadline=None)
@given(
    st.lists(nodes, max_size=9),
    st.lists(st.lists(tests, max_size=3), max_size=3),
    st.lists(goals, max_size=4),
    feeds,
    st.lists(steps, max_size=20),
)
def test_rules_that_keep_up_say_what_their_twins_work_out(
    table: list[NodeSpec], groups: list[list[MetricTest]], made: list[MetricGoal], first: Any, sequence: list[Any]
) -> None:
    runs = [Run(fast, table, groups, made) for fast in (reference, COMPILED)]
    for step in [first, *sequence, ("look",)]:
        assert runs[0].step(*step) == runs[1].step(*step), step


@pytest.mark.slow
@pytest.mark.skipif(COMPILED is None, reason=NOT_BUILT)
@settings(max_examples=sampled(200), deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 100), st.lists(doubles, max_size=4).map(lambda v: array("d", v))), max_size=6),
    st.lists(doubles, max_size=5).map(lambda v: array("d", v)),
    st.sampled_from([0.0, 10.0, 0.3, 1e9]),
    st.lists(st.floats(0, 100), max_size=5).map(lambda v: array("d", v)),
)
def test_mean_use_agrees(history: Any, sampled: Any, window_s: float, now: Any) -> None:
    history = sorted(history, key=lambda each: each[0])
    times, uses = array("d", [each[0] for each in history]), [each[1] for each in history]
    found = [fast.mean_use(times, uses, sampled, window_s, now) for fast in (reference, COMPILED)]  # type: ignore[union-attr]
    assert found[0].tobytes() == found[1].tobytes() or [repr(each) for each in found[0]] == [
        repr(each) for each in found[1]
    ]
