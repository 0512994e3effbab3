"""The rows of an image against a plain set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.snapshot.images import ImageState


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8))))
def test_the_rows_of_an_image_are_those_added_and_not_discarded(steps: list[tuple[bool, int]]) -> None:
    state = ImageState(1)
    expected: set[int] = set()
    for is_added, row in steps:
        (state.add if is_added else state.discard)(row)
        (expected.add if is_added else expected.discard)(row)
        assert list(state._rows) == sorted(expected)
        assert len(state) == len(expected)
        assert [row in state for row in range(9)] == [row in expected for row in range(9)]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8)), min_size=1))
def test_rows_that_were_given_out_do_not_change(steps: list[tuple[bool, int]]) -> None:
    state = ImageState(1)
    shown = []
    for is_added, row in steps:
        (state.add if is_added else state.discard)(row)
        shown.append((state.rows(), list(state.rows()), memoryview(state.rows())))
    assert all(list(rows) == before == list(view) for rows, before, view in shown)
