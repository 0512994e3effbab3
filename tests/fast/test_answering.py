from __future__ import annotations

from array import array
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fast.implementations import load_compiled, reference
from tests.fast.tables import GI, NodeSpec, each_raises, make_columns, plain

AS_THEY_ARE, DEFAULT, REVERSE = range(3)


def i64(*values: int) -> bytes:
    return array("q", values).tobytes()


def bench(fast: ModuleType, nodes: list[NodeSpec], raws: list[int] | None = None) -> tuple[Any, Any]:
    """A joiner, and a class of pods with 1 cpu; `raws`: scores by profile, of weight 2."""
    columns = make_columns(fast, nodes)
    pod_class = fast.PodClass(columns, fast.PodRequest(*plain(1000, 0)), bytes(len(raws or [0])))
    if raws:
        pod_class.score_profiles(array("q", raws), False, 2)
    return fast.Joiner(fast.Placer(columns, 1 << 20)), pod_class


ROOMY, FULL, DEAD = NodeSpec(), NodeSpec((500, GI, 0)), NodeSpec(alive=False)


def test_marked_rows_are_out_and_the_best_of_the_others_is_found(fast: ModuleType) -> None:
    joiner, pod_class = bench(fast, [ROOMY, FULL, ROOMY, DEAD, ROOMY])
    assert fast.join_answers(joiner, pod_class, b"\7\0\0\0\0", i64(99, 98, 5, 97, 6), 1, AS_THEY_ARE) == 2
    assert joiner.row(None) == 4


def test_scores_may_be_normalised_over_the_rows_that_are_left(fast: ModuleType) -> None:
    joiner, pod_class = bench(fast, [ROOMY, ROOMY, ROOMY])
    for how, row in ((DEFAULT, 1), (REVERSE, 2)):
        assert fast.join_answers(joiner, pod_class, b"\1\0\0", i64(1 << 50, 40, 20), 3, how) == 2
        assert joiner.row(None) == row


def test_scores_of_profiles_are_normalised_over_the_rows_that_are_left(fast: ModuleType) -> None:
    # Row 0 had the highest score of its profile: without it row 1 has 100, twice, and not 20.
    nodes = [NodeSpec(profile=0), NodeSpec(profile=1), NodeSpec(profile=2)]
    joiner, pod_class = bench(fast, nodes, [1000, 200, 0])
    assert fast.join_answers(joiner, pod_class, b"\1\0\0", i64(0, 0, 100), 1, AS_THEY_ARE) == 2
    assert joiner.row(None) == 1


def test_ties_are_broken_by_the_bits_given(fast: ModuleType) -> None:
    joiner, pod_class = bench(fast, [ROOMY] * 4)
    assert fast.join_answers(joiner, pod_class, b"\0\1\0\0", None, 0, AS_THEY_ARE) == 3
    assert [joiner.row(bits) for bits in range(4)] == [0, 2, 3, 0]


def test_with_nothing_left_there_is_no_row(fast: ModuleType) -> None:
    joiner, pod_class = bench(fast, [ROOMY, ROOMY])
    assert (fast.join_answers(joiner, pod_class, b"\1\1", i64(-5, -5), 1, AS_THEY_ARE), joiner.row(None)) == (0, -1)
    joiner, pod_class = bench(fast, [])
    assert (fast.join_answers(joiner, pod_class, b"", b"", 1, AS_THEY_ARE), joiner.row(None)) == (0, -1)


def test_scores_out_of_range_and_wrong_lengths_are_refused(fast: ModuleType) -> None:
    joiner, pod_class = bench(fast, [ROOMY, FULL, ROOMY])
    each_raises(
        ValueError,
        r"score of row 2: expected 0\.\.\d+, got",
        lambda: fast.join_answers(joiner, pod_class, None, i64(0, -9, 101), 1, AS_THEY_ARE),
        lambda: fast.join_answers(joiner, pod_class, None, i64(0, -9, -1), 1, DEFAULT),
        lambda: fast.join_answers(joiner, pod_class, None, i64(0, -9, 1 << 60), 1, REVERSE),
    )
    each_raises(
        ValueError,
        "expected",
        lambda: fast.join_answers(joiner, pod_class, b"\0", None, 1, AS_THEY_ARE),
        lambda: fast.join_answers(joiner, pod_class, None, bytes(25), 1, AS_THEY_ARE),
        lambda: fast.join_answers(joiner, pod_class, None, None, -1, AS_THEY_ARE),
        lambda: fast.join_answers(joiner, pod_class, None, None, 1, 3),
    )
    assert fast.join_answers(joiner, pod_class, None, None, fast.MAX_CLASS_WEIGHT + 1, AS_THEY_ARE) is None


nodes = st.lists(
    st.builds(NodeSpec, st.just((4000, GI, 0)), profile=st.integers(0, 2), alive=st.booleans()) | st.just(FULL),
    max_size=40,
)


@settings(max_examples=80)
@given(nodes, st.lists(st.integers(0, 500), min_size=3, max_size=3), st.integers(0, 2), st.integers(0, 50), st.data())
def test_both_forms_agree(table: list[NodeSpec], raws: list[int], how: int, bits: int, data: st.DataObject) -> None:
    compiled = load_compiled()
    if compiled is None:
        pytest.skip("the extensions are not built")
    count = len(table)
    marks = bytes(data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)))
    values = i64(*data.draw(st.lists(st.integers(0, 100), min_size=count, max_size=count)))
    told = []
    for fast in (reference, compiled):
        joiner, pod_class = bench(fast, table, raws)
        told.append((fast.join_answers(joiner, pod_class, marks, values, 7, how), joiner.row(bits)))
    assert told[0] == told[1]
