"""Expected values here are worked out by hand from kube-scheduler's formulas, not by either form of the kernels."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.fast.tables import GI, MI, NodeSpec, each_raises, make_columns, plain, raws, start

BOTH = [(0, 1), (1, 1)]
TOP = 1 << 62


def score(fast: ModuleType, name: str, nodes: list[NodeSpec], pod: Any, *args: Any) -> list[int]:
    columns = make_columns(fast, nodes, resources=5)
    verdicts, scores = start(fast, columns)
    entries, cpu, memory = pod
    getattr(fast, name)(columns, verdicts, scores, fast.PodRequest(entries, cpu, memory), *args)
    return raws(scores)


# --- LeastAllocated, MostAllocated ---


def test_least_allocated_is_the_mean_of_the_free_percentages(fast: ModuleType) -> None:
    # cpu: 3000 of 4000 free = 75; memory: 7 of 8 Gi = 87.5 -> 87; (75 + 87) / 2 = 81; weights 3:1 give 312 / 4.
    assert score(fast, "score_least_allocated", [NodeSpec()], plain(1000, GI), BOTH) == [81]
    assert score(fast, "score_least_allocated", [NodeSpec()], plain(1000, GI), [(0, 3), (1, 1)]) == [78]


def test_most_allocated_is_the_mean_of_the_used_percentages(fast: ModuleType) -> None:
    # 25 and 12.5 -> 12; 37 / 2 = 18; weights 1:3 give 61 / 4 = 15.
    assert score(fast, "score_most_allocated", [NodeSpec()], plain(1000, GI), BOTH) == [18]
    assert score(fast, "score_most_allocated", [NodeSpec()], plain(1000, GI), [(0, 1), (1, 3)]) == [15]


def test_cpu_and_memory_count_the_scoring_defaults_other_resources_do_not(fast: ModuleType) -> None:
    # On the node: requests 0 and 0, counted as 100m and 200 MiB; the pod the same; 200/4000 -> 95, 400/8192 -> 95.1.
    node = NodeSpec(allocatable=(4000, 8 * GI, 1000), pods=(((), 100, 200 * MI),))
    assert score(fast, "score_least_allocated", [node], ((), 100, 200 * MI), BOTH) == [95]
    assert score(fast, "score_least_allocated", [node], (((2, 300),), 0, 0), [(2, 1)]) == [70]


def test_more_used_than_there_is_scores_nothing_as_least_and_all_as_most(fast: ModuleType) -> None:
    node = NodeSpec(pods=(plain(5000, 2 * GI),))
    # memory: 3 of 8 Gi used.
    assert score(fast, "score_least_allocated", [node], plain(100, GI), BOTH) == [62 // 2]
    assert score(fast, "score_most_allocated", [node], plain(100, GI), BOTH) == [137 // 2]


def test_a_resource_the_node_lacks_is_left_out_of_the_mean(fast: ModuleType) -> None:
    nodes = [NodeSpec(allocatable=(4000, 0)), NodeSpec(allocatable=(0, 0)), NodeSpec(allocatable=(4000, -5))]
    assert score(fast, "score_least_allocated", nodes, plain(1000, GI), BOTH) == [75, 0, 75]
    assert score(fast, "score_most_allocated", nodes, plain(1000, GI), BOTH) == [25, 0, 25]


def test_a_scalar_counts_only_for_pods_that_ask_for_it_ephemeral_storage_always(fast: ModuleType) -> None:
    node = NodeSpec(allocatable=(4000, 8 * GI, 1000, 8), pods=((((2, 500), (3, 2)), 0, 0),))
    with_gpu = (((0, 1000), (3, 2)), 1000, GI)
    without = (((0, 1000),), 1000, GI)
    # cpu 75; gpu 4 of 8 used = 50.
    assert score(fast, "score_least_allocated", [node], with_gpu, [(0, 1), (3, 1)]) == [62]
    assert score(fast, "score_least_allocated", [node], without, [(0, 1), (3, 1)]) == [75]
    assert score(fast, "score_least_allocated", [node], without, [(0, 1), (2, 1)]) == [62]
    assert score(fast, "score_least_allocated", [node], without, [(3, 1)]) == [0]


@pytest.mark.parametrize("percent", [1, 33, 50, 99])
@pytest.mark.parametrize("unit", [1, 3, 90_071_992_547_409, (1 << 55) + 1, TOP // 100])
def test_percentages_are_exact_up_to_the_largest_amounts(fast: ModuleType, percent: int, unit: int) -> None:
    # Exactly `percent` is free, then one less than that: the quotient must not round up to it.
    exact = NodeSpec(allocatable=(100 * unit,), pods=((((0, 1),), (100 - percent) * unit, 0),))
    less = NodeSpec(allocatable=(100 * unit,), pods=((((0, 1),), (100 - percent) * unit + 1, 0),))
    found = score(fast, "score_least_allocated", [exact, less], ((), 0, 0), [(0, 1)])
    assert found == [percent, percent - 1]


def test_amounts_at_the_limit_do_not_wrap(fast: ModuleType) -> None:
    nodes = [
        NodeSpec(allocatable=(TOP,), pods=(((), TOP, 0),)),
        NodeSpec(allocatable=(TOP,)),
        NodeSpec(allocatable=(1,), pods=(((), TOP, 0),)),
    ]
    assert score(fast, "score_least_allocated", nodes, ((), TOP, 0), [(0, 1)]) == [0, 0, 0]
    assert score(fast, "score_least_allocated", nodes, ((), 1, 0), [(0, 1)]) == [0, 99, 0]
    assert score(fast, "score_most_allocated", nodes, ((), TOP, 0), [(0, 1)]) == [100, 100, 100]
    assert score(fast, "score_most_allocated", nodes, ((), 1, 0), [(0, 1)]) == [100, 0, 100]


# --- RequestedToCapacityRatio ---


def ratio(fast: ModuleType, used: int, shape: list[tuple[int, int]]) -> int:
    """The score of one resource of which the pod uses `used` of 100."""
    node = NodeSpec(allocatable=(100,))
    return score(fast, "score_requested_to_capacity_ratio", [node], ((), used, 0), [(0, 1)], shape)[0]


def test_the_ratio_follows_the_line_and_is_flat_outside(fast: ModuleType) -> None:
    shape = [(20, 0), (40, 5), (80, 10)]
    # 30: halfway from 0 to 50; 50: 50 + 50 * 10 / 40 = 62.
    assert [ratio(fast, used, shape) for used in (0, 20, 30, 40, 50, 80, 90, 200)] == [0, 0, 25, 50, 62, 100, 100, 100]


def test_a_falling_line_is_cut_toward_zero_as_go_does(fast: ModuleType) -> None:
    # 1: 100 + (-100 * 1) / 3 = 100 - 33; 2: 100 - 66.
    assert [ratio(fast, used, [(0, 10), (3, 0)]) for used in (0, 1, 2, 3)] == [100, 67, 34, 0]


def test_a_single_point_is_a_constant(fast: ModuleType) -> None:
    assert [ratio(fast, used, [(50, 7)]) for used in (0, 50, 100)] == [70, 70, 70]


def test_the_mean_of_ratios_rounds_halves_up_and_leaves_zeros_out(fast: ModuleType) -> None:
    rising = [(0, 0), (100, 10)]
    name = "score_requested_to_capacity_ratio"
    # 25 and 12: 18.5 -> 19. With memory at 0 only cpu counts.
    assert score(fast, name, [NodeSpec()], plain(1000, GI), BOTH, rising) == [19]
    assert score(fast, name, [NodeSpec()], plain(1000, 0), BOTH, rising) == [25]
    assert score(fast, name, [NodeSpec()], plain(0, 0), BOTH, rising) == [0]
    # weights 1:2: (25 + 24) / 3 = 16.33 -> 16
    assert score(fast, name, [NodeSpec()], plain(1000, GI), [(0, 1), (1, 2)], rising) == [16]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([], "shape: expected at least one point, got none"),
        ([(0, 11)], "score: expected 0..10, got 11"),
        ([(101, 0)], "utilization: expected 0..100, got 101"),
        ([(50, 0), (50, 1)], "utilization: expected 51..100, got 50"),
    ],
)
def test_a_malformed_shape_is_refused(fast: ModuleType, shape: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ratio(fast, 0, shape)


# --- BalancedAllocation ---


def balanced(fast: ModuleType, node: NodeSpec, entries: tuple[tuple[int, int], ...], resources: list[int]) -> int:
    # Non-zero requests that must not be counted here.
    return score(fast, "score_balanced", [node], (entries, 77, 77), resources)[0]


def test_a_pod_that_keeps_the_balance_is_neutral(fast: ModuleType) -> None:
    assert balanced(fast, NodeSpec(), ((0, 1000), (1, 2 * GI)), [0, 1]) == 75


def test_a_pod_that_tips_the_balance_scores_less(fast: ModuleType) -> None:
    # 0.25 and 0.125: deviation 0.0625 -> 93; 50 + (50 + 93 - 100) / 2 = 71.
    assert balanced(fast, NodeSpec(), ((0, 1000), (1, GI)), [0, 1]) == 71


def test_a_pod_that_restores_the_balance_scores_more(fast: ModuleType) -> None:
    # Before: 0.5 and 0 -> deviation 0.25 -> 75. After: 100. 50 + (50 + 25) / 2 = 87.
    assert balanced(fast, NodeSpec(pods=(plain(2000, 0),)), ((1, 4 * GI),), [0, 1]) == 87


def test_three_resources_take_the_population_deviation(fast: ModuleType) -> None:
    # 0.5, 0, 0.25: mean 0.25, deviation sqrt(0.125 / 3) = 0.2041 -> 79; 50 + (50 + 79 - 100) / 2 = 64.
    node = NodeSpec(allocatable=(4000, 8 * GI, 1000))
    assert balanced(fast, node, ((0, 2000), (2, 250)), [0, 1, 2]) == 64


def test_one_resource_has_no_deviation(fast: ModuleType) -> None:
    assert balanced(fast, NodeSpec(), ((0, 2000),), [0]) == 75
    assert balanced(fast, NodeSpec(allocatable=(4000, 0)), ((0, 2000), (1, 1)), [0, 1]) == 75


def test_a_scalar_the_pod_does_not_ask_for_is_left_out_of_the_balance(fast: ModuleType) -> None:
    node = NodeSpec(allocatable=(4000, 8 * GI, 0, 8))
    assert balanced(fast, node, ((0, 1000), (1, 2 * GI)), [0, 1, 3]) == 75
    # With it: 0.25, 0.25, 0.25.
    assert balanced(fast, node, ((0, 1000), (1, 2 * GI), (3, 2)), [0, 1, 3]) == 75
    # 0.25, 0.25, 1: mean 0.5, sqrt(0.375 / 3) = 0.3536 -> 64; 50 + (50 + 64 - 100) / 2 = 57.
    assert balanced(fast, node, ((0, 1000), (1, 2 * GI), (3, 8)), [0, 1, 3]) == 57


def test_fractions_stop_at_one(fast: ModuleType) -> None:
    node = NodeSpec(pods=(plain(9000, 16 * GI),))
    assert balanced(fast, node, ((0, 1000), (1, 2 * GI)), [0, 1]) == 75
    # Before 0 and 0; after 1 and 0: deviation 0.5 -> 50. 50 + 0 / 2.
    assert balanced(fast, NodeSpec(), ((0, 9000),), [0, 1]) == 50


def test_the_balance_of_amounts_at_the_limit_does_not_wrap(fast: ModuleType) -> None:
    node = NodeSpec(allocatable=(TOP, TOP), pods=((((0, TOP),), 0, 0),))
    # Before 1 and 0 -> 50; after 1 and 1 -> 100. 50 + 100 / 2.
    assert balanced(fast, node, ((0, TOP), (1, TOP)), [0, 1]) == 100


# --- raw scores from outside ---


def table(fast: ModuleType, values: list[int], rejected: tuple[int, ...] = ()) -> tuple[Any, Any]:
    verdicts, scores = start(fast, make_columns(fast, [NodeSpec()] * len(values)))
    for row, value in enumerate(values):
        scores.set_raw(row, value)
    verdicts.reject_rows(rejected, 1)
    return verdicts, scores


def test_only_feasible_rows_are_scored(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(), NodeSpec(alive=False), NodeSpec(node_class=1), NodeSpec()])
    request = fast.PodRequest([(0, 1000)], 1000, 0)
    calls: list[Callable[[Any, Any], object]] = [
        lambda v, s: fast.score_least_allocated(columns, v, s, request, BOTH),
        lambda v, s: fast.score_most_allocated(columns, v, s, request, BOTH),
        lambda v, s: fast.score_requested_to_capacity_ratio(columns, v, s, request, BOTH, [(0, 1), (100, 10)]),
        lambda v, s: fast.score_balanced(columns, v, s, request, [0, 1]),
        lambda v, s: fast.score_node_classes(columns, v, s, array("q", [4])),
        lambda v, s: fast.score_images(v, s, 23 * MI, 1000 * MI),
        lambda v, s: fast.normalize(v, s, True),
    ]
    for call in calls:
        verdicts, scores = start(fast, columns)
        verdicts.reject(2, 1)
        for row in range(4):
            scores.set_raw(row, -7)
        call(verdicts, scores)
        assert (scores.raw(1), scores.raw(2)) == (-7, -7)
        assert scores.raw(0) == scores.raw(3) != -7


def test_a_node_classes_value_is_its_nodes_raw_score(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(node_class=node_class) for node_class in (2, 0, 1)])
    verdicts, scores = start(fast, columns)
    fast.score_node_classes(columns, verdicts, scores, array("q", [5, -6, 1 << 53]))
    assert raws(scores) == [1 << 53, 5, -6]
    with pytest.raises(IndexError, match=r"^row 0 has node class 2, there are values for 2$"):
        fast.score_node_classes(columns, verdicts, scores, array("q", [7, 7]))
    with pytest.raises(ValueError, match=r"^value of node class 1: expected"):
        fast.score_node_classes(columns, verdicts, scores, array("q", [7, (1 << 53) + 1, 7]))
    assert raws(scores) == [1 << 53, 5, -6]


def test_amounts_are_added_to_rows_and_cleared(fast: ModuleType) -> None:
    verdicts, scores = table(fast, [1, 2, 3], rejected=(2,))
    fast.add_to_rows(scores, array("i", [2, 0, 0]), 10)
    assert raws(scores) == [21, 2, 13]
    fast.add_to_rows(scores, array("i"), 10)
    for bad in (3, -1):
        with pytest.raises(IndexError, match=rf"^row {bad} outside 0\.\.2$"):
            fast.add_to_rows(scores, array("i", [0, bad]), 10)
    assert raws(scores) == [21, 2, 13]
    with pytest.raises(ValueError, match=rf"^raw score: expected .*, got {(1 << 53) + 21}$"):
        fast.add_to_rows(scores, array("i", [0]), 1 << 53)
    fast.clear_raw(verdicts, scores)
    assert raws(scores) == [0, 0, 0]


def test_images_score_between_the_thresholds(fast: ModuleType) -> None:
    low, high = 23 * MI, 1000 * MI
    # 511.5 MiB is the middle; one byte less than a hundredth of the range above `low` is still 0.
    values = [0, low, low + (high - low) // 2, low + (high - low) // 100 - 1, high - 1, high, 9 * high]
    verdicts, scores = table(fast, values)
    fast.score_images(verdicts, scores, low, high)
    assert raws(scores) == [0, 0, 50, 0, 99, 100, 100]
    with pytest.raises(ValueError, match=r"^max_threshold: expected 6"):
        fast.score_images(verdicts, scores, 5, 5)


# --- from raw to total ---


def normalized(fast: ModuleType, values: list[int], reverse: bool, rejected: tuple[int, ...] = ()) -> list[int]:
    verdicts, scores = table(fast, values, rejected)
    fast.normalize(verdicts, scores, reverse)
    return raws(scores)


def test_normalize_scales_the_highest_to_a_hundred(fast: ModuleType) -> None:
    assert normalized(fast, [3, 6, 0, 4], reverse=False) == [50, 100, 0, 66]
    assert normalized(fast, [3, 6, 0, 4], reverse=True) == [50, 0, 100, 34]


def test_normalize_of_nothing_above_zero_leaves_it_or_gives_everyone_a_hundred(fast: ModuleType) -> None:
    assert normalized(fast, [0, 0], reverse=False) == [0, 0]
    assert normalized(fast, [0, -3], reverse=False) == [0, -3]
    assert normalized(fast, [0, -3], reverse=True) == [100, 100]


def test_normalize_cuts_negative_scores_toward_zero(fast: ModuleType) -> None:
    # -100 / 3 is -33 in Go.
    assert normalized(fast, [-1, 3], reverse=False) == [-33, 100]
    assert normalized(fast, [-1, 3], reverse=True) == [133, 0]
    assert normalized(fast, [-(1 << 53), 1], reverse=False) == [-100 * (1 << 53), 100]


def test_a_rejected_row_does_not_set_the_scale(fast: ModuleType) -> None:
    assert normalized(fast, [3, 900, 4], reverse=False, rejected=(1,)) == [75, 900, 100]


def test_totals_add_up_with_their_weights(fast: ModuleType) -> None:
    verdicts, scores = table(fast, [10, 100, 0], rejected=(1,))
    assert fast.accumulate(verdicts, scores, 3) == -1
    assert fast.accumulate(verdicts, scores, 2) == -1
    assert [scores.total(row) for row in range(3)] == [50, 0, 0]


@pytest.mark.parametrize("bad", [-1, 101, 1 << 53])
def test_a_score_out_of_range_names_its_row_and_adds_nothing(fast: ModuleType, bad: int) -> None:
    verdicts, scores = table(fast, [10, bad, bad, 20], rejected=(1,))
    assert fast.accumulate(verdicts, scores, 3) == 2
    assert [scores.total(row) for row in range(4)] == [0, 0, 0, 0]


# --- arguments ---


def test_reset_makes_raw_and_total_zero(fast: ModuleType) -> None:
    verdicts, scores = table(fast, [10, 20])
    fast.accumulate(verdicts, scores, 1)
    scores.reset(make_columns(fast, [NodeSpec()] * 70))
    assert (scores.rows, raws(scores), scores.total(0)) == (70, [0] * 70, 0)


def test_raw_scores_beyond_two_to_the_53_are_refused(fast: ModuleType) -> None:
    _, scores = table(fast, [1])
    for value in ((1 << 53) + 1, -(1 << 53) - 1, 1 << 70):
        with pytest.raises(ValueError, match=r"^value: expected"):
            scores.set_raw(0, value)
    each_raises(
        IndexError, r"outside 0\.\.0$", lambda: scores.raw(1), lambda: scores.total(-1), lambda: scores.set_raw(1, 0)
    )


@pytest.mark.parametrize("name", ["score_least_allocated", "score_most_allocated"])
def test_resources_and_weights_are_checked(fast: ModuleType, name: str) -> None:
    pod = plain(1, 1)
    with pytest.raises(IndexError, match=r"^resource 5 outside 0\.\.4$"):
        score(fast, name, [NodeSpec()], pod, [(5, 1)])
    for weight in (0, -1, 1 << 31):
        with pytest.raises(ValueError, match=rf"^weight: expected 1\.\.2147483647, got {weight}$"):
            score(fast, name, [NodeSpec()], pod, [(0, weight)])
    with pytest.raises(ValueError, match=r"^resources: expected at most 64, got 65$"):
        score(fast, name, [NodeSpec()], pod, [(0, 1)] * 65)
    assert score(fast, name, [NodeSpec()], pod, []) == [0]
    assert score(fast, name, [NodeSpec()], plain(4000, 0), [(0, (1 << 31) - 1)] * 64) in ([0], [100])


def test_weights_of_totals_are_checked(fast: ModuleType) -> None:
    verdicts, scores = table(fast, [1])
    for weight in (-1, 1 << 31):
        with pytest.raises(ValueError, match=r"^weight: expected 0\.\.2147483647"):
            fast.accumulate(verdicts, scores, weight)


def test_a_kernel_refuses_tables_of_different_nodes(fast: ModuleType) -> None:
    large, small = make_columns(fast, [NodeSpec()] * 2), make_columns(fast, [NodeSpec()])
    verdicts, scores = start(fast, large)
    _, short = start(fast, small)
    request = fast.PodRequest([], 0, 0)
    for name, args in (("score_least_allocated", BOTH), ("score_most_allocated", BOTH), ("score_balanced", [0])):
        with pytest.raises(ValueError, match=r"^verdicts have 2 rows, these columns 1: reset them together$"):
            getattr(fast, name)(small, verdicts, scores, request, args)
        with pytest.raises(ValueError, match=r"^verdicts have 2 rows, these scores 1: reset them together$"):
            getattr(fast, name)(large, verdicts, short, request, args)
    each_raises(
        ValueError,
        r"^verdicts have 2 rows, these scores 1: reset them together$",
        lambda: fast.clear_raw(verdicts, short),
        lambda: fast.score_images(verdicts, short, 1, 2),
        lambda: fast.normalize(verdicts, short, False),
        lambda: fast.accumulate(verdicts, short, 1),
        lambda: fast.score_node_classes(large, verdicts, short, array("q", [1])),
    )


def test_no_nodes_get_no_scores(fast: ModuleType) -> None:
    columns = fast.NodeColumns()
    verdicts, scores = start(fast, columns)
    request = fast.PodRequest([], 0, 0)
    fast.score_least_allocated(columns, verdicts, scores, request, BOTH)
    fast.score_balanced(columns, verdicts, scores, request, [0, 1])
    fast.score_node_classes(columns, verdicts, scores, array("q"))
    fast.clear_raw(verdicts, scores)
    fast.score_images(verdicts, scores, 1, 2)
    fast.normalize(verdicts, scores, True)
    assert fast.accumulate(verdicts, scores, 1) == -1


def test_what_is_added_to_a_total_counts_without_a_weight(fast: ModuleType) -> None:
    verdicts, scores = table(fast, [10, 20])
    fast.accumulate(verdicts, scores, 3)
    scores.add_total(0, 40)
    scores.add_total(1, -1)
    assert [scores.total(0), scores.total(1)] == [70, 59]
    each_raises(IndexError, r"outside 0\.\.1$", lambda: scores.add_total(2, 1))
    each_raises(ValueError, r"^value: expected", lambda: scores.add_total(0, (1 << 62) + 1))
