from __future__ import annotations

from array import array
from random import Random
from types import ModuleType
from typing import Any

import pytest

from kscheduler.testing.kernels import load_compiled
from tests.fast.tables import GI, NodeSpec, each_raises, make_columns, plain
from tests.support.skips import NOT_BUILT, missing_tool

PLENTY = 1 << 30  # bytes


def new_class(fast: ModuleType, columns: Any, cpu: int = 100, memory: int = GI // 2, verdicts: bytes = b"\0") -> Any:
    """Pods that are scored as by default."""
    pods = fast.PodClass(columns, fast.PodRequest(*plain(cpu, memory)), verdicts)
    pods.score_least_allocated([(0, 1), (1, 1)], 1)
    pods.score_balanced([0, 1], 1)
    return pods


def place_many(
    placer: Any, classes: list[Any], bits: list[int] | None = None
) -> tuple[list[int], list[int], tuple[int, int]]:
    rows, feasible = array("i", [7] * len(classes)), array("i", [7] * len(classes))
    reported = placer.place_many(classes, None if bits is None else array("Q", bits), rows, feasible)
    return list(rows), list(feasible), reported


def test_a_pod_goes_to_the_best_row(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(), NodeSpec(allocatable=(8000, 16 * GI, 0)), NodeSpec()])
    placer = fast.Placer(columns, PLENTY)
    assert placer.place(new_class(fast, columns), None) == 1
    assert columns.pod_count(1) == 0


def test_ties_go_to_the_lowest_row_or_to_the_bits(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(allowed_pods=0), NodeSpec(), NodeSpec(), NodeSpec()])
    placer, pods = fast.Placer(columns, PLENTY), new_class(fast, columns)
    assert [placer.place(pods, bits) for bits in (None, 0, 1, 2, 3, 1 << 200)] == [1, 1, 2, 3, 1, 1 + (1 << 200) % 3]


def test_one_pod_is_placed_and_counted_as_the_first_of_many(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(allowed_pods=1), NodeSpec(allowed_pods=2)])
    placer, pods = fast.Placer(columns, PLENTY), new_class(fast, columns)
    assert placer.place_one(pods, 5) == (1, 2)
    assert placer.place_one(pods, None) == (0, 2)
    assert placer.place_one(pods, 7) == (1, 1)
    assert placer.place_one(pods, 7) == (-1, 0)
    assert [columns.pod_count(row) for row in range(2)] == [1, 2]
    foreign = new_class(fast, make_columns(fast, [NodeSpec()]))
    with pytest.raises(ValueError, match="of another table"):
        placer.place_one(foreign, None)
    for wrong in (-1, 1 << 64):
        with pytest.raises(OverflowError):
            placer.place_one(pods, wrong)


def test_a_class_sees_what_has_changed_since_its_last_pod(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(), NodeSpec()])
    placer, pods = fast.Placer(columns, PLENTY), new_class(fast, columns)
    taken = []
    for _ in range(3):
        taken.append(placer.place(pods, None))
        columns.add_pod(taken[-1], pods.request)
    assert taken == [0, 1, 0]
    columns.set_allocatable(1, 0, 64_000)
    assert placer.place(pods, None) == 1
    columns.free_row(1)
    assert (placer.place(pods, None), placer.count_feasible(pods)) == (0, 1)
    row = columns.add_row()
    columns.set_node_class(row, 0)
    columns.set_allowed_pods(row, 1)
    columns.set_allocatable(row, 0, 4_000)
    columns.set_allocatable(row, 1, 8 * GI)
    assert (placer.place(pods, None), placer.count_feasible(pods)) == (row, 2)


def test_a_pod_that_fits_nowhere_has_no_row(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(), NodeSpec(node_class=1)])
    placer = fast.Placer(columns, PLENTY)
    assert placer.place(new_class(fast, columns, cpu=4001, verdicts=b"\0\0"), 3) == -1
    assert placer.place(new_class(fast, columns, verdicts=b"\1\1"), None) == -1
    assert placer.place(new_class(fast, columns, verdicts=b"\1\0"), None) == 1
    empty = fast.NodeColumns()
    assert fast.Placer(empty, PLENTY).place(new_class(fast, empty), None) == -1


def test_node_classes_score_by_what_is_highest_where_there_is_room(fast: ModuleType) -> None:
    nodes = [NodeSpec(node_class=0), NodeSpec(node_class=1, allowed_pods=1), NodeSpec(node_class=2)]
    columns = make_columns(fast, nodes)
    placer = fast.Placer(columns, PLENTY)
    pods = fast.PodClass(columns, fast.PodRequest((), 0, 0), bytes(3))
    pods.score_node_classes(array("q", [1, 5, 2]), False, 2)  # 20, 100, 40; then 50, out, 100
    pods.score_rows(bytes([100, 0, 59]), 1)
    assert placer.place(pods, None) == 1
    columns.add_pod(1, pods.request)
    assert placer.place(pods, None) == 2
    columns.remove_pod(1, pods.request)
    columns.set_node_class(1, 0)
    assert (placer.place(pods, None), placer.count_feasible(pods)) == (2, 3)


