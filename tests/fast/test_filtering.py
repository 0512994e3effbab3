from __future__ import annotations

from array import array
from types import ModuleType

import pytest

from tests.fast.tables import GI, NodeSpec, codes, make_columns, plain, start

CODE = 9


def fit(fast: ModuleType, nodes: list[NodeSpec], entries: list[tuple[int, int]]) -> list[tuple[int, int]]:
    columns = make_columns(fast, nodes, resources=5)
    verdicts, _ = start(fast, columns)
    left = fast.filter_fit(columns, verdicts, fast.PodRequest(entries, 0, 0), CODE)
    assert left == verdicts.feasible_count()
    return codes(verdicts)


def test_a_pod_fits_exactly_into_what_is_left(fast: ModuleType) -> None:
    node = NodeSpec(allocatable=(4000, 8 * GI), pods=(plain(1000, 2 * GI),))
    assert fit(fast, [node], [(0, 3000), (1, 6 * GI)]) == [(fast.FEASIBLE, 0)]
    assert fit(fast, [node], [(0, 3001), (1, 6 * GI)]) == [(CODE, 0b010)]
    assert fit(fast, [node], [(0, 3000), (1, 6 * GI + 1)]) == [(CODE, 0b100)]
    assert fit(fast, [node], [(0, 3001), (1, 6 * GI + 1)]) == [(CODE, 0b110)]


def test_bits_follow_the_entries_not_the_resources(fast: ModuleType) -> None:
    node = NodeSpec(allocatable=(4000, 8 * GI, 0, 0, 4), pods=((((4, 3),), 0, 0),))
    assert fit(fast, [node], [(4, 2)]) == [(CODE, 0b10)]
    assert fit(fast, [node], [(1, 1), (4, 2)]) == [(CODE, 0b100)]


def test_more_than_the_whole_node_has_cannot_be_resolved(fast: ModuleType) -> None:
    node = NodeSpec(allocatable=(4000, 8 * GI), pods=(plain(3000, GI),))
    assert fit(fast, [node], [(0, 4000), (1, 8 * GI)]) == [(CODE, 0b110)]
    assert fit(fast, [node], [(0, 4001), (1, 8 * GI)]) == [(CODE, 0b110 | fast.UNRESOLVABLE)]
    assert fit(fast, [node], [(3, 1)]) == [(CODE, 0b10 | fast.UNRESOLVABLE)]


def test_the_pod_count_is_a_reason_of_its_own(fast: ModuleType) -> None:
    full = NodeSpec(allowed_pods=1, pods=(plain(0, 0),))
    assert fit(fast, [full], []) == [(CODE, fast.TOO_MANY_PODS)]
    assert fit(fast, [full], [(0, 5000)]) == [(CODE, fast.TOO_MANY_PODS | 0b10 | fast.UNRESOLVABLE)]
    assert fit(fast, [NodeSpec(allowed_pods=0)], []) == [(CODE, fast.TOO_MANY_PODS)]


def test_a_pod_without_requests_fits_an_overcommitted_node(fast: ModuleType) -> None:
    assert fit(fast, [NodeSpec(pods=(plain(9000, 90 * GI),))], []) == [(fast.FEASIBLE, 0)]


def test_dead_and_rejected_rows_are_left_alone(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(alive=False), NodeSpec(), NodeSpec()])
    verdicts, _ = start(fast, columns)
    verdicts.reject(1, 4, 2)
    assert fast.filter_fit(columns, verdicts, fast.PodRequest([(0, 9999)], 0, 0), CODE) == 0
    assert codes(verdicts) == [(fast.NO_NODE, 0), (4, 2), (CODE, 0b10 | fast.UNRESOLVABLE)]


def test_amounts_at_the_limits_do_not_wrap(fast: ModuleType) -> None:
    top = 1 << 62
    nodes = [
        NodeSpec(allocatable=(-top,), pods=((((0, top),), 0, 0),)),
        NodeSpec(allocatable=(top,), pods=((((0, top),), 0, 0),)),
        NodeSpec(allocatable=(top,)),
    ]
    assert fit(fast, nodes, [(0, top)]) == [(CODE, 0b10 | fast.UNRESOLVABLE), (CODE, 0b10), (fast.FEASIBLE, 0)]


def test_sixty_entries_have_a_bit_each(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()], resources=64)
    verdicts, _ = start(fast, columns)
    request = fast.PodRequest([(resource, 1) for resource in range(4, 64)], 0, 0)
    fast.filter_fit(columns, verdicts, request, CODE)
    assert verdicts.detail(0) == ((1 << 61) - 2) | fast.UNRESOLVABLE


