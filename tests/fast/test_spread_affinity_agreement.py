"""Terms joined with what classes know of the rows, and their plain twin over the table kernels: the same rows."""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.fast.tables import GI, NodeSpec, make_columns, plain
from tests.support.seeds import sampled
from tests.support.skips import NOT_BUILT

COMPILED = load_compiled()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(COMPILED is None, reason=NOT_BUILT)]

PROFILES = 3
MAX_ROWS = 9
DOMAINS = 4

nodes = st.builds(
    NodeSpec,
    allocatable=st.sampled_from([(4000, 8 * GI, 0), (4000, 16 * GI, 0), (1000, GI, 0)]),
    allowed_pods=st.sampled_from([0, 2, 110, 110]),
    node_class=st.integers(0, PROFILES - 1),
    alive=st.sampled_from([True, True, True, False]),
)
tables = st.lists(nodes, max_size=MAX_ROWS)
counts = st.lists(st.one_of(st.integers(0, 2), st.integers(0, 40)), min_size=MAX_ROWS, max_size=MAX_ROWS) | st.just(
    [0] * MAX_ROWS
)


@dataclass(frozen=True)
class TallySpec:
    counts: list[int]
    ids: list[int]
    outside: frozenset[int]
    each_row: bool


tallies = st.builds(
    TallySpec,
    counts=counts,
    ids=st.one_of(
        st.lists(st.integers(-1, DOMAINS - 1), min_size=MAX_ROWS, max_size=MAX_ROWS),
        st.permutations(list(range(MAX_ROWS))),
        st.permutations([-1, -1, *range(MAX_ROWS - 2)]),
    ),
    outside=st.frozensets(st.integers(0, MAX_ROWS - 1), max_size=3),
    each_row=st.sampled_from([False, False, True]),
)
at = st.integers(0, 3)
skews = st.one_of(st.integers(1, 4), st.just((1 << 31) - 1))
rules = st.one_of(
    st.tuples(st.just("keep_even"), at, skews, st.integers(1, 4), st.integers(0, 1)),
    st.tuples(st.just("need"), at),
    st.tuples(st.just("forbid"), at),
)
near = st.tuples(st.just("prefer"), at, st.one_of(st.integers(-100, 100), st.just(1 << 29)))
spread = st.tuples(st.just("spread"), at, skews, st.booleans())
parts = st.tuples(
    st.integers(0, 5), st.booleans(), st.lists(rules, max_size=2),
    st.lists(near, max_size=2) | st.lists(spread, max_size=3),
    st.none() | st.frozensets(st.integers(0, MAX_ROWS - 1), max_size=4),
)  # fmt: skip
steps = st.one_of(
    st.tuples(st.just("add"), at, st.integers(0, MAX_ROWS), st.integers(-3, 3)),
    st.tuples(st.just("add_pod"), st.integers(0, MAX_ROWS - 1)),
    st.tuples(st.just("set_node_class"), st.integers(0, MAX_ROWS - 1), st.integers(0, PROFILES - 1)),
    st.tuples(st.just("join"), st.lists(parts, max_size=2), st.none() | st.integers(0, 1 << 40)),
    st.tuples(st.just("join"), st.lists(parts, max_size=2), st.none() | st.integers(0, 1 << 40)),
    st.tuples(st.just("say"), at),
    st.tuples(st.just("confine"), st.none() | st.lists(st.integers(0, 1), max_size=MAX_ROWS).map(bytes)),
)


