"""Trimaran's formulas, by figures worked out by hand, and in both forms."""

from __future__ import annotations

import math
from array import array
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.fast.tables import GI, NodeSpec, each_raises, make_columns, raws, start
from tests.support.skips import NOT_BUILT

NAN, INF = math.nan, math.inf
COMPILED = load_compiled()


def packed(fast: ModuleType, used: list[float], own: int = 0, missing: int = 0, target: int = 40) -> list[int]:
    """On nodes of one core."""
    whole = array("d", [1000.0] * len(used))
    return list(
        fast.rate_target_load(len(used), array("d", used), whole, array("q", [missing] * len(used)), own, target)
    )


def varied(fast: ModuleType, values: tuple[float, float, float, float], **reported: Any) -> int:
    """On a node with four cores and eight gibibytes."""
    columns = make_columns(fast, [NodeSpec()])
    asked = {"own_cpu": 0, "own_memory": 0, "margin": 1.0, "sensitivity": 1.0, **reported}
    return fast.rate_load_variation(columns, *(array("d", [value]) for value in values), **asked)[0]  # type: ignore[no-any-return]


def test_nodes_are_packed_up_to_the_target(fast: ModuleType) -> None:
    assert packed(fast, [0.0, 20.0, 40.0, 70.0, 100.0]) == [40, 70, 100, 20, 0]
    assert packed(fast, [10.0], own=100) == packed(fast, [20.0]) == packed(fast, [10.0], missing=100)
    assert packed(fast, [50.0, 100.0], target=100) == [100, 100]
    assert packed(fast, [90.0], own=200) == [0]


def test_a_node_of_which_nothing_is_known_or_that_has_no_capacity_has_a_score_nevertheless(fast: ModuleType) -> None:
    assert packed(fast, [NAN, INF]) == [0, 0]
    assert list(fast.rate_target_load(2, array("d", [1.0]), array("d"), array("q"), 5, 40)) == [40, 0]


def test_risk_is_use_and_its_deviation_and_the_worse_resource_counts(fast: ModuleType) -> None:
    assert varied(fast, (50.0, 0.0, 0.0, 0.0)) == 75
    assert varied(fast, (50.0, 25.0, 0.0, 0.0)) == 63  # halves are rounded up: 62.5
    assert varied(fast, (0.0, 0.0, 80.0, 40.0)) == 40
    assert varied(fast, (50.0, 0.0, 0.0, 0.0), own_cpu=1000) == 63
    assert varied(fast, (0.0, 0.0, 0.0, 0.0), own_memory=8 * GI) == 50
    assert varied(fast, (50.0, 25.0, 0.0, 0.0), sensitivity=2.0) == 50
    assert varied(fast, (50.0, 25.0, 0.0, 0.0), margin=2.0) == 50
    assert varied(fast, (0.0, 25.0, 0.0, 0.0), sensitivity=0.0) == 100


def test_what_is_not_known_of_one_resource_leaves_the_other(fast: ModuleType) -> None:
    assert varied(fast, (50.0, NAN, NAN, NAN)) == 75
    assert varied(fast, (NAN, NAN, 50.0, NAN)) == 75
    assert varied(fast, (NAN, 50.0, NAN, NAN)) == 75
    assert varied(fast, (NAN, NAN, NAN, NAN)) == 0


def test_rates_become_raw_scores(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()] * 3)
    verdicts, scores = start(fast, columns)
    verdicts.reject(0, 1)
    fast.score_rated(verdicts, scores, bytes([9, 8]))
    assert raws(scores) == [0, 8, 0]


def test_bad_arguments_are_named(fast: ModuleType) -> None:
    none, longs = array("d"), array("q")
    each_raises(
        ValueError, "expected",
        lambda: fast.rate_target_load(1, none, none, longs, 0, 0),
        lambda: fast.rate_target_load(1, none, none, longs, -1, 40),
        lambda: varied(fast, (0.0, 0.0, 0.0, 0.0), own_cpu=-1),
        lambda: varied(fast, (0.0, 0.0, 0.0, 0.0), own_memory=-1),
    )  # fmt: skip


doubles = st.lists(st.one_of(st.floats(0, 120), st.floats(), st.sampled_from([NAN, INF, -1.0])), max_size=4).map(
    lambda values: array("d", values)
)
capacities = st.tuples(*[st.sampled_from([0, 1, 999, 4000, 8 * GI])] * 3)


@pytest.mark.slow
@pytest.mark.skipif(COMPILED is None, reason=NOT_BUILT)
@settings(max_examples=300, deadline=None)
@given(
    st.lists(doubles, min_size=4, max_size=4),
    st.lists(capacities, max_size=4),
    st.integers(0, 1 << 40),
    st.integers(1, 100),
    st.floats(0, 10),
    st.sampled_from([1.0, 0.0, 2.0, 0.3, -1.0]),
)
def test_both_forms_agree(inputs: Any, nodes: Any, own: int, target: int, margin: float, sensitivity: float) -> None:
    found = []
    for fast in (reference, COMPILED):
        columns = make_columns(fast, [NodeSpec(each) for each in nodes])  # type: ignore[arg-type]
        whole = array("d", [float(each[0]) for each in nodes])
        late = array("q", [own, 0, 7])
        found.append(
            (
                fast.rate_target_load(len(nodes), inputs[0], whole, late, own, target),  # type: ignore[union-attr]
                fast.rate_load_variation(columns, *inputs, own, own, margin, sensitivity),  # type: ignore[union-attr]
            )
        )
    assert found[0] == found[1]
