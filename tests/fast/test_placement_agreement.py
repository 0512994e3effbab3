"""Classes that keep up with the log of changes, and their plain twin that looks at every row: the same rows, always."""

from __future__ import annotations

import random
from array import array
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.fast.class_specs import PROFILES, ClassSpec, specs
from tests.fast.strategies import RESOURCES, allocatable, pods, tables
from tests.fast.tables import GI, NodeSpec, make_columns, plain
from tests.support.seeds import sampled
from tests.support.skips import NOT_BUILT

COMPILED = load_compiled()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(COMPILED is None, reason=NOT_BUILT)]

which = st.integers(0, 3)
row = st.integers(0, 8)
bits = st.none() | st.integers(0, 1 << 40)
changes = st.one_of(
    st.tuples(st.just("add_row")),
    st.tuples(st.just("free_row"), row),
    st.tuples(st.just("set_allocatable"), row, st.integers(0, RESOURCES - 1), allocatable),
    st.tuples(st.just("set_allowed_pods"), row, st.integers(0, 9)),
    st.tuples(st.just("set_node_class"), row, st.sampled_from([0, 1, 2, 3, 0, 1, 2, 3, 7])),
    st.tuples(st.just("add_pod"), row, pods),
    st.tuples(st.just("remove_pod"), row, pods),
)
steps = st.one_of(
    st.tuples(st.just("change"), st.lists(changes, min_size=1, max_size=12)),
    st.tuples(st.just("place"), which, bits),
    st.tuples(st.just("place"), which, bits),
    st.tuples(st.just("count"), which),
    st.tuples(st.just("fits"), which, row),
    st.tuples(st.just("many"), st.lists(which, max_size=12), st.none() | st.integers(0, 1 << 30)),
    st.tuples(st.just("one"), which, st.none() | st.integers(0, 1 << 30)),
    st.tuples(st.just("again"), which, specs),
    st.tuples(st.just("forget"), which),
    st.tuples(st.just("confine"), st.none() | st.lists(st.integers(0, 1), max_size=9).map(bytes)),
    st.tuples(st.just("room"), which, st.lists(st.integers(-1, 3), max_size=9)),
    st.tuples(st.just("hammer"), row, st.integers(250, 300)),
)


class Run:
    """One form of the kernels, with a table and a few classes."""

    def __init__(self, fast: ModuleType, table: list[NodeSpec], made: list[ClassSpec], max_bytes: int) -> None:
        self.fast: Any = fast
        self.columns = make_columns(fast, table, RESOURCES)
        self.placer = self.fast.Placer(self.columns, max_bytes)
        self.classes = [spec.make(fast, self.columns) for spec in made]

    def step(self, name: str, *reported: Any) -> object:
        """What a step answers, or how it fails."""
        try:
            return getattr(self, name)(*reported)
        except (ValueError, IndexError, OverflowError) as error:
            return type(error), str(error)

    def change(self, sequence: list[Any]) -> object:
        return [self.step("change_one", *each) for each in sequence]

    def change_one(self, name: str, *reported: Any) -> object:
        if name.endswith("_pod"):
            return getattr(self.columns, name)(reported[0], self.fast.PodRequest(*reported[1]))
        made = getattr(self.columns, name)(*reported)
        if name == "add_row":
            self.columns.set_node_class(made, 2)
            self.columns.set_allowed_pods(made, 3)
        return made

    def place(self, at: int, random_bits: int | None) -> object:
        return self.placer.place(self.classes[at], random_bits)

    def count(self, at: int) -> object:
        return self.placer.count_feasible(self.classes[at])

    def fits(self, at: int, row: int) -> object:
        return self.placer.fits(self.classes[at], row)

    def many(self, order: list[int], first: int | None) -> object:
        rows, feasible = array("i", [-7] * len(order)), array("i", [-7] * len(order))
        random_bits = None if first is None else array("Q", range(first, first + len(order)))
        reported = self.step("many_into", order, random_bits, rows, feasible)
        counts = [self.columns.pod_count(each) for each in range(self.columns.rows)]
        placed = [found for found, taken in zip(feasible, rows, strict=True) if taken >= 0]
        return reported, rows.tolist(), placed, counts, self.columns.generation

    def many_into(self, order: list[int], *arrays: Any) -> object:
        return self.placer.place_many([self.classes[at] for at in order], *arrays)

    def one(self, at: int, random_bits: int | None) -> object:
        reported = self.step("one_counted", at, random_bits)
        return reported, [self.columns.pod_count(each) for each in range(self.columns.rows)], self.columns.generation

    def one_counted(self, at: int, random_bits: int | None) -> object:
        return self.placer.place_one(self.classes[at], random_bits)

    def again(self, at: int, spec: ClassSpec) -> object:
        self.classes[at] = spec.make(self.fast, self.columns)
        return None

    def forget(self, at: int) -> object:
        return self.placer.drop(self.classes[at])

    def confine(self, inside: bytes | None) -> object:
        return self.placer.confine(inside)

    def room(self, at: int, domain_by_row: list[int]) -> object:
        room = array("q", [0, 5, 0])
        return self.placer.add_room(self.classes[at], array("i", domain_by_row), room), room

    def hammer(self, at: int, times: int) -> object:
        """More changes than the log holds."""
        for _ in range(times):
            self.columns.set_allowed_pods(at, 5)
        return None