def test_the_sixtieth_entry_and_all_later_ones_share_a_bit(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(allocatable=(1,) * 160), NodeSpec(allocatable=(1,) * 159)], resources=160)
    verdicts, _ = start(fast, columns)
    request = fast.PodRequest([(resource, 1) for resource in range(160)], 0, 0)
    fast.filter_fit(columns, verdicts, request, CODE)
    assert (verdicts.code(0), verdicts.detail(0)) == (fast.FEASIBLE, 0)
    assert verdicts.detail(1) == 1 << 60 | fast.UNRESOLVABLE
    assert fast.entry_bit(59) == fast.entry_bit(159) == 1 << fast.ENTRY_BITS


def test_a_request_for_a_resource_without_a_column_is_refused(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()])
    verdicts, _ = start(fast, columns)
    with pytest.raises(IndexError, match=r"^resource 7 outside 0\.\.2$"):
        fast.filter_fit(columns, verdicts, fast.PodRequest([(7, 1)], 0, 0), CODE)


@pytest.mark.parametrize("container", [bytes, bytearray, lambda values: array("b", values), memoryview])
def test_a_node_classes_verdict_holds_for_its_nodes(fast: ModuleType, container: object) -> None:
    columns = make_columns(fast, [NodeSpec(node_class=node_class) for node_class in (2, 0, 1, 2, 0)])
    verdicts, _ = start(fast, columns)
    verdicts.reject(3, 1, 1)
    answers = container(bytes([0, 127, 5]))  # type: ignore[operator]
    assert fast.filter_node_classes(columns, verdicts, answers, CODE) == 2
    assert codes(verdicts) == [(CODE, 5), (0, 0), (CODE, 127), (1, 1), (0, 0)]


def test_a_node_class_without_a_verdict_is_refused_and_changes_nothing(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(node_class=0), NodeSpec(node_class=1), NodeSpec(node_class=2, alive=False)])
    verdicts, _ = start(fast, columns)
    with pytest.raises(IndexError, match=r"^row 1 has node class 1, there are values for 1$"):
        fast.filter_node_classes(columns, verdicts, b"\x01", CODE)
    assert codes(verdicts)[:2] == [(0, 0), (0, 0)]
    verdicts.reject(1, 1)
    assert fast.filter_node_classes(columns, verdicts, b"\x00", CODE) == 1


def test_a_node_without_a_node_class_is_refused(fast: ModuleType) -> None:
    columns = fast.NodeColumns()
    columns.add_row()
    verdicts, _ = start(fast, columns)
    with pytest.raises(IndexError, match=r"^row 0 has node class -1, there are values for 3$"):
        fast.filter_node_classes(columns, verdicts, bytes(3), CODE)


def test_verdicts_above_127_are_refused(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()])
    verdicts, _ = start(fast, columns)
    with pytest.raises(ValueError, match=r"^verdict of node class 1: expected 0\.\.127, got -2$"):
        fast.filter_node_classes(columns, verdicts, array("b", [0, -2]), CODE)


def test_verdicts_of_a_larger_table_do_not_meet_a_smaller_one(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NodeSpec()] * 3))
    small = make_columns(fast, [NodeSpec()])
    message = "^verdicts have 3 rows, these columns 1: reset them together$"
    with pytest.raises(ValueError, match=message):
        fast.filter_fit(small, verdicts, fast.PodRequest([], 0, 0), CODE)
    with pytest.raises(ValueError, match=message):
        fast.filter_node_classes(small, verdicts, b"\x00", CODE)


def test_a_node_that_appears_during_a_pod_takes_no_part(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()])
    verdicts, _ = start(fast, columns)
    columns.add_row()
    assert fast.filter_fit(columns, verdicts, fast.PodRequest([], 0, 0), CODE) == 1
    assert verdicts.rows == 1


@pytest.mark.parametrize("code", [0, 201])
def test_the_code_must_be_the_callers(fast: ModuleType, code: int) -> None:
    columns = make_columns(fast, [NodeSpec()])
    verdicts, _ = start(fast, columns)
    with pytest.raises(ValueError, match=r"^code: expected 1\.\.200"):
        fast.filter_fit(columns, verdicts, fast.PodRequest([], 0, 0), code)
    with pytest.raises(ValueError, match=r"^code: expected 1\.\.200"):
        fast.filter_node_classes(columns, verdicts, b"\x00", code)


def test_no_nodes_leave_none(fast: ModuleType) -> None:
    columns = fast.NodeColumns()
    verdicts, _ = start(fast, columns)
    assert fast.filter_fit(columns, verdicts, fast.PodRequest([], 0, 0), CODE) == 0
    assert fast.filter_node_classes(columns, verdicts, b"", CODE) == 0