class Run:
    def __init__(
        self, fast: ModuleType, table: list[NodeSpec], values: list[tuple[list[int], bool]], made: list[TallySpec]
    ) -> None:
        self.fast: Any = fast
        self.columns = make_columns(fast, table)
        self.placer = self.fast.Placer(self.columns, 1 << 20)
        self.joiner = self.fast.Joiner(self.placer)
        self.pods = self.fast.PodClass(self.columns, self.fast.PodRequest(*plain(100, GI)), b"\0\0\1")
        self.pods.score_least_allocated([(0, 1), (1, 1)], 1)
        for raw, reverse in values:
            self.pods.score_node_classes(array("q", raw), reverse, 2)
        self.tallies = [self.tally(spec) for spec in made]

    def mask(self, outside: frozenset[int]) -> Any:
        mask = self.fast.RowMask()
        mask.take_alive(self.columns)
        mask.drop_rows(bytearray(row in outside for row in range(self.columns.rows)))
        return mask

    def tally(self, spec: TallySpec) -> Any:
        made = self.fast.DomainTally()
        size = max(spec.ids) + 1
        made.rebuild(array("q", spec.counts), array("i", spec.ids), size, self.mask(spec.outside), spec.each_row)
        return made

    def step(self, name: str, *reported: Any) -> object:
        try:
            return getattr(self, name)(*reported)
        except (ValueError, IndexError) as error:
            return type(error), str(error)

    def add(self, which: int, row: int, amount: int) -> object:
        return self.tallies[which].add(row, amount)

    def confine(self, inside: bytes | None) -> object:
        return self.placer.confine(inside)

    def add_pod(self, row: int) -> object:
        return self.columns.add_pod(row, self.pods.request)

    def set_node_class(self, row: int, node_class: int) -> object:
        return self.columns.set_node_class(row, node_class)

    def say(self, which: int) -> object:
        tally = self.tallies[which]
        recorded = tally.is_good, tally.rows
        if not tally.is_good:
            return recorded
        return *recorded, tally.present, tally.occupied, tally.minimum, [tally.sum_of(row) for row in range(tally.rows)]

    def join(self, made: list[Any], bits: int | None) -> object:
        terms = []
        for weight, may_be_first, rules_of, preferences, unscored in made:
            part = self.fast.JoinTerms(weight, may_be_first)
            for name, which, *more in (*rules_of, *preferences):
                getattr(part, name)(self.tallies[which], *more)
            if unscored is not None:
                part.score_only(self.mask(unscored))
            terms.append(part)
        feasible = self.joiner.join(self.pods, terms)
        return feasible, None if feasible is None else self.joiner.row(bits)


values_of_node_classes = st.lists(
    st.tuples(st.lists(st.integers(0, 4), min_size=PROFILES, max_size=PROFILES), st.booleans()), max_size=2
)


@settings(max_examples=sampled(500), deadline=None)
@given(tables, values_of_node_classes, st.lists(tallies, min_size=4, max_size=4), st.lists(steps, max_size=12))
def test_terms_are_joined_as_by_the_table_kernels(
    table: list[NodeSpec], values: list[tuple[list[int], bool]], made: list[TallySpec], sequence: list[Any]
) -> None:
    assert COMPILED is not None
    runs = [Run(fast, table, values, made) for fast in (reference, COMPILED)]
    for step in sequence:
        assert runs[0].step(*step) == runs[1].step(*step), step


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 32))
def test_tables_of_several_hundred_rows(seed: int) -> None:
    """Every instruction set's loop comes to its end, many rows tie, and counts are such that scores are rounded."""
    assert COMPILED is not None
    rng = random.Random(seed)
    rows = rng.choice([61, 256, 300, 517, 1100])
    table = [
        NodeSpec((4000, 8 * GI, 0), rng.choice([0, 110, 110]), rng.randrange(PROFILES), (), rng.random() < 0.97)
        for _ in range(rows)
    ]
    made = [
        TallySpec(
            [rng.randrange(rng.choice([1, 3, 200])) for _ in range(rows)],
            rng.choice(
                [
                    [rng.randrange(-1, rng.choice([2, 5, 40])) for _ in range(rows)],
                    rng.sample(range(rows), rows),
                    [-1 if rng.random() < 0.1 else row for row in range(rows)],
                ]
            ),
            frozenset(rng.sample(range(rows), 5)),
            rng.random() < 0.3,
        )
        for _ in range(4)
    ]
    values = [([rng.randrange(5) for _ in range(PROFILES)], rng.random() < 0.5)]
    runs = [Run(fast, table, values, made) for fast in (reference, COMPILED)]
    for _ in range(6):
        terms = [
            (3, rng.random() < 0.5, [("keep_even", rng.randrange(4), rng.randrange(1, 60), rng.randrange(1, 5), 1)],
             [("spread", rng.randrange(4), rng.randrange(1, 6), rng.random() < 0.5) for _ in range(rng.randrange(3))],
             rng.choice([None, frozenset(rng.sample(range(rows), 9))])),
            (2, rng.random() < 0.5, [(rng.choice(["need", "forbid"]), rng.randrange(4))] * rng.randrange(2),
             [("prefer", rng.randrange(4), rng.randrange(-9, 100)) for _ in range(rng.randrange(3))], None),
        ]  # fmt: skip
        bits = rng.choice([None, rng.getrandbits(32)])
        found = runs[0].join(terms, bits)
        assert found == runs[1].join(terms, bits)
        for _ in range(20):
            step = "add", rng.randrange(4), rng.randrange(rows), rng.choice([1, 1, 5, -1])
            assert runs[0].step(*step) == runs[1].step(*step)
        for which in range(4):
            assert runs[0].say(which) == runs[1].say(which)
