"""Measures how fast the placement kernel places pods of known classes, without cluster and scheduling cycle.

    python -m perf.placements                          # every size, 1, 16 and 150 classes, full scans, events
    python -m perf.placements --nodes 5000 --rounds 9
    python -m perf.placements --threads                # only the gain from a second thread, where all rows are read

Nodes have 32 or 64 cores and 128 or 256 Gi and are partly full; pods of different classes have different requests, and
are scored as by default. Pods are placed in calls of 1,000, class by class; after each call its pods are removed again,
outside the time measured. Printed are medians over rounds with least and most, in real time, so that other work on the
machine shows as spread; and how many bytes a full scan (reading all rows) reads and writes.

With --threads, scans with one thread and with two take turns, by several classes each, so that the position of their
memory matters little. Each round gives the ratio of their medians; printed are the median of the rounds, their
quartiles, least and most. Scans follow one another at once, so that the second thread is still awake, or 0.2 ms apart,
so that it has to be woken. On a busy machine, `chrt -f 10 python -m perf.placements --threads` measures two cores
rather than how many are free.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from kscheduler._fast import COMPILED, NodeColumns, Placer, PodClass, PodRequest

SIZES = (5_000, 100_000, 1_000_000)
THREAD_SIZES = (16_384, 32_768, 100_000, 300_000, 1_000_000)
CLASSES = (1, 16, 150)
CALL = 1_000  # pods in a call
GIB = 1 << 30
MAX_BYTES = 2 * GIB
APART_S = (0.0, 0.000_2)  # between scans
PAIRS = 5  # of classes, with one thread and with two
SCANS = 3  # of each in its turn; the first is not measured


@dataclass(frozen=True, slots=True)
class Result:
    nodes: int
    what: str
    unit: str
    rounds: tuple[float, ...]

    def __str__(self) -> str:
        middle, least, most = statistics.median(self.rounds), min(self.rounds), max(self.rounds)
        return f"{self.nodes:>10,}  {self.what:<34}{middle:>14,.2f}  {least:>14,.2f} ..{most:>14,.2f}  {self.unit}"


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain from a second thread, as one ratio per round."""

    nodes: int
    apart_s: float
    one_s: tuple[float, ...]
    two_s: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        return sorted(one / two for one, two in zip(self.one_s, self.two_s, strict=True))

    def __str__(self) -> str:
        found = self.ratios
        return (
            f"{self.nodes:>10,}  all rows, 1 thread {statistics.median(self.one_s) * 1e6:7,.0f} us, "
            f"2 threads {statistics.median(self.two_s) * 1e6:7,.0f} us, {self.apart_s * 1e3:.1f} ms apart;  "
            f"gain {statistics.median(found):.2f} ({found[len(found) // 4]:.2f} - {found[3 * len(found) // 4]:.2f}, "
            f"{found[0]:.2f} .. {found[-1]:.2f}) of {len(found)} rounds"
        )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.placements", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, action="append", help="instead of 5,000, 100,000 and 1,000,000")
    parser.add_argument("--classes", type=int, action="append", help="instead of 1, 16 and 150")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="of placing in each round, about")
    parser.add_argument("--threads", action="store_true", help="only what a second thread gains, at large sizes")
    options = parser.parse_args(argv)
    if not COMPILED:
        print("the extensions are not built: there is nothing to measure", file=sys.stderr)
        return 1
    if options.threads:
        for nodes in options.nodes or THREAD_SIZES:
            for gain in thread_gains(new_table(nodes), options.rounds):
                print(gain, flush=True)
        print("load average", *(f"{load:.2f}" for load in os.getloadavg()))
        return 0
    print(f"{'nodes':>10}  {'':<34}{'median':>14}  {'least':>14}   {'most':>14}")
    for nodes in options.nodes or SIZES:
        columns = new_table(nodes)
        for classes in options.classes or CLASSES:
            print(placements(columns, classes, options.rounds, options.seconds), flush=True)
        for threads in (1, 2):
            print(full_scans(columns, threads, options.rounds), flush=True)
        print(Result(nodes, "full scan reads and writes", "bytes/row", (bytes_touched(),)))
    return 0


def new_table(nodes: int, seed: int = 7) -> NodeColumns:
    rng = random.Random(seed)
    columns = NodeColumns(nodes)
    for _ in range(nodes):
        row = columns.add_row()
        size = rng.choice((1, 1, 2))
        columns.set_allocatable(row, 0, 32_000 * size)
        columns.set_allocatable(row, 1, 128 * GIB * size)
        columns.set_allowed_pods(row, 250)
        columns.set_node_class(row, rng.randrange(8))
        cpu, memory = rng.randrange(100, 16_000), rng.randrange(1, 64) * GIB
        columns.add_pod(row, PodRequest([(0, cpu), (1, memory)], cpu, memory))
    return columns


