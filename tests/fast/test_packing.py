from __future__ import annotations

import math
from array import array
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.fast.tables import GI, MI, NodeSpec, codes, each_raises, make_columns, plain, raws, start
from tests.support.skips import NOT_BUILT, missing_tool

DEAD = NodeSpec(alive=False)
SMALL = NodeSpec((1000, GI, 7), 11, node_class=0)
LARGE = NodeSpec((9000, 9 * GI, 0), 110, node_class=1, pods=(plain(250, 64 * MI), ((), 100, 200 * MI)))


def i64(*values: int) -> bytes:
    return array("q", values).tobytes()


def i32(*values: int) -> bytes:
    return array("i", values).tobytes()


def pack_all(fast: ModuleType, columns: Any, rows: bytes | None = None) -> dict[str, list[int]]:
    found = {}
    for what in ("non_zero_cpu", "non_zero_memory", "pods", "allowed_pods"):
        found[what] = list(array("q", fast.pack_amounts(columns, what, 0, rows)))
    for resource in range(columns.resource_count):
        for what in ("allocatable", "requested"):
            found[f"{what} {resource}"] = list(array("q", fast.pack_amounts(columns, what, resource, rows)))
    return found


def test_columns_are_packed_row_by_row(fast: ModuleType) -> None:
    columns = make_columns(fast, [SMALL, DEAD, LARGE])
    assert pack_all(fast, columns) == {
        "non_zero_cpu": [0, 0, 350],
        "non_zero_memory": [0, 0, 264 * MI],
        "pods": [0, 0, 2],
        "allowed_pods": [11, 0, 110],
        "allocatable 0": [1000, 0, 9000],
        "requested 0": [0, 0, 250],
        "allocatable 1": [GI, 0, 9 * GI],
        "requested 1": [0, 0, 64 * MI],
        "allocatable 2": [7, 0, 0],
        "requested 2": [0, 0, 0],
    }
    assert fast.pack_alive(columns) == b"\1\0\1"


def test_some_rows_are_packed_in_the_order_asked_for(fast: ModuleType) -> None:
    columns = make_columns(fast, [SMALL, DEAD, LARGE])
    assert list(array("q", fast.pack_amounts(columns, "allowed_pods", 0, i32(2, 0)))) == [110, 11]
    assert fast.pack_alive(columns, i32(1, 2)) == b"\0\1"
    assert (fast.pack_amounts(columns, "pods", 0, b""), fast.pack_alive(columns, b"")) == (b"", b"")


def test_an_empty_table_packs_to_nothing(fast: ModuleType) -> None:
    columns = fast.NodeColumns()
    verdicts, scores = start(fast, columns)
    assert set(map(len, pack_all(fast, columns).values())) == {0}
    assert (fast.pack_alive(columns), fast.pack_feasible(verdicts)) == (b"", b"")
    assert (fast.reject_marked(verdicts, b"", 1, 0), fast.set_raws(verdicts, scores, b"", 0, 9)) == (-1, -1)
    assert fast.values_by_node_class(columns, b"", 2) == i64(0, 0)


def test_what_is_not_in_the_table_is_not_packed(fast: ModuleType) -> None:
    columns = make_columns(fast, [SMALL, LARGE])
    each_raises(
        IndexError,
        r"outside 0\.\.",
        lambda: fast.pack_amounts(columns, "pods", 0, i32(2)),
        lambda: fast.pack_amounts(columns, "pods", 0, i32(0, -1)),
        lambda: fast.pack_amounts(columns, "allocatable", 3),
        lambda: fast.pack_alive(columns, i32(5)),
    )
    with pytest.raises(ValueError, match="expected the name of a column, got 'weight'"):
        fast.pack_amounts(columns, "weight")


def test_a_change_is_returned_to_those_who_ask_since_an_earlier_place(fast: ModuleType) -> None:
    columns = make_columns(fast, [SMALL, SMALL, LARGE])
    before = fast.changes_so_far(columns)
    assert fast.rows_changed_since(columns, before) == b""
    columns.add_pod(2, fast.PodRequest(*plain(1, 1)))
    columns.set_allowed_pods(0, 5)
    columns.set_allowed_pods(0, 6)
    assert fast.rows_changed_since(columns, before) in (None, i32(0, 2))
    assert fast.rows_changed_since(columns, fast.changes_so_far(columns)) == b""
    with pytest.raises(ValueError, match="cursor: expected 0"):
        fast.rows_changed_since(columns, fast.changes_so_far(columns) + 1)