def test_many_pods_are_placed_each_seeing_those_before_it(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(allowed_pods=2), NodeSpec(allowed_pods=1)])
    placer, before = fast.Placer(columns, PLENTY), columns.generation
    small, large = new_class(fast, columns), new_class(fast, columns, cpu=2000)
    assert place_many(placer, [small, large, small, small, large]) == ([0, 1, 0, -1, -1], [2, 2, 1, 7, 7], (3, 0))
    assert [columns.pod_count(row) for row in (0, 1)] == [2, 1]
    assert [columns.requested(row, 0) for row in (0, 1)] == [200, 2000]
    assert columns.generation == before + 3


def test_random_bits_are_used_only_where_there_is_a_choice(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(allowed_pods=2), NodeSpec(allowed_pods=1)])
    placer, pods = fast.Placer(columns, PLENTY), new_class(fast, columns)
    assert place_many(placer, [pods, pods, pods, pods], [5, 9, 9, 9]) == ([1, 0, 0, -1], [2, 1, 1, 7], (3, 1))


def test_a_sum_that_passes_the_limit_ends_the_pods(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()])
    placer = fast.Placer(columns, PLENTY)
    light = new_class(fast, columns)
    heavy = fast.PodClass(columns, fast.PodRequest((), fast.MAX_AMOUNT, 0), b"\0")
    rows, feasible = array("i", [7, 7, 7]), array("i", [7, 7, 7])
    with pytest.raises(OverflowError, match=r"^row 0: non_zero_cpu at 100, "):
        placer.place_many([light, heavy, light], None, rows, feasible)
    assert list(rows) == [0, -1, -1]
    assert columns.pod_count(0) == 1
    assert placer.place(light, None) == 0


def test_a_node_class_without_a_verdict_is_an_error_until_it_is_gone(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(), NodeSpec()])
    placer, pods = fast.Placer(columns, PLENTY), new_class(fast, columns)
    assert placer.place(pods, None) == 0
    columns.set_node_class(1, 3)
    message = "^row 1 has node class 3, there are values for 1$"
    each_raises(IndexError, message, lambda: placer.place(pods, None), lambda: place_many(placer, [pods]))
    columns.set_node_class(1, 0)
    assert place_many(placer, [pods, pods])[0] == [0, 1]
    columns.add_row()
    message = "^row 2 has node class -1, there are values for 1$"
    each_raises(IndexError, message, lambda: placer.place(pods, None), lambda: placer.count_feasible(pods))


def test_what_a_class_is_stands_once_it_is_used(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()])
    placer, pods = fast.Placer(columns, PLENTY), new_class(fast, columns)
    message = "^the class has a score of fit already$"
    each_raises(ValueError, message, lambda: pods.score_most_allocated([(0, 1)], 1))
    message = "^the class has a score of balance already$"
    each_raises(ValueError, message, lambda: pods.score_balanced([0], 1))
    placer.place(pods, None)
    message = "^the class is in use: its scores stand$"
    each_raises(
        ValueError,
        message,
        lambda: pods.score_node_classes(array("q", [1]), False, 1),
        lambda: pods.score_rows(b"\1", 1),
        lambda: pods.score_balanced([0], 1),
        lambda: pods.score_least_allocated([(0, 1)], 1),
    )


def test_bad_classes_are_refused(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()])
    pods = fast.PodClass(columns, fast.PodRequest((), 0, 0), b"\0")
    request = fast.PodRequest(((9, 1),), 0, 0)
    each_raises(IndexError, "^resource 9 outside 0..2$", lambda: fast.PodClass(columns, request, b""))
    each_raises(IndexError, "^resource 3 outside 0..2$", lambda: pods.score_balanced([3], 1))
    message = "^verdict of node class 1: expected 0..127, got 128$"
    each_raises(ValueError, message, lambda: fast.PodClass(columns, pods.request, b"\0\x80"))
    message = "^value_by_node_class: expected 1 values, got 2$"
    each_raises(ValueError, message, lambda: pods.score_node_classes(array("q", [1, 2]), False, 1))
    message = r"^value of node class 0: expected 0\.\.9007199254740992, got -1$"
    each_raises(ValueError, message, lambda: pods.score_node_classes(array("q", [-1]), False, 1))
    message = r"^score of row 1: expected 0\.\.100, got 101$"
    each_raises(ValueError, message, lambda: pods.score_rows(b"\0\x65", 1))
    pods.score_rows(b"", fast.MAX_CLASS_WEIGHT - 1)
    message = r"^sum of weights: expected 0\.\.21474836, got 21474837$"
    each_raises(ValueError, message, lambda: pods.score_balanced([0], 2))
    pods.score_balanced([0], 1)