def new_classes(columns: NodeColumns, number: int, seed: int = 8) -> list[PodClass]:
    rng = random.Random(seed)
    made = []
    for _ in range(number):
        cpu, memory = rng.randrange(1, 20) * 50, rng.randrange(1, 16) * (GIB // 4)
        pods = PodClass(columns, PodRequest([(0, cpu), (1, memory)], cpu, memory), bytes(8))
        pods.score_least_allocated([(0, 1), (1, 1)], 1)
        pods.score_balanced([0, 1], 1)
        pods.score_node_classes(array("q", [0] * 7 + [1]), True, 3)
        made.append(pods)
    return made


def placements(columns: NodeColumns, classes: int, rounds: int, seconds: float) -> Result:
    """Placements a second; each class has read the table once before."""
    placer = Placer(columns, MAX_BYTES)
    made = new_classes(columns, classes)
    for pods in made:
        placer.place(pods, None)
    rng = random.Random(9)
    bits = array("Q", (rng.getrandbits(32) for _ in range(CALL)))
    rows, feasible = array("i", bytes(4 * CALL)), array("i", bytes(4 * CALL))
    order = [made[i % classes] for i in range(CALL)]
    speeds = []
    for _ in range(rounds + 1):
        spent, placed = 0.0, 0
        while spent < seconds and placed < 200 * CALL:
            started = time.perf_counter()
            done, _ = placer.place_many(order, bits, rows, feasible)
            spent += time.perf_counter() - started
            placed += done
            for pods, row in zip(order, rows, strict=True):
                columns.remove_pod(row, pods.request)
            for pods in made:  # what was taken off is not the next call's work
                placer.place(pods, None)
        speeds.append(placed / spent)
    return Result(columns.rows, f"{classes} class{'es' * (classes > 1)}", "placements/s", tuple(speeds[1:]))


def full_scans(columns: NodeColumns, threads: int, rounds: int) -> Result:
    """Nanoseconds a row when a class reads the whole table."""
    placer = Placer(columns, MAX_BYTES, threads)
    (pods,) = new_classes(columns, 1)
    placer.place(pods, None)
    took = []
    for _ in range(rounds + 1):
        number = max(1, 2_000_000 // columns.rows)
        spent = 0.0
        for _ in range(number):
            placer.drop(pods)
            started = time.perf_counter()
            placer.place(pods, None)
            spent += time.perf_counter() - started
        took.append(spent / number / columns.rows * 1e9)
    return Result(columns.rows, f"full scan, {threads} thread{'s' * (threads > 1)}", "ns/row", tuple(took[1:]))


def thread_gains(columns: NodeColumns, rounds: int) -> list[Gain]:
    """For scans one after another, and for scans apart."""
    scanners: dict[int, list[tuple[Placer, PodClass]]] = {1: [], 2: []}  # threads -> classes, each with its placer
    for _ in range(PAIRS):
        for threads, pairs in scanners.items():
            pairs.append((Placer(columns, MAX_BYTES, threads), new_classes(columns, 1)[0]))
    return [_gain(columns.rows, scanners, apart_s, rounds) for apart_s in APART_S]


def _gain(rows: int, scanners: dict[int, list[tuple[Placer, PodClass]]], apart_s: float, rounds: int) -> Gain:
    took: dict[int, list[float]] = {1: [], 2: []}  # threads -> by round
    for _ in range(rounds):
        scans: dict[int, list[float]] = {1: [], 2: []}
        for turns in zip(*scanners.values(), strict=True):
            for threads, (placer, pods) in zip(scanners, turns, strict=True):
                scans[threads] += [_scan(placer, pods, apart_s) for _ in range(SCANS)][1:]
        for threads, each in scans.items():
            took[threads].append(statistics.median(each))
    return Gain(rows, apart_s, tuple(took[1]), tuple(took[2]))


def _scan(placer: Placer, pods: PodClass, apart_s: float) -> float:
    placer.drop(pods)
    begin = time.perf_counter() + apart_s
    while time.perf_counter() < begin:
        pass
    started = time.perf_counter()
    placer.place(pods, None)
    return time.perf_counter() - started


def bytes_touched() -> float:
    """Resources: allocatable, requested and scored of two; pods and room for them; node class, liveness; total."""
    return 2 * 3 * 8 + 2 * 8 + 4 + 1 + 4


if __name__ == "__main__":
    sys.exit(main())