def test_a_place_too_far_behind_gets_no_rows(fast: ModuleType) -> None:
    columns = make_columns(fast, [SMALL])
    before = fast.changes_so_far(columns)
    for _ in range(300):
        columns.set_allowed_pods(0, 5)
    assert fast.rows_changed_since(columns, before) is None


def test_marked_rows_are_rejected_for_their_reason(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [SMALL, DEAD, LARGE, SMALL, SMALL]))
    verdicts.reject(3, 1, 9)
    assert fast.reject_marked(verdicts, bytes([0, 250, 2, 250, 1]), 7, 2) == -1
    assert codes(verdicts) == [(0, 0), (fast.NO_NODE, 0), (7, 1), (1, 9), (7, 0)]
    assert fast.pack_feasible(verdicts) == i32(0)


def test_a_mark_without_a_reason_changes_nothing(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [SMALL, LARGE, SMALL]))
    assert fast.reject_marked(verdicts, b"\1\2\3", 7, 1) == 1
    assert verdicts.feasible_count() == 3
    with pytest.raises(ValueError, match="marks: expected 3 bytes, got 2"):
        fast.reject_marked(verdicts, b"\1\2", 7, 2)


def test_scores_of_feasible_rows_are_set(fast: ModuleType) -> None:
    verdicts, scores = start(fast, make_columns(fast, [SMALL, DEAD, LARGE]))
    scores.set_raw(1, 5)
    assert fast.set_raws(verdicts, scores, i64(3, 1 << 62, -4), -4, 100) == -1
    assert raws(scores) == [3, 0, -4]


def test_a_score_out_of_range_changes_nothing(fast: ModuleType) -> None:
    verdicts, scores = start(fast, make_columns(fast, [SMALL, SMALL, LARGE]))
    assert fast.set_raws(verdicts, scores, i64(3, -1, 101), 0, 100) == 1
    assert fast.set_raws(verdicts, scores, i64(3, 1, -(1 << 63)), 0, fast.MAX_RAW) == 2
    assert raws(scores) == [0, 0, 0]
    with pytest.raises(ValueError, match="values: expected 24 bytes, got 23"):
        fast.set_raws(verdicts, scores, bytes(23), 0, 100)


def test_values_that_agree_by_node_class_are_returned_by_node_class(fast: ModuleType) -> None:
    columns = make_columns(fast, [SMALL, LARGE, DEAD, SMALL])
    assert fast.values_by_node_class(columns, i64(5, 6, 99, 5), 3) == i64(5, 6, 0)
    assert fast.values_by_node_class(columns, i64(5, 6, 99, 4), 3) is None


nodes = st.lists(
    st.builds(
        NodeSpec,
        st.tuples(*[st.integers(0, 1 << 40)] * 3),
        st.integers(0, 200),
        st.integers(0, 3),
        st.just((plain(5, 6),)),
        st.booleans(),
    ),
    max_size=12,
)


@settings(max_examples=60)
@given(nodes, st.data())
def test_both_forms_agree(table: list[NodeSpec], data: st.DataObject) -> None:
    compiled = load_compiled()
    if compiled is None:
        missing_tool(NOT_BUILT)
    rows = data.draw(st.none() | st.lists(st.integers(0, len(table) - 1)) if table else st.none())
    marks = bytes(data.draw(st.lists(st.integers(0, 3), min_size=len(table), max_size=len(table))))
    values = i64(*data.draw(st.lists(st.integers(-5, 9), min_size=len(table), max_size=len(table))))
    reported = []
    for fast in (reference, compiled):
        columns = make_columns(fast, table)
        verdicts, scores = start(fast, columns)
        reported.append(
            (
                pack_all(fast, columns, None if rows is None else i32(*rows)),
                fast.reject_marked(verdicts, marks, 3, 2),
                fast.set_raws(verdicts, scores, values, -3, 8),
                codes(verdicts),
                raws(scores),
                fast.values_by_node_class(columns, values, 4),
                fast.pack_feasible(verdicts),
            )
        )
    assert reported[0] == reported[1]