def test_bad_calls_are_refused(fast: ModuleType) -> None:
    columns, others = (make_columns(fast, [NodeSpec()]) for _ in range(2))
    placer, pods = fast.Placer(columns, PLENTY), new_class(fast, columns)
    foreign = new_class(fast, others)
    message = "^the class is of another table$"
    each_raises(ValueError, message, lambda: placer.place(foreign, None), lambda: place_many(placer, [pods, foreign]))
    assert placer.place(pods, None) == 0
    another = fast.Placer(columns, PLENTY)
    message = "^the class is in use by another placer$"
    each_raises(ValueError, message, lambda: another.place(pods, None))
    placer.drop(pods)
    assert another.place(pods, None) == 0
    short = array("i", [0])
    message = "^rows: expected room for 2, got 1$"
    each_raises(ValueError, message, lambda: another.place_many([pods, pods], None, short, short))
    message = "^random_bits: expected 1, got 0$"
    each_raises(ValueError, message, lambda: another.place_many([pods], array("Q"), short, short))
    assert another.place_many([], None, short, short) == (0, 0)
    each_raises(ValueError, "^threads: expected 1..64, got 0$", lambda: fast.Placer(columns, PLENTY, 0))
    each_raises(ValueError, "^kept: expected 1..4096, got 0$", lambda: fast.Placer(columns, PLENTY, 1, 0))


def test_classes_forget_when_memory_is_short_and_learn_again() -> None:
    fast: Any = load_compiled()
    if fast is None:
        missing_tool(NOT_BUILT)
    columns = make_columns(fast, [NodeSpec()] * 20)
    first, second, third = (new_class(fast, columns, cpu=cpu) for cpu in (100, 200, 300))
    placer = fast.Placer(columns, PLENTY)
    placer.place(first, None)
    one = placer.held_bytes
    placer = fast.Placer(columns, 2 * one)
    first = new_class(fast, columns)
    for pods in (first, second, first, second):
        assert placer.place(pods, None) == 0
    assert (placer.held_bytes, placer.rebuilds) == (2 * one, 2)
    assert placer.place(third, None) == 0  # in place of the first
    assert (placer.held_bytes, placer.rebuilds) == (2 * one, 3)
    assert placer.place(second, None) == 0
    assert placer.rebuilds == 3
    assert place_many(placer, [first, second, third])[0] == [0, 1, 2]
    assert (placer.held_bytes, placer.rebuilds) == (2 * one, 5)
    tiny = fast.Placer(columns, 0)
    assert place_many(tiny, [new_class(fast, columns), new_class(fast, columns)])[0] == [3, 4]
    assert tiny.held_bytes == one
    keeping = fast.Placer(columns, 0, 1, 2)
    several = [new_class(fast, columns, cpu=cpu) for cpu in (100, 200, 300)]
    place_many(keeping, several)
    assert keeping.held_bytes == 2 * one


@pytest.mark.parametrize("threads", [1, 3])
def test_new_classes_that_score_all_rows_in_one_pass_place_as_each_by_itself(fast: ModuleType, threads: int) -> None:
    """Some read resources that others do not, some amounts are too large for doubles, some rows have own scores."""

    def table() -> Any:
        rng = Random(5)
        kinds = [(rng.choice((4000, 16_000)), 8 * GI, rng.choice((0, 9, 1 << 50))) for _ in range(2_000)]
        return make_columns(fast, [NodeSpec(kind, node_class=at % 3) for at, kind in enumerate(kinds)])

    def classes(columns: Any) -> list[Any]:
        made = []
        for number in range(40):
            request = fast.PodRequest(((0, 100 + number), (2, 1)) if number % 4 == 3 else ((0, 100 + number),), 100, GI)
            pods = fast.PodClass(columns, request, b"\0\0\1" if number % 3 == 1 else b"\0\0\0")
            pods.score_least_allocated([(0, 1), (1, 1)], 1)
            pods.score_balanced([0, 1, 2] if number % 5 == 4 else [0, 1], 1)
            if number % 7 == 6:
                pods.score_node_classes(array("q", [5, 3, 9]), False, 2)
                pods.score_rows(bytes(range(100)), 3)
            made.append(pods)
        return made

    together, alone = table(), table()
    placer, lonely = fast.Placer(together, PLENTY, threads), fast.Placer(alone, PLENTY)
    order = [*range(40), *range(39, -1, -1)]
    these, those = classes(together), classes(alone)
    expected = [lonely.place_one(those[number], number) for number in order]
    rows, feasible, _ = place_many(placer, [these[number] for number in order], order)
    assert list(zip(rows, feasible, strict=True)) == expected
    if placer.passes:  # the reference has none
        assert (placer.rebuilds, placer.passes) == (40, 5)


