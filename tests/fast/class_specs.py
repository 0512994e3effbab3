"""Pod classes as Hypothesis draws them, for tests that compare kernels with their references."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.fast.strategies import RESOURCES, pods, shapes, weighted

PROFILES = 4
by_node_class = st.lists(st.one_of(st.integers(0, 3), st.integers(0, 1 << 53)), min_size=PROFILES, max_size=PROFILES)
weights = st.integers(0, 100) | st.just(1_000)  # with which totals take more than 16 bits


@dataclass(frozen=True)
class ClassSpec:
    """What a class is made of."""

    request: tuple[tuple[tuple[int, int], ...], int, int]
    verdicts: bytes
    strategy: str | None
    fit: tuple[list[tuple[int, int]], int]
    shape: list[tuple[int, int]]
    balanced: tuple[list[int], int] | None
    lists: list[tuple[list[int], bool, int]]
    row_scores: tuple[bytes, int] | None
    scored_by: tuple[tuple[tuple[int, int], ...], int, int] | None = None  # None: the request itself

    def make(self, fast: Any, columns: Any) -> Any:
        made = fast.PodClass(columns, fast.PodRequest(*self.request), self.verdicts)
        scored_by = None if self.scored_by is None else fast.PodRequest(*self.scored_by)
        if self.strategy == "ratio":
            made.score_requested_to_capacity_ratio(self.fit[0], self.shape, self.fit[1], scored_by)
        elif self.strategy is not None:
            getattr(made, self.strategy)(*self.fit, scored_by)
        if self.balanced is not None:
            made.score_balanced(*self.balanced)
        for values, reverse, weight in self.lists:
            made.score_node_classes(array("q", values), reverse, weight)
        if self.row_scores is not None:
            made.score_rows(*self.row_scores)
        return made


specs = st.builds(
    ClassSpec,
    request=pods,
    verdicts=st.sampled_from([bytes(PROFILES), bytes(PROFILES), b"\0\1\0\0", b"\1\0\0\5"]),
    strategy=st.sampled_from([None, "score_least_allocated", "score_most_allocated", "ratio"]),
    fit=st.tuples(weighted, weights),
    shape=shapes,
    balanced=st.none() | st.tuples(st.lists(st.integers(0, RESOURCES - 1), max_size=4), weights),
    lists=st.lists(st.tuples(by_node_class, st.booleans(), weights), max_size=2),
    row_scores=st.none() | st.tuples(st.lists(st.integers(0, 100), max_size=9).map(bytes), weights),
    scored_by=st.none() | st.none() | pods,
)