@settings(max_examples=sampled(300), deadline=None)
@given(
    tables, st.lists(specs, min_size=4, max_size=4), st.lists(steps, max_size=25), st.sampled_from([1 << 30, 9000, 0])
)
def test_classes_place_as_their_twins_do(
    table: list[NodeSpec], made: list[ClassSpec], sequence: list[Any], max_bytes: int
) -> None:
    assert COMPILED is not None
    runs = [Run(fast, table, made, max_bytes) for fast in (reference, COMPILED)]
    for step in sequence:
        assert runs[0].step(*step) == runs[1].step(*step), step


@settings(max_examples=sampled(100), deadline=None)
@given(st.integers(0, 1 << 32), st.lists(specs, min_size=2, max_size=2))
def test_tables_of_several_blocks(seed: int, odd: list[ClassSpec]) -> None:
    """Everyday amounts, so that many rows tie, on a table that takes more than one block and one chunk."""
    assert COMPILED is not None
    rng = random.Random(seed)
    table = [
        NodeSpec(
            (rng.choice([4000, 4000, 8000]), rng.choice([8, 16]) * GI, 0, rng.choice([0, 0, 4]), 0),
            rng.choice([0, 3, 110]),
            rng.randrange(PROFILES),
            tuple(plain(rng.randrange(1000), rng.randrange(2) * GI) for _ in range(rng.randrange(3))),
            rng.random() < 0.97,
        )
        for _ in range(rng.choice([511, 512, 513, 1100]))
    ]
    everyday = [
        ClassSpec(
            ((*plain(cpu, memory)[0], *gpus), cpu, memory),
            verdicts,
            strategy,
            ([(0, 1), (1, 1), (3, 5)], 1),
            [(0, 0), (100, 10)],
            ([0, 1, 3], 1),
            [([0, 1, 2, 0], True, 3), ([10, 0, 30, 5], False, 2)],
            None,
        )
        for cpu, memory, gpus, verdicts, strategy in (
            (100, GI, (), bytes(PROFILES), "score_least_allocated"),
            (700, GI // 2, ((3, 1),), b"\0\0\1\0", "score_most_allocated"),
            (1500, 3 * GI, (), b"\0\0\0\1", "ratio"),
        )
    ]
    runs = [Run(fast, table, [*everyday, *odd], 1 << 30) for fast in (reference, COMPILED)]
    for _ in range(3):
        order = [rng.randrange(5) for _ in range(9)]
        first = rng.choice([None, rng.getrandbits(32)])
        taken = runs[0].many(order, first)
        assert taken == runs[1].many(order, first)
        events = [
            rng.choice(
                [
                    ("set_node_class", rng.randrange(500), rng.randrange(PROFILES)),
                    ("set_allowed_pods", rng.randrange(500), 110),
                    ("free_row", rng.randrange(500)),
                    ("add_row",),
                    ("add_pod", rng.randrange(500), plain(50, GI)),
                ]
            )
            for _ in range(rng.choice([3, 40]))
        ]
        assert runs[0].change(events) == runs[1].change(events)
    for at in range(5):
        for random_bits in (None, 12_345):
            assert runs[0].step("place", at, random_bits) == runs[1].step("place", at, random_bits)
        assert runs[0].step("count", at) == runs[1].step("count", at)


def test_a_large_table_is_read_by_several_threads_as_by_one() -> None:
    """Against the table kernels: the plain twin would take long."""
    assert COMPILED is not None
    fast: Any = COMPILED
    rng = random.Random(4)
    columns = fast.NodeColumns(100_000)
    full, light, nothing = (fast.PodRequest(*plain(*asked)) for asked in ((3999, 0), (1000, GI), (0, 0)))
    for _ in range(100_000):
        at = columns.add_row()
        columns.set_allocatable(at, 0, 4000 + rng.randrange(3))
        columns.set_allocatable(at, 1, (8 << rng.randrange(2)) * GI)
        columns.set_allowed_pods(at, 10)
        columns.set_node_class(at, rng.randrange(3))
        columns.add_pod(at, full if rng.random() < 0.5 else light)
    columns.set_allocatable(70_001, 1, 1 << 60)  # by integers
    values = [array("q", [3, 0, 9]), array("q", [0, 7, 1])]
    request = fast.PodRequest(*plain(500, GI))
    verdicts, scores = fast.Verdicts(), fast.Scores()

    def judge() -> None:
        verdicts.reset(columns)
        scores.reset(columns)
        fast.filter_node_classes(columns, verdicts, b"\0\0\1", 1)
        fast.filter_fit(columns, verdicts, request, 2)
        fast.score_least_allocated(columns, verdicts, scores, request, [(0, 1), (1, 2)])
        assert fast.accumulate(verdicts, scores, 1) == -1
        fast.score_balanced(columns, verdicts, scores, request, [0, 1])
        assert fast.accumulate(verdicts, scores, 1) == -1
        for reverse, raw in enumerate(values):
            fast.score_node_classes(columns, verdicts, scores, raw)
            fast.normalize(verdicts, scores, bool(reverse))
            assert fast.accumulate(verdicts, scores, 2) == -1

    def new_class() -> Any:
        made = fast.PodClass(columns, request, b"\0\0\1")
        made.score_least_allocated([(0, 1), (1, 2)], 1)
        made.score_balanced([0, 1], 1)
        for reverse, raw in enumerate(values):
            made.score_node_classes(raw, bool(reverse), 2)
        return made

    for threads in (1, 2, 3):
        placer, made = fast.Placer(columns, 1 << 30, threads), new_class()
        judge()
        for random_bits in (None, 0, 77_777):
            assert placer.place(made, random_bits) == fast.select_host(verdicts, scores, random_bits)
        assert placer.count_feasible(made) == verdicts.feasible_count()
        for _ in range(20):
            for _ in range(rng.choice([0, 30])):
                at = rng.randrange(100_000)
                columns.add_pod(at, light)
                columns.remove_pod(at, light if rng.random() < 0.5 else nothing)
            rows, feasible = array("i", [0]), array("i", [0])
            judge()
            assert placer.place_many([made], array("Q", [999]), rows, feasible) == (1, 1)
            assert rows[0] == fast.select_host(verdicts, scores, 999)
            assert feasible[0] == verdicts.feasible_count()
        placer.drop(made)


@pytest.mark.parametrize("weight", [1, 150], ids=["totals of 16 bits", "totals of 32 bits"])
@pytest.mark.parametrize("seed", range(sampled(8)))
def test_the_best_row_is_found_when_blocks_and_groups_have_lost_all_of_theirs(seed: int, weight: int) -> None:
    """On rows of several groups, few of which are the best at a time, with changes of any kind; as table kernels do."""
    assert COMPILED is not None
    fast: Any = COMPILED
    rng = random.Random(seed)
    columns = fast.NodeColumns(10_000)
    requests = [fast.PodRequest(*plain(cpu, GI)) for cpu in (500, 700, 1_000)]
    few = rng.choice([0.003, 0.1])
    for _ in range(10_000):
        at = columns.add_row()
        columns.set_allocatable(at, 0, 16_000 if rng.random() < few else 8_000 if rng.random() < 0.01 else 4_000)
        columns.set_allocatable(at, 1, 64 * GI)
        columns.set_allowed_pods(at, 110)
        columns.set_node_class(at, rng.randrange(2))
        if rng.random() < rng.choice([0.3, 0.9]):
            columns.add_pod(at, fast.PodRequest(*plain(3_900, GI)))
    raws = array("q", [0, 1])
    placer, classes = fast.Placer(columns, 1 << 30), []
    for request in requests:
        made = fast.PodClass(columns, request, b"\0\0")
        made.score_least_allocated([(0, 1), (1, 1)], weight)
        made.score_balanced([0, 1], weight)
        made.score_node_classes(raws, True, weight)
        classes.append(made)
    verdicts, scores, placed = fast.Verdicts(), fast.Scores(), []

    def judged(which: int, random_bits: int) -> tuple[int, int]:
        verdicts.reset(columns)
        scores.reset(columns)
        fast.filter_fit(columns, verdicts, requests[which], 2)
        fast.score_least_allocated(columns, verdicts, scores, requests[which], [(0, 1), (1, 1)])
        assert fast.accumulate(verdicts, scores, weight) == -1
        fast.score_balanced(columns, verdicts, scores, requests[which], [0, 1])
        assert fast.accumulate(verdicts, scores, weight) == -1
        fast.score_node_classes(columns, verdicts, scores, raws)
        fast.normalize(verdicts, scores, True)
        assert fast.accumulate(verdicts, scores, weight) == -1
        return fast.select_host(verdicts, scores, random_bits), verdicts.feasible_count()

    for _ in range(500):
        which, random_bits = rng.randrange(3), rng.getrandbits(40)
        rows, feasible = array("i", [0]), array("i", [0])
        wanted = judged(which, random_bits)
        placer.place_many([classes[which]], array("Q", [random_bits]), rows, feasible)
        assert (rows[0], feasible[0]) == wanted
        placed.append((rows[0], which))
        for _ in range(rng.choice([0, 0, 1, 8, 40])):
            kind = rng.randrange(40)
            if kind == 0:
                columns.set_node_class(rng.randrange(10_000), rng.randrange(2))
            elif kind < 20:
                placed.append((rng.randrange(10_000), rng.randrange(3)))
                columns.add_pod(placed[-1][0], requests[placed[-1][1]])
            elif placed:
                at, which = placed.pop(rng.randrange(len(placed)))
                columns.remove_pod(at, requests[which])
