from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.fast.tables import GI, NodeSpec, each_raises, make_columns, plain


def test_a_new_row_is_empty_and_has_no_node_class(fast: ModuleType) -> None:
    columns = fast.NodeColumns()
    assert columns.add_row() == 0
    assert [columns.allocatable(0, resource) for resource in range(3)] == [0, 0, 0]
    assert [columns.requested(0, resource) for resource in range(3)] == [0, 0, 0]
    assert (columns.pod_count(0), columns.allowed_pods(0), columns.node_class(0)) == (0, 0, -1)
    assert columns.is_alive(0)


def test_the_lowest_freed_row_is_used_first_and_comes_back_empty(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(pods=(plain(100, GI),))] * 5)
    columns.free_row(3)
    columns.free_row(1)
    assert (columns.rows, columns.alive_count) == (5, 3)
    assert [columns.is_alive(row) for row in range(5)] == [True, False, True, False, True]
    assert [columns.add_row(), columns.add_row(), columns.add_row()] == [1, 3, 5]
    assert (columns.allocatable(1, 0), columns.requested(1, 0), columns.non_zero_cpu(1)) == (0, 0, 0)
    assert (columns.pod_count(1), columns.allowed_pods(1), columns.node_class(1)) == (0, 0, -1)


def test_rows_and_resources_keep_their_content_as_the_table_grows(fast: ModuleType) -> None:
    columns = fast.NodeColumns(1)
    for row in range(50):
        assert columns.add_row() == row
        resource = columns.add_resource()
        columns.set_allocatable(row, resource, 1000 + row)
        columns.set_node_class(row, row)
        columns.set_allowed_pods(row, row)
        columns.add_pod(row, fast.PodRequest([(resource, row + 1)], row, 2 * row))
    assert (columns.capacity, columns.resource_count, columns.rows) == (64, 53, 50)
    for row in range(50):
        own = row + 3
        assert [columns.allocatable(row, other) for other in range(53)] == [0] * own + [1000 + row] + [0] * (52 - own)
        assert [columns.requested(row, other) for other in range(53)] == [0] * own + [row + 1] + [0] * (52 - own)
        assert (columns.node_class(row), columns.allowed_pods(row), columns.pod_count(row)) == (row, row, 1)
        assert (columns.non_zero_cpu(row), columns.non_zero_memory(row)) == (row, 2 * row)


def test_pods_are_counted_and_taken_off_again(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()])
    request = fast.PodRequest([(0, 500), (2, 7)], 500, 200)
    columns.add_pod(0, request)
    columns.add_pod(0, request)
    assert (columns.requested(0, 0), columns.requested(0, 1), columns.requested(0, 2)) == (1000, 0, 14)
    assert (columns.non_zero_cpu(0), columns.non_zero_memory(0), columns.pod_count(0)) == (1000, 400, 2)
    columns.remove_pod(0, request)
    columns.remove_pod(0, request)
    assert [columns.requested(0, resource) for resource in range(3)] == [0, 0, 0]
    assert (columns.non_zero_cpu(0), columns.non_zero_memory(0), columns.pod_count(0)) == (0, 0, 0)


def test_every_change_bumps_the_generation_and_reading_does_not(fast: ModuleType) -> None:
    columns = fast.NodeColumns()
    request = fast.PodRequest([(0, 1)], 1, 1)
    changes: list[Callable[[], object]] = [
        columns.add_row,
        columns.add_resource,
        lambda: columns.set_allocatable(0, 0, 5),
        lambda: columns.set_allowed_pods(0, 5),
        lambda: columns.set_node_class(0, 5),
        lambda: columns.add_pod(0, request),
        lambda: columns.remove_pod(0, request),
        lambda: columns.free_row(0),
    ]
    for change in changes:
        before = columns.generation
        change()
        assert columns.generation == before + 1
    columns.allocatable(0, 0)
    assert columns.generation == before + 1


