"""Scores that somebody says of rows, normalised over the rows that are left, beside what other terms ask."""

from __future__ import annotations

from array import array
from types import ModuleType
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.fast.tables import GI, NodeSpec, each_raises, make_columns, plain
from tests.support.skips import NOT_BUILT, missing_tool

ROOMY, FULL, DEAD = NodeSpec(), NodeSpec((500, GI, 0)), NodeSpec(alive=False)


class Bench:
    """A joiner, and a class of pods with 1 cpu; `raws`: scores by node class, of weight 2. Marked rows are out."""

    def __init__(
        self, fast: ModuleType, nodes: list[NodeSpec], *, raws: list[int] | None = None, marks: bytes = b""
    ) -> None:
        self.fast: Any = fast
        self.columns = make_columns(fast, nodes)
        self.pod_class = self.fast.PodClass(
            self.columns, self.fast.PodRequest(*plain(1000, 0)), bytes(len(raws or [0]))
        )
        if raws:
            self.pod_class.score_node_classes(array("q", raws), False, 2)
        if marks:
            self.pod_class.ask_rows(self.fast.RowAnswers(self.columns, lambda rows: marks, True))
        self.joiner = self.fast.Joiner(self.fast.Placer(self.columns, 1 << 20))

    def terms(self, *scores: int, weight: int = 3, reverse: bool = False) -> Any:
        made, recorded = self.fast.JoinTerms(weight), array("q", scores).tobytes()
        answers = self.fast.RowAnswers(self.columns, lambda rows: recorded, False, 0, self.fast.MAX_RAW)
        answers.refresh()
        made.score_answers(answers, reverse)
        return made

    def spread(self, counts: list[int], domains: list[int]) -> Any:
        mask, tally, made = self.fast.RowMask(), self.fast.DomainTally(), self.fast.JoinTerms(5)
        verdicts = self.fast.Verdicts()
        verdicts.reset(self.columns)
        mask.take_feasible(verdicts)
        tally.rebuild(array("q", counts), array("i", domains), max(domains, default=0) + 1, mask)
        made.keep_even(tally, 2, 1, 1)
        made.spread(tally, 1)
        return made


def test_scores_are_normalised_over_the_rows_that_are_left(fast: ModuleType) -> None:
    bench = Bench(fast, [ROOMY, ROOMY, ROOMY], marks=b"\1\0\0")
    for reverse, row in ((False, 1), (True, 2)):
        assert bench.joiner.join(bench.pod_class, [bench.terms(1 << 50, 40, 20, reverse=reverse)]) == 2
        assert bench.joiner.row(None) == row


def test_scores_of_node_classes_are_normalised_over_the_rows_that_are_left(fast: ModuleType) -> None:
    # Row 0 had the highest score of its node class: without it row 1 has 100, twice, and not 20.
    nodes = [NodeSpec(node_class=0), NodeSpec(node_class=1), NodeSpec(node_class=2)]
    bench = Bench(fast, nodes, raws=[1000, 200, 0], marks=b"\1\0\0")
    assert bench.joiner.join(bench.pod_class, [bench.terms(0, 0, 100, weight=1)]) == 2
    assert bench.joiner.row(None) == 1


def test_ties_are_broken_by_the_bits_given(fast: ModuleType) -> None:
    bench = Bench(fast, [ROOMY] * 4, marks=b"\0\1\0\0")
    assert bench.joiner.join(bench.pod_class, [bench.terms(7, 9, 7, 7)]) == 3
    assert [bench.joiner.row(bits) for bits in range(4)] == [0, 2, 3, 0]


def test_with_nothing_left_there_is_no_row(fast: ModuleType) -> None:
    for bench in (Bench(fast, [ROOMY, ROOMY], marks=b"\1\1"), Bench(fast, [])):
        terms = bench.terms(*[5] * bench.columns.rows)
        assert (bench.joiner.join(bench.pod_class, [terms]), bench.joiner.row(None)) == (0, -1)


def test_terms_that_lack_rows_give_no_answer(fast: ModuleType) -> None:
    bench = Bench(fast, [ROOMY, ROOMY])
    terms = bench.terms(1, 2)
    bench.columns.set_node_class(bench.columns.add_row(), 0)
    assert bench.joiner.join(bench.pod_class, [terms]) is None


def test_terms_are_scored_in_one_way_by_scores_that_are_never_below_0(fast: ModuleType) -> None:
    bench = Bench(fast, [ROOMY])
    tally = bench.fast.DomainTally()
    marks = bench.fast.RowAnswers(bench.columns, lambda rows: b"", True)
    below = bench.fast.RowAnswers(bench.columns, lambda rows: b"", False, -1, 5)
    good = bench.fast.RowAnswers(bench.columns, lambda rows: b"", False, 0, 5)
    each_raises(
        ValueError,
        "never below 0",
        lambda: bench.fast.JoinTerms(1).score_answers(marks),
        lambda: bench.fast.JoinTerms(1).score_answers(below),
    )
    near = bench.fast.JoinTerms(1)
    near.prefer(tally, 1)
    terms = bench.terms(1)
    each_raises(
        ValueError,
        "one way",
        lambda: near.score_answers(good),
        lambda: terms.prefer(tally, 1),
        lambda: terms.spread(tally, 1),
        lambda: terms.score_answers(good),
    )


nodes = st.lists(
    st.builds(NodeSpec, st.just((4000, GI, 0)), node_class=st.integers(0, 2), alive=st.booleans()) | st.just(FULL),
    max_size=40,
)


@settings(max_examples=80, deadline=None)
@given(nodes, st.lists(st.integers(0, 500), min_size=3, max_size=3), st.booleans(), st.integers(0, 50), st.data())
def test_both_forms_agree(
    table: list[NodeSpec], raws: list[int], reverse: bool, bits: int, data: st.DataObject
) -> None:
    compiled = load_compiled()
    if compiled is None:
        missing_tool(NOT_BUILT)

    def drawn(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=len(table), max_size=len(table)))

    marks, first, second = bytes(drawn(0, 1)), drawn(0, 100), drawn(0, 1 << 53)
    counts, domains, is_spread = drawn(0, 3), drawn(-1, 3), data.draw(st.booleans())
    reported = []
    for fast in (reference, compiled):
        bench = Bench(fast, table, raws=raws, marks=marks)
        terms = [bench.terms(*first, reverse=reverse), bench.terms(*second, weight=1)]
        if is_spread:
            terms.insert(1, bench.spread(counts, domains))
        reported.append((bench.joiner.join(bench.pod_class, terms), bench.joiner.row(bits)))
    assert reported[0] == reported[1]