def test_a_class_without_a_verdict_for_a_row_fails_at_its_own_turn(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(), NodeSpec(node_class=1), *[NodeSpec()] * 30])
    placer, pods = fast.Placer(columns, PLENTY), new_class(fast, columns, verdicts=b"\0\0")
    lacking = new_class(fast, columns, cpu=200)
    rows, feasible = array("i", [7, 7, 7]), array("i", [7, 7, 7])
    with pytest.raises(IndexError, match=r"^row 1 has node class 1, there are values for 1$"):
        placer.place_many([pods, lacking, pods], None, rows, feasible)
    assert list(rows) == [0, -1, -1]
    columns.set_node_class(1, 0)
    assert place_many(placer, [lacking, pods])[0] == [1, 2]


def test_many_changes_at_once_are_read_like_one(fast: ModuleType) -> None:
    """In long windows rows are scored together; a node class that loses its only feasible row counts all the same."""
    nodes = [NodeSpec(node_class=0), NodeSpec(node_class=1, allowed_pods=1), NodeSpec(node_class=2)]
    columns = make_columns(fast, nodes)
    placer = fast.Placer(columns, PLENTY)
    pods = fast.PodClass(columns, fast.PodRequest((), 0, 0), bytes(3))
    pods.score_node_classes(
        array("q", [1, 5, 2]), False, 2
    )  # 20, 100, 40; with row 1 out, or of node class 0: 50 and 100
    pods.score_rows(bytes([100, 0, 59]), 1)

    def come_and_go() -> None:
        for _ in range(10):
            columns.add_pod(0, pods.request)
            columns.remove_pod(0, pods.request)

    assert placer.place(pods, None) == 1
    come_and_go()
    columns.add_pod(1, pods.request)
    assert (placer.place(pods, None), placer.count_feasible(pods)) == (2, 2)
    come_and_go()
    columns.remove_pod(1, pods.request)
    assert (placer.place(pods, None), placer.count_feasible(pods)) == (1, 3)
    come_and_go()
    columns.set_node_class(1, 0)
    assert (placer.place(pods, None), placer.count_feasible(pods)) == (2, 3)
    come_and_go()
    columns.free_row(2)
    assert (placer.place(pods, None), placer.count_feasible(pods)) == (0, 2)


@pytest.mark.parametrize("inside", [b"\0\1\1", b"\0\1\1\0\0", b"\0\1\1\1"])
def test_pods_are_placed_inside_the_rows_that_the_placer_is_confined_to(fast: ModuleType, inside: bytes) -> None:
    columns = make_columns(fast, [NodeSpec(pods=(plain(load, 0),) if load else ()) for load in (0, 500, 1000, 3950)])
    placer, pods = fast.Placer(columns, 1 << 20), new_class(fast, columns)
    assert placer.place(pods, None) == 0
    placer.confine(inside)
    assert place_many(placer, [pods, pods])[:2] == ([1, 1], [2, 2])
    columns.add_pod(1, fast.PodRequest(*plain(3000, 0)))
    assert placer.place(pods, None) == 2
    assert placer.count_feasible(pods) == 2
    assert not placer.fits(pods, 0)
    placer.confine(None)
    assert placer.place(pods, None) == 0


def test_scores_are_normalised_inside_the_rows_that_the_placer_is_confined_to(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(node_class=each) for each in (0, 1, 2)])
    placer, pods = fast.Placer(columns, 1 << 20), fast.PodClass(columns, fast.PodRequest(*plain(100, 0)), b"\0\0\0")
    pods.score_node_classes(array("q", [1, 2, 100]), False, 1)
    pods.score_rows(bytes([60, 0, 0]), 1)
    placer.confine(b"\1\1\0")
    assert placer.place(pods, None) == 0, "50 + 60 against 100"
    placer.confine(b"\0\1\1")
    assert placer.place(pods, None) == 2


def test_room_is_counted_by_domain(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec((1000, 8 * GI, 0)), NodeSpec((350, 8 * GI, 0)), NodeSpec(allowed_pods=3)])
    columns.set_node_class(columns.add_row(), 1)
    placer, pods = fast.Placer(columns, 1 << 20), new_class(fast, columns, verdicts=b"\0\1")
    room = array("q", [0, 1, 0])
    placer.add_room(pods, array("i", [0, 1, 1, 2]), room)
    assert room.tolist() == [10, 1 + 3 + 3, 0]
    placer.add_room(pods, array("i", [-1, 2]), room)
    assert room.tolist() == [10, 7, 3]
    message = "row 1 is of domain 3, there is room for 3"
    each_raises(IndexError, message, lambda: placer.add_room(pods, array("i", [0, 3]), room))