@pytest.mark.parametrize("row", [-1, 2, 1 << 40])
def test_a_row_outside_the_table_is_an_index_error(fast: ModuleType, row: int) -> None:
    columns = make_columns(fast, [NodeSpec()] * 2)
    request = fast.PodRequest([], 0, 0)
    each_raises(
        IndexError,
        rf"^row {row} outside 0\.\.1$",
        lambda: columns.allocatable(row, 0),
        lambda: columns.requested(row, 0),
        lambda: columns.non_zero_cpu(row),
        lambda: columns.non_zero_memory(row),
        lambda: columns.pod_count(row),
        lambda: columns.allowed_pods(row),
        lambda: columns.node_class(row),
        lambda: columns.is_alive(row),
        lambda: columns.set_allocatable(row, 0, 0),
        lambda: columns.set_allowed_pods(row, 0),
        lambda: columns.set_node_class(row, 0),
        lambda: columns.add_pod(row, request),
        lambda: columns.remove_pod(row, request),
        lambda: columns.free_row(row),
    )


def test_an_empty_table_says_so(fast: ModuleType) -> None:
    with pytest.raises(IndexError, match=r"^row 0: the table is empty$"):
        fast.NodeColumns().node_class(0)


def test_a_resource_outside_the_table_is_an_index_error(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()])
    each_raises(
        IndexError,
        r"^resource 3 outside 0\.\.2$",
        lambda: columns.allocatable(0, 3),
        lambda: columns.requested(0, 3),
        lambda: columns.set_allocatable(0, 3, 1),
        lambda: columns.add_pod(0, fast.PodRequest([(3, 1)], 0, 0)),
        lambda: columns.remove_pod(0, fast.PodRequest([(3, 1)], 0, 0)),
    )


def test_a_dead_row_can_be_read_but_not_written(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(alive=False), NodeSpec()])
    assert columns.allocatable(0, 0) == 0
    each_raises(
        ValueError,
        r"^row 0 holds no node$",
        lambda: columns.free_row(0),
        lambda: columns.set_allocatable(0, 0, 1),
        lambda: columns.set_allowed_pods(0, 1),
        lambda: columns.set_node_class(0, 1),
        lambda: columns.add_pod(0, fast.PodRequest([], 0, 0)),
        lambda: columns.remove_pod(0, fast.PodRequest([], 0, 0)),
    )


def test_amounts_beyond_two_to_the_62_are_refused(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()])
    columns.set_allocatable(0, 0, 1 << 62)
    columns.set_allocatable(0, 0, -(1 << 62))
    for amount in ((1 << 62) + 1, -(1 << 62) - 1, 1 << 80):
        with pytest.raises(ValueError, match=rf"^amount: expected -{1 << 62}\.\.{1 << 62}, got {amount}$"):
            columns.set_allocatable(0, 0, amount)
        with pytest.raises(ValueError, match=r"^count: expected"):
            columns.set_allowed_pods(0, amount)
    assert columns.allocatable(0, 0) == -(1 << 62)
    with pytest.raises(ValueError, match=r"^node class: expected 0..2147483647, got -1$"):
        columns.set_node_class(0, -1)


@pytest.mark.parametrize(
    ("entries", "cpu", "memory", "what"),
    [([(1, 3)], 0, 0, "resource 1"), ([], 3, 0, "non_zero_cpu"), ([], 0, 3, "non_zero_memory")],
)
def test_a_sum_that_would_pass_the_limit_is_refused_and_changes_nothing(
    fast: ModuleType, entries: list[tuple[int, int]], cpu: int, memory: int, what: str
) -> None:
    top = (1 << 62) - 2
    columns = make_columns(fast, [NodeSpec(pods=((((0, 5), (1, top)), top, top),))])
    generation = columns.generation
    with pytest.raises(OverflowError, match=rf"^row 0: {what} at {top}, 3 more pass {1 << 62}$"):
        columns.add_pod(0, fast.PodRequest(entries, cpu, memory))
    columns_now = (columns.requested(0, 0), columns.requested(0, 1), columns.non_zero_cpu(0), columns.pod_count(0))
    assert columns_now == (5, top, top, 1)
    assert columns.generation == generation
    columns.add_pod(0, fast.PodRequest([(1, 2)], 2, 2))


