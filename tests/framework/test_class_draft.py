"""What plugins state in a draft, and which drafts are the same class."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest

from kscheduler._fast import NodeColumns, Placer, PodRequest
from kscheduler.framework.class_draft import ClassDraft, Source

SMALL, LARGE = PodRequest([(0, 100)], 100, 0), PodRequest([(0, 900)], 900, 0)


@pytest.fixture
def columns() -> NodeColumns:
    """Three nodes of the profiles 0, 1 and 2, with 1, 2 and 3 cores."""
    columns = NodeColumns(4)
    for profile in range(3):
        row = columns.add_row()
        columns.set_node_class(row, profile)
        columns.set_allocatable(row, 0, 1_000 * (profile + 1))
        columns.set_allowed_pods(row, 10)
    return columns


def draft_of(columns: NodeColumns, *say: Callable[[ClassDraft], object], weight: int | None = 1) -> ClassDraft:
    """As several plugins say it, each at Filter and at Score."""
    draft = ClassDraft(columns, 3)
    for index, each in enumerate(say):
        draft.begin(f"plugin{index}", filters=True, weight=weight)
        each(draft)
    return draft


def rows_of(draft: ClassDraft, columns: NodeColumns) -> tuple[int, int]:
    """The row a pod goes to, and how many fit."""
    placer, made = Placer(columns, 1 << 20), draft.make()
    return placer.place(made, None), placer.count_feasible(made)


def test_a_node_is_out_if_any_plugin_says_so(columns: NodeColumns) -> None:
    draft = draft_of(
        columns,
        lambda draft: draft.filter_node_classes(bytearray([0, 0, 1])),
        lambda draft: draft.filter_node_classes(bytearray([2, 0, 0])),
        lambda draft: draft.filter_fit(SMALL),
    )
    assert rows_of(draft, columns) == (1, 1)


def test_scores_are_weighed(columns: NodeColumns) -> None:
    def fit(draft: ClassDraft) -> None:
        draft.filter_fit(SMALL)
        draft.score_most_allocated(SMALL, [(0, 1)])

    def against_the_first(draft: ClassDraft) -> None:
        draft.score_node_classes(array("q", [0, 0, 5]), reverse=False)

    assert rows_of(draft_of(columns, fit), columns) == (0, 3)
    assert rows_of(draft_of(columns, fit, against_the_first), columns) == (2, 3)
    assert rows_of(draft_of(columns, fit, lambda draft: draft.score_rows(bytes([0, 100, 0]))), columns) == (1, 3)


def test_what_is_stated_about_a_point_where_the_plugin_is_not_is_left_out(columns: NodeColumns) -> None:
    draft = draft_of(columns, lambda draft: draft.filter_fit(SMALL))
    before = draft.key
    draft.begin("elsewhere", filters=False, weight=None)
    draft.filter_node_classes(bytes([1, 1, 1]))
    draft.filter_fit(LARGE)
    draft.score_rows(bytes([1, 2, 3]))
    draft.score_balanced(SMALL, [0])
    assert draft.key == before
    assert (draft.filtering, draft.scoring) == (["plugin0"], [])


def test_scores_that_make_no_difference_make_no_other_class_but_count_as_given(columns: NodeColumns) -> None:
    plain = draft_of(columns, lambda draft: draft.filter_fit(SMALL))
    even = draft_of(
        columns,
        lambda draft: draft.filter_fit(SMALL),
        lambda draft: draft.score_node_classes(array("q", [7, 7, 7]), reverse=True),
        lambda draft: draft.score_rows(bytes(3)),
    )
    assert even.key == plain.key
    assert even.scoring == ["plugin1", "plugin2"]


@pytest.mark.parametrize(
    "other",
    [
        lambda draft: draft.filter_fit(LARGE),
        lambda draft: (draft.filter_fit(SMALL), draft.filter_node_classes(bytes([0, 0, 1]))),
        lambda draft: (draft.filter_fit(SMALL), draft.score_least_allocated(SMALL, [(0, 1)])),
        lambda draft: (draft.filter_fit(SMALL), draft.score_requested_to_capacity_ratio(SMALL, [(0, 1)], [(0, 1)])),
        lambda draft: (draft.filter_fit(SMALL), draft.score_node_classes(array("q", [0, 0, 1]), reverse=False)),
        lambda draft: (draft.filter_fit(SMALL), draft.score_balanced(SMALL, [0])),
    ],
)
def test_drafts_of_equal_content_are_equal_and_others_are_not(
    columns: NodeColumns, other: Callable[[ClassDraft], object]
) -> None:
    assert draft_of(columns, other).key == draft_of(columns, other).key
    assert draft_of(columns, other).key != draft_of(columns, lambda draft: draft.filter_fit(SMALL)).key
    draft_of(columns, other).make()


def test_a_class_needs_a_request_and_is_balanced_by_that_very_one(columns: NodeColumns) -> None:
    with pytest.raises(ValueError, match="a request that nodes need room for"):
        draft_of(columns).make()
    with pytest.raises(ValueError, match="balanced by what they need room for"):
        draft_of(columns, lambda draft: draft.filter_fit(SMALL), lambda draft: draft.score_balanced(LARGE, [0])).make()


def test_answers_must_be_for_all_profiles(columns: NodeColumns) -> None:
    with pytest.raises(ValueError, match="verdict_by_node_class: expected 3 values, got 2"):
        draft_of(columns, lambda draft: draft.filter_node_classes(bytes(2)))
    with pytest.raises(ValueError, match="value_by_node_class: expected 3 values, got 4"):
        draft_of(columns, lambda draft: draft.score_node_classes(array("q", [0] * 4), reverse=False))


def test_all_answers_rest_on_the_nodes(columns: NodeColumns) -> None:
    assert draft_of(columns).sources == {Source.NODES}
    recorded = draft_of(columns, lambda draft: draft.depends_on(Source.IMAGES, Source.TERMS))
    assert recorded.sources == {Source.NODES, Source.IMAGES, Source.TERMS}