def test_usage_is_packed_as_a_table_message(fast: ModuleType) -> None:
    columns = make_columns(fast, [SMALL, DEAD, LARGE])
    names = (msgspec.msgpack.encode("cpu"), 0), (msgspec.msgpack.encode("x" * 40), -1)
    message = fast.pack_usage(columns, 300, i32(0, 2), names)
    assert message == msgspec.msgpack.encode(
        {
            "gen": 300,
            "rows": 3,
            "at": i32(0, 2),
            "used": {"cpu": i64(0, 250), "x" * 40: i64(0, 0)},
            "used_cpu": i64(0, 350),
            "used_memory": i64(0, 264 * MI),
            "pods_n": i64(0, 2),
        }
    )
    each_raises(ValueError, "expected some, got none", lambda: fast.pack_usage(columns, 1, b"", ()))
    each_raises(ValueError, r"resources: expected 0\.\.15", lambda: fast.pack_usage(columns, 1, i32(0), names * 8))
    each_raises(ValueError, "resource: expected -1", lambda: fast.pack_usage(columns, 1, i32(0), [(b"\xa1x", 9)]))
    each_raises(IndexError, "row 3", lambda: fast.pack_usage(columns, 1, i32(3), ()))


SIZES = (1, 31, 32, 63, 64, 8_191, 8_192, 16_384)  # where the head of a bin grows


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SIZES), st.integers(0, (1 << 63) - 1), st.integers(0, 15))
def test_both_forms_pack_usage_into_the_same_bytes(count: int, gen: int, resources: int) -> None:
    compiled = load_compiled()
    if compiled is None:
        missing_tool(NOT_BUILT)
    names = [(msgspec.msgpack.encode("r" * 9), 0)] * resources
    reported = [
        fast.pack_usage(make_columns(fast, [LARGE]), gen, i32(*[0] * count), names) for fast in (reference, compiled)
    ]
    assert reported[0] == reported[1]


def test_rows_that_changed_are_returned_once_and_in_order(fast: ModuleType) -> None:
    columns = make_columns(fast, [SMALL] * 40)
    for rows in ([], [7], [9, 3, 9, 30, 3], list(range(39, 0, -1))):
        seen = fast.changes_so_far(columns)
        for row in rows:
            columns.set_allowed_pods(row, 5)
        found = fast.rows_changed_since(columns, seen)
        assert found in (i32(*sorted(set(rows))), None if rows else b"")
        if fast.__name__ == "compiled":
            assert found is not None


def test_values_become_thousandths_and_changed_rows_are_returned(fast: ModuleType) -> None:
    packed = bytearray(8 * 6)
    nothing = -(1 << 63)
    reported = fast.take_metric(array("d", [1.5, math.nan, -0.0004, 0.0015, math.inf]), packed)
    assert list(array("q", packed)) == [1500, nothing, 0, 2, (1 << 63) - 1, nothing]
    assert reported == i32(0, 1, 3, 4, 5)
    assert fast.take_metric(array("d", [1.5001, 2.0, 0.0, 0.0024, -math.inf, 1e16]), packed) == i32(1, 4, 5)
    assert list(array("q", packed)) == [1500, 2000, 0, 2, 1 - (1 << 63), (1 << 63) - 1]
    assert fast.take_metric(None, packed) == i32(0, 1, 2, 3, 4, 5)
    assert fast.take_metric(memoryview(array("d", [1.0])), bytearray()) == b""


@settings(max_examples=200)
@given(st.lists(st.floats(), max_size=9), st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=9))
def test_both_forms_take_metrics_with_the_same_result(values: list[float], before: list[int]) -> None:
    compiled = load_compiled()
    if compiled is None:
        missing_tool(NOT_BUILT)
    columns = bytearray(i64(*before)), bytearray(i64(*before))
    reported = [
        fast.take_metric(array("d", values), packed)
        for fast, packed in zip((reference, compiled), columns, strict=True)
    ]
    assert (reported[0], columns[0]) == (reported[1], columns[1])
