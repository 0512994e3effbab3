"""Measures each kernel's time per row, compared with its memory traffic, a plain copy, its reference, and two threads.

    python -m perf.kernels                          # 5,000, 100,000 and 1,000,000 rows
    python -m perf.kernels --rows 5000 --only filter_fit sum_by_domain
    python -m perf.kernels --only none --threads    # only the gain from a second thread

All rows (nodes) are feasible, so that every kernel reads and writes the most it ever does. `bytes` are those of columns
that one call reads or writes per row, with each pass over a column counted; with the time they give GB/s. `of copy`
compares that with copying as many bytes between two buffers (bytes read and written counted), measured in the same run:
a value well below 1 means that the kernel computes or branches more than it reads. `twin` is the time of the kernel's
Python reference at 5,000 rows, and `faster` the ratio of the two there. Times are CPU time of this thread, medians over
rounds; for threads, real time, in alternating rounds, with the ratio computed within a round.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from kscheduler.testing.kernels import load_compiled, reference
from perf.placements import CALL, GIB, MAX_BYTES, new_table, thread_gains

SIZES = (5_000, 100_000, 1_000_000)
TWIN_ROWS = 5_000
ZONES = 10
CODE = 1
MANY = 1_000  # changed rows for a class to catch up with
RESIDENTS = 10  # pods on a node that a pod would preempt
NODES_ASKED = 5_000  # at most, about preemption
LEAST_BYTES = 1 << 16  # of a copy: below that it measures the call
RESOURCES = [(0, 1), (1, 1)]
CURVE = [(0, 0), (50, 8), (100, 10)]

Call = Callable[[], object]


class Scene:
    """A table of nodes on which every row is feasible, with all other inputs and outputs of kernels."""

    def __init__(self, fast: Any, rows: int) -> None:
        self.fast = fast
        self.rows = rows
        self.columns = self._new_columns()
        self.request = fast.PodRequest([(0, 250), (1, GIB)], 250, GIB)
        self.verdicts = fast.Verdicts()
        self.verdicts.reset(self.columns)
        self.scores = fast.Scores()
        self.scores.reset(self.columns)
        self.node_classes = bytes(8)
        self.values = array("q", [0] * 7 + [1])
        self.zones = array("i", (row % ZONES for row in range(rows)))
        self.hosts = array("i", range(rows))
        self.counts = array("q", (1 + row % 5 for row in range(rows)))
        self.all_rows = array("i", range(rows))
        self.mask = fast.RowMask()
        self.mask.take_alive(self.columns)
        self.by_zone, self.by_host = fast.DomainSums(), fast.DomainSums()
        fast.sum_by_domain(self.by_zone, self.counts, self.zones, ZONES, self.mask)
        fast.sum_by_domain(self.by_host, self.counts, self.hosts, rows, self.mask)
        self.totals = fast.RowTotals()
        self.totals.reset(self.columns)

    def _new_columns(self) -> Any:
        if self.fast is not reference:
            return new_table(self.rows)
        # The same table, of the twin's kind.
        rng = random.Random(7)
        columns = self.fast.NodeColumns(self.rows)
        for _ in range(self.rows):
            row = columns.add_row()
            columns.set_allocatable(row, 0, 32_000)
            columns.set_allocatable(row, 1, 128 * GIB)
            columns.set_allowed_pods(row, 250)
            columns.set_node_class(row, rng.randrange(8))
            cpu, memory = rng.randrange(100, 16_000), rng.randrange(1, 64) * GIB
            columns.add_pod(row, self.fast.PodRequest([(0, cpu), (1, memory)], cpu, memory))
        return columns

    @property
    def tables(self) -> tuple[Any, Any, Any]:
        return self.columns, self.verdicts, self.scores


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    bytes: float  # per row
    call: Callable[[Scene], Call]
    before: Callable[[Scene], Call] | None = None  # called before each measured call, and not timed
    count: Callable[[int], int] = lambda rows: rows  # number of rows in the table -> rows to divide the time by
    has_twin: bool = True  # False if a comparison with the reference means nothing, as for kernels that keep results


# --- kernels over tables ----------------------------------------------------------------------------------------


def _least(scene: Scene) -> Call:
    return lambda: scene.fast.score_least_allocated(*scene.tables, scene.request, RESOURCES)


def _on_scores(name: str, *arguments: object) -> Callable[[Scene], Call]:
    def make(scene: Scene) -> Call:
        kernel = getattr(scene.fast, name)
        return lambda: kernel(scene.verdicts, scene.scores, *arguments)

    return make


def _clear(scene: Scene) -> Call:
    return lambda: scene.fast.clear_raw(scene.verdicts, scene.scores)


# What a row has: code 1, detail 8, raw 8, total 8, node class 4, pods and allowed pods 8 each; of each resource
# allocatable and used, 8 each; of cpu and memory also 8 as scored; id of a domain 4, counter 8, in a mask 1.
TABLE_KERNELS = (
    Kernel("Verdicts.reset", 1 + 9, lambda scene: lambda: scene.verdicts.reset(scene.columns)),
    Kernel("Scores.reset", 16, lambda scene: lambda: scene.scores.reset(scene.columns)),
    Kernel(
        "filter_node_classes",
        2 * (1 + 4),
        lambda scene: lambda: scene.fast.filter_node_classes(scene.columns, scene.verdicts, scene.node_classes, CODE),
    ),
    Kernel(
        "filter_fit",
        1 + 16 + 2 * 16,
        lambda scene: lambda: scene.fast.filter_fit(scene.columns, scene.verdicts, scene.request, CODE),
    ),
    Kernel("score_least_allocated", 1 + 2 * 16 + 8, _least),
    Kernel(
        "score_most_allocated",
        1 + 2 * 16 + 8,
        lambda scene: lambda: scene.fast.score_most_allocated(*scene.tables, scene.request, RESOURCES),
    ),
    Kernel(
        "score_requested_to_capacity_ratio",
        1 + 2 * 16 + 8,
        lambda scene: (
            lambda: scene.fast.score_requested_to_capacity_ratio(*scene.tables, scene.request, RESOURCES, CURVE)
        ),
    ),
    Kernel(
        "score_balanced",
        1 + 2 * 16 + 8,
        lambda scene: lambda: scene.fast.score_balanced(*scene.tables, scene.request, [0, 1]),
    ),
    Kernel(
        "score_node_classes",
        5 + 5 + 8,
        lambda scene: lambda: scene.fast.score_node_classes(*scene.tables, scene.values),
    ),
    Kernel("clear_raw", 8, _clear),
    Kernel(
        "add_to_rows", 4 + 4 + 8, lambda scene: lambda: scene.fast.add_to_rows(scene.scores, scene.all_rows, 1), _clear
    ),
    Kernel("score_images", 1 + 8, _on_scores("score_images", 1 << 20, 1 << 30), _clear),
    Kernel("normalize", 2 * (1 + 8), _on_scores("normalize", True), _least),
    Kernel("normalize_range", 2 * (1 + 8), _on_scores("normalize_range"), _least),
    Kernel("accumulate", (1 + 8) + (1 + 16), _on_scores("accumulate", 2), _least),
    Kernel("best_total", 1 + 8, _on_scores("best_total")),
    Kernel("select_host", 2 * (1 + 8), _on_scores("select_host", (1 << 62) - 1)),
    Kernel("RowMask.take_feasible", 1 + 1, lambda scene: lambda: scene.mask.take_feasible(scene.verdicts)),
    Kernel("RowMask.drop_without_domain", 4 + 1, lambda scene: lambda: scene.mask.drop_without_domain(scene.zones)),
    Kernel(
        "RowMask.drop_node_classes",
        4 + 1,
        lambda scene: lambda: scene.mask.drop_node_classes(scene.columns, scene.node_classes),
    ),
    Kernel(
        "sum_by_domain, zones",
        8 + 4 + 1,
        lambda scene: lambda: scene.fast.sum_by_domain(scene.by_zone, scene.counts, scene.zones, ZONES, scene.mask),
    ),
    Kernel(  # sums and marks are as long as the table: cleared, added to, counted, and searched for the lowest
        "sum_by_domain, hosts",
        (8 + 4 + 1) + 9 + 9 + 1 + 9,
        lambda scene: (
            lambda: scene.fast.sum_by_domain(scene.by_host, scene.counts, scene.hosts, scene.rows, scene.mask)
        ),
    ),
    Kernel(
        "filter_skew, zones",
        2 * (1 + 4),
        lambda scene: lambda: scene.fast.filter_skew(scene.verdicts, scene.by_zone, scene.zones, CODE, 1 << 40, 1, 2),
    ),
    Kernel(
        "filter_skew, hosts",
        2 * (1 + 4) + 8,
        lambda scene: lambda: scene.fast.filter_skew(scene.verdicts, scene.by_host, scene.hosts, CODE, 1 << 40, 1, 2),
    ),
    Kernel(
        "filter_outside, zones",
        2 * (1 + 4),
        lambda scene: lambda: scene.fast.filter_outside(scene.verdicts, scene.by_zone, scene.zones, CODE, 1),
    ),
    Kernel(
        "filter_without_domain",
        1 + 4,
        lambda scene: lambda: scene.fast.filter_without_domain(scene.verdicts, scene.zones, CODE, 1),
    ),
    Kernel(
        "add_domain_sums, zones",
        1 + 4 + 8,
        lambda scene: lambda: scene.fast.add_domain_sums(scene.verdicts, scene.scores, scene.by_zone, scene.zones, 1),
        _clear,
    ),
    Kernel(
        "add_spread, zones",
        1 + 4 + 8,
        lambda scene: lambda: scene.fast.add_spread(scene.verdicts, scene.totals, scene.by_zone, scene.zones, 1.5, 1),
        lambda scene: lambda: scene.totals.reset(scene.columns),
    ),
    Kernel(
        "add_spread_by_row",
        1 + 4 + 8 + 8,
        lambda scene: (
            lambda: scene.fast.add_spread_by_row(scene.verdicts, scene.totals, scene.counts, scene.zones, 1.5, 1)
        ),
        lambda scene: lambda: scene.totals.reset(scene.columns),
    ),
    Kernel(
        "score_spread",
        1 + 8 + 8 + 1,
        lambda scene: lambda: scene.fast.score_spread(scene.verdicts, scene.scores, scene.totals, scene.mask),
    ),
    Kernel(
        "normalize_spread",
        2 * (1 + 8 + 1),
        lambda scene: lambda: scene.fast.normalize_spread(scene.verdicts, scene.scores, scene.mask),
        _least,
    ),
)


# --- kernels that keep what they know ---------------------------------------------------------------------------

# A row as a class reads it: pods and allowed pods; allocatable, used and scored of two resources; node class, liveness.
ROW_BYTES = 2 * 8 + 2 * 3 * 8 + 4 + 1
TOTAL_BYTES = 4


def _new_placer(scene: Scene, threads: int = 1) -> tuple[Any, Any]:
    """A placer, and a class that it has looked at all rows for."""
    fast = scene.fast
    placer = fast.Placer(scene.columns, MAX_BYTES, threads)
    pods = fast.PodClass(scene.columns, scene.request, scene.node_classes)
    pods.score_least_allocated(RESOURCES, 1)
    pods.score_balanced([0, 1], 1)
    pods.score_node_classes(scene.values, True, 3)
    placer.place(pods, None)
    return placer, pods


def _rebuild(scene: Scene) -> Call:
    placer, pods = _new_placer(scene)

    def look_at_all() -> None:
        placer.drop(pods)
        placer.place(pods, None)

    return look_at_all


def _catch_up(scene: Scene) -> Call:
    """Rows change outside the time measured, by `_change`, which must touch the table that this placer follows."""
    placer, pods = _new_placer(scene)
    return lambda: placer.count_feasible(pods)


def _change(scene: Scene) -> Call:
    """Other rows each time; every second time what was added goes again."""
    rng = random.Random(3)
    taken: list[int] = []

    def change() -> None:
        if taken:
            for row in taken:
                scene.columns.remove_pod(row, scene.request)
            taken.clear()
            return
        taken.extend(rng.choices(range(scene.rows), k=_changes(scene.rows)))
        for row in taken:
            scene.columns.add_pod(row, scene.request)

    return change


def _changes(rows: int) -> int:
    """As many as a class catches up with one by one."""
    return max(1, min(MANY, rows // 16))


def _place(scene: Scene) -> Call:
    placer, pods = _new_placer(scene)
    return lambda: placer.place(pods, None)


def _place_many(scene: Scene) -> Call:
    """Pods of one class, each seeing the one before it; they stay, a little each time."""
    placer, pods = _new_placer(scene)
    rng = random.Random(9)
    bits = array("Q", (rng.getrandbits(32) for _ in range(CALL)))
    rows, feasible = array("i", bytes(4 * CALL)), array("i", bytes(4 * CALL))
    order = [pods] * CALL

    def place() -> None:
        done, _ = placer.place_many(order, bits, rows, feasible)
        assert done == CALL

    def take_off() -> None:
        for row in rows:
            scene.columns.remove_pod(row, scene.request)
        placer.place(pods, None)

    _undo[id(place)] = take_off
    return place


_undo: dict[int, Call] = {}  # id of a call -> what takes back what it did, outside the time measured


def _joined(by: str) -> Callable[[Scene], Call]:
    def make(scene: Scene) -> Call:
        fast = scene.fast
        placer, pods = _new_placer(scene)
        tally, terms = fast.DomainTally(), fast.JoinTerms()
        if by == "zones":
            tally.rebuild(scene.counts, scene.zones, ZONES, scene.mask)
            terms.keep_even(tally, 1 << 20, 1, 1)
        else:
            nobody = array("q", bytes(8 * scene.rows))
            tally.rebuild(nobody, scene.hosts, scene.rows, scene.mask, True)
            terms.forbid(tally)
        joiner = fast.Joiner(placer)

        def join() -> None:
            joiner.join(pods, [terms])
            joiner.row(None)

        _kept.append((scene.columns, placer, tally))
        return join

    return make


_kept: list[tuple[Any, ...]] = []  # what terms only point to


def _tally(scene: Scene) -> Call:
    tally = scene.fast.DomainTally()
    return lambda: tally.rebuild(scene.counts, scene.zones, ZONES, scene.mask)


def _preemption(scene: Scene) -> tuple[Any, ...]:
    """Nodes full of pods of lower priority, of 64 kinds of nodes; a pod that needs most of a node."""
    fast = scene.fast
    rng = random.Random(5)
    asked = fast.PodRequest([(0, 20_000), (1, 64 * GIB)], 20_000, 64 * GIB)
    conditions = fast.Conditions(scene.columns, 1_000, asked, 1, [], False)
    small = fast.PodRequest([(0, 10), (1, GIB // 64)], 10, GIB // 64)
    kinds = [
        fast.Residents(
            [object() for _ in range(RESIDENTS)],
            [(priority, small, 0) for priority in sorted(rng.choices(range(100), k=RESIDENTS), reverse=True)],
        )
        for _ in range(64)
    ]
    rows = list(range(_asked(scene.rows)))
    residents = [kinds[row % 64] for row in rows]
    return fast, conditions, rows, residents, [None] * len(rows), array("q"), b""


def _asked(rows: int) -> int:
    return min(rows, NODES_ASKED)


def _clear_nodes(scene: Scene) -> Call:
    fast, conditions, *others = _preemption(scene)
    return lambda: fast.clear_nodes(scene.columns, scene.verdicts, conditions, *others)


def _spare_pods(scene: Scene) -> Call:
    fast, conditions, rows, *others = _preemption(scene)
    marks = bytes(RESIDENTS * len(rows))
    return lambda: fast.spare_pods(scene.columns, conditions, rows, *others, marks)


# A resident: what it is 32, its request's entries 2 x 16, a pointer to each.
NODE_BYTES = 1 + 16 + 2 * 16 + RESIDENTS * 64

KEEPING_KERNELS = (
    Kernel("Placer, all rows", ROW_BYTES + TOTAL_BYTES, _rebuild),
    # The ring's entry, the row, its copy in the batch (ROOM and 2 x 5 doubles) written and read, the total.
    Kernel("Placer, a change", 8 + ROW_BYTES + 2 * 88 + 2 * TOTAL_BYTES, _catch_up, _change, _changes, False),
    Kernel("Placer.place, unchanged", 0, _place, None, lambda rows: 1, False),
    Kernel("Placer.place_many, a pod", 0, _place_many, None, lambda rows: CALL, False),
    # Totals copied, filtered by domain, counted, searched.
    Kernel("Joiner, even over zones", 8 + 8 + 4 + 4, _joined("zones")),
    Kernel("Joiner, nobody on the host", 8 + 8 + 4 + 4, _joined("hosts")),
    Kernel("DomainTally.rebuild, zones", 8 + 4 + 1, _tally),
    Kernel("clear_nodes, a node", NODE_BYTES, _clear_nodes, None, _asked),
    Kernel("spare_pods, a node", NODE_BYTES, _spare_pods, None, _asked),
)
KERNELS = (*TABLE_KERNELS, *KEEPING_KERNELS)


# --- measuring --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Result:
    kernel: Kernel
    rows: int
    ns: float  # nanoseconds per row
    copy_gb_s: float
    twin_ns: float | None

    def __str__(self) -> str:
        speed = self.kernel.bytes / self.ns
        text = f"{self.rows:>10,}  {self.kernel.name:<34}{self.ns:>10.2f}"
        text += f"{self.kernel.bytes:>8.0f}{speed:>8.1f}{speed / self.copy_gb_s:>9.2f}" if speed else " " * 25
        if self.twin_ns is None:
            return text.rstrip()
        return f"{text}{self.twin_ns:>12,.0f}{self.twin_ns / self.ns:>9,.0f}x"


def time_call(call: Call, before: Call | None, rounds: int, seconds: float) -> float:
    """CPU seconds of one call, median of rounds; short calls are repeated within a round."""
    after = _undo.get(id(call))
    repeated = before is None and after is None
    number = max(1, int(seconds / max(1e-7, _once(call, before, after, 1)))) if repeated else 1
    return statistics.median(_once(call, before, after, number) for _ in range(rounds))


def _once(call: Call, before: Call | None, after: Call | None, number: int) -> float:
    if before is not None:
        before()
    started = time.thread_time()
    for _ in range(number):
        call()
    spent = time.thread_time() - started
    if after is not None:
        after()
    return spent / number


def copy_speed(size: int, rounds: int) -> float:
    """Bytes read and written in a nanosecond, by a copy of half as many from one buffer into another."""
    half = max(LEAST_BYTES, size // 2)
    source, target = bytearray(half), bytearray(half)
    source_view, target_view = memoryview(source), memoryview(target)

    def copy() -> None:
        target_view[:] = source_view

    return 2 * half / (time_call(copy, None, rounds, 0.01) * 1e9)


def measure(kernel: Kernel, scene: Scene, rounds: int, seconds: float) -> float:
    """Nanoseconds a row."""
    call = kernel.call(scene)
    before = kernel.before(scene) if kernel.before else None
    try:
        return time_call(call, before, rounds, seconds) / kernel.count(scene.rows) * 1e9
    finally:
        _undo.pop(id(call), None)
        _kept.clear()


# --- the command ------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.kernels", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    parser.add_argument("--twin-rows", type=int, default=TWIN_ROWS, help="0: leave the twins out")
    parser.add_argument("--only", nargs="+", default=[], help="kernels whose names begin so")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.02, help="of a round of short calls, about")
    parser.add_argument("--threads", action="store_true", help="also what a second thread gains, where rows are many")
    parser.add_argument("--thread-rounds", type=int, default=21)
    options = parser.parse_args(argv)
    compiled = load_compiled()
    if compiled is None:
        print("the extensions are not built: there is nothing to measure", file=sys.stderr)
        return 1
    kernels = [each for each in KERNELS if not options.only or each.name.startswith(tuple(options.only))]
    twins = twin_times(reference, kernels, options.twin_rows) if options.twin_rows else {}
    print(
        f"{'rows':>10}  {'kernel':<34}{'ns/row':>10}{'bytes':>8}{'GB/s':>8}{'of copy':>9}{'twin ns':>12}{'faster':>10}"
    )
    for rows in options.rows:
        scene = Scene(compiled, rows)
        for kernel in kernels:
            copy = copy_speed(int(kernel.bytes * kernel.count(rows)), options.rounds)
            took = measure(kernel, scene, options.rounds, options.seconds)
            twin = twins.get(kernel.name) if rows == options.twin_rows else None
            print(Result(kernel, rows, took, copy, twin), flush=True)
        if options.threads:
            for gain in thread_gains(scene.columns, options.thread_rounds):
                print(gain, flush=True)
    return 0


def twin_times(plain: ModuleType, kernels: Sequence[Kernel], rows: int) -> dict[str, float]:
    """Kernel -> nanoseconds a row of its Python twin."""
    scene = Scene(plain, rows)
    return {kernel.name: measure(kernel, scene, 1, 0.0) for kernel in kernels if kernel.has_twin}


if __name__ == "__main__":
    sys.exit(main())