@pytest.mark.parametrize(
    ("entries", "cpu", "memory", "what"),
    [([(0, 6)], 0, 0, "resource 0 at 5, 6"), ([], 6, 0, "non_zero_cpu at 5, 6"), ([], 0, 6, "non_zero_memory at 5, 6")],
)
def test_more_than_was_counted_cannot_be_taken_off(
    fast: ModuleType, entries: list[tuple[int, int]], cpu: int, memory: int, what: str
) -> None:
    columns = make_columns(fast, [NodeSpec(pods=((((0, 5),), 5, 5),))])
    with pytest.raises(ValueError, match=rf"^row 0: {what} cannot be taken off$"):
        columns.remove_pod(0, fast.PodRequest(entries, cpu, memory))
    assert (columns.requested(0, 0), columns.non_zero_cpu(0), columns.pod_count(0)) == (5, 5, 1)


def test_a_node_without_pods_has_none_to_take_off(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()])
    with pytest.raises(ValueError, match=r"^row 0: pod count at 0, 1 cannot be taken off$"):
        columns.remove_pod(0, fast.PodRequest([], 0, 0))


def test_requests_are_equal_by_value(fast: ModuleType) -> None:
    one = fast.PodRequest([(0, 5), (3, 1)], 100, 200)
    same = fast.PodRequest(((0, 5), (3, 1)), 100, 200)
    assert one == same
    assert hash(one) == hash(same)
    assert one not in [
        fast.PodRequest([(0, 5)], 100, 200),
        fast.PodRequest([(0, 5), (3, 1)], 101, 200),
        fast.PodRequest([(0, 5), (3, 1)], 100, 201),
    ]
    assert one != "a request"
    assert (one.entries, one.non_zero_cpu, one.non_zero_memory) == (((0, 5), (3, 1)), 100, 200)
    assert repr(one) == "PodRequest(((0, 5), (3, 1)), 100, 200)"


def test_a_request_cannot_be_changed(fast: ModuleType) -> None:
    request = fast.PodRequest([(0, 5)], 100, 200)
    for name in ("entries", "non_zero_cpu", "non_zero_memory"):
        with pytest.raises(AttributeError):
            setattr(request, name, 1)


@pytest.mark.parametrize(
    ("entries", "cpu", "memory", "message"),
    [
        ([(0, 0)], 0, 0, "amount: expected 1..4611686018427387904, got 0"),
        ([(0, (1 << 62) + 1)], 0, 0, "amount: expected 1..4611686018427387904, got 4611686018427387905"),
        ([(-1, 1)], 0, 0, "resource: expected 0..2147483647, got -1"),
        ([(1, 1), (0, 1)], 0, 0, "entries: expected ascending resources, got 0 after 1"),
        ([(1, 1), (1, 1)], 0, 0, "entries: expected ascending resources, got 1 after 1"),
        ([(resource, 1) for resource in range(1025)], 0, 0, "entries: expected at most 1024 resources, got 1025"),
        ([], -1, 0, "non_zero_cpu: expected 0..4611686018427387904, got -1"),
        ([], 0, -1, "non_zero_memory: expected 0..4611686018427387904, got -1"),
    ],
)
def test_a_malformed_request_is_refused(
    fast: ModuleType, entries: list[tuple[int, int]], cpu: int, memory: int, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        fast.PodRequest(entries, cpu, memory)


def test_capacity_must_be_positive(fast: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"^capacity: expected 1"):
        fast.NodeColumns(0)
