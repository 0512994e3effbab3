"""Threads that stand by: the answers are those of one thread, and none is left where there should be none."""

from __future__ import annotations

import random
import subprocess
import sys
from array import array
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled
from tests.fast.class_specs import PROFILES, ClassSpec, specs
from tests.fast.strategies import RESOURCES
from tests.fast.tables import GI, plain
from tests.support.skips import NOT_BUILT

COMPILED: Any = load_compiled()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(COMPILED is None, reason=NOT_BUILT)]

ROWS = 120_000  # seven threads have enough to do
PLENTY = 1 << 30


@cache
def large_table() -> Any:
    """Rows of every kind: dead ones, full ones, some that only integers can score. Nobody changes it."""
    rng = random.Random(11)
    columns = COMPILED.NodeColumns(ROWS)
    while columns.resource_count < RESOURCES:
        columns.add_resource()
    pods = [COMPILED.PodRequest(*plain(500 * n, n * GI)) for n in range(8)]
    for _ in range(ROWS):
        row = columns.add_row()
        columns.set_allocatable(row, 0, rng.choice((0, 4_000, 8_000)))
        columns.set_allocatable(row, 1, rng.choice((4, 8, 16)) * GI)
        for resource in range(2, RESOURCES):
            columns.set_allocatable(row, resource, rng.choice((0, 100, 1 << 20)))
        columns.set_allowed_pods(row, rng.randrange(4))
        columns.set_node_class(row, rng.randrange(PROFILES))
        columns.add_pod(row, rng.choice(pods))
    for _ in range(20):
        columns.set_allocatable(rng.randrange(ROWS), 1, 1 << 60)
    for row in range(0, ROWS, 997):
        columns.free_row(row)
    return columns


def answers(columns: Any, spec: ClassSpec, threads: int) -> list[object]:
    """The answers of a class that reads all rows again; or the error of doing so."""
    placer, made = COMPILED.Placer(columns, PLENTY, threads), spec.make(COMPILED, columns)
    try:
        return [placer.count_feasible(made), *(placer.place(made, bits) for bits in (None, 0, 12_345))]
    except (ValueError, IndexError, OverflowError) as error:
        return [type(error), str(error)]


@settings(max_examples=60, deadline=None)
@given(specs, st.sampled_from([2, 3, 7]))
def test_a_class_reads_the_same_with_any_number_of_threads(spec: ClassSpec, threads: int) -> None:
    assert answers(large_table(), spec, threads) == answers(large_table(), spec, 1)


def test_a_row_without_a_verdict_is_found_by_any_thread() -> None:
    columns = COMPILED.NodeColumns(ROWS)
    for _ in range(ROWS):
        columns.set_node_class(columns.add_row(), 0)
    columns.set_node_class(ROWS - 1, 1)
    made = COMPILED.PodClass(columns, COMPILED.PodRequest(*plain(1, 1)), b"\0")
    for threads in (1, 2, 7):
        with pytest.raises(IndexError, match=f"row {ROWS - 1} has node class 1"):
            COMPILED.Placer(columns, PLENTY, threads).place(made, None)
        made = COMPILED.PodClass(columns, COMPILED.PodRequest(*plain(1, 1)), b"\0")


def test_placers_that_want_the_same_helpers_at_once_do_without_or_take_turns() -> None:
    columns = large_table()

    def read(pod: int) -> list[object]:
        found: list[object] = []
        for threads in (2, 3, 2):
            made = COMPILED.PodClass(columns, COMPILED.PodRequest(*plain(100 * pod, GI)), bytes(PROFILES))
            made.score_least_allocated([(0, 1), (1, 1)], 1)
            made.score_node_classes(array("q", range(PROFILES)), True, 2)
            placer = COMPILED.Placer(columns, PLENTY, threads)
            found.append((placer.place(made, 77), placer.count_feasible(made)))
        return found

    pods = range(1, 9)
    alone = [read(pod) for pod in pods]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, pods)) == alone
    assert all(found == each[0] for each in alone for found in each)


# --- their beginning and end, each in a process of its own ---

BEGIN = """
import atexit, os
from kscheduler._fast import NodeColumns, Placer, PodClass, PodRequest
from kscheduler._fast.worker_threads import thread_count

def read(rows, threads):
    columns = NodeColumns(rows)
    for _ in range(rows):
        row = columns.add_row()
        columns.set_allocatable(row, 0, 1000)
        columns.set_allowed_pods(row, 1)
        columns.set_node_class(row, 0)
    pods = PodClass(columns, PodRequest([(0, 10)], 10, 10), b"\\0")
    return Placer(columns, 1 << 30, threads).place(pods, 70_000)
"""


def output_of(program: str) -> list[str]:
    """The lines that a program prints, which ends well."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_thread_is_started_when_a_table_is_large_enough_for_it() -> None:
    program = """
print(thread_count())
read(1_000, 8), print(thread_count())   # too small
read(100_000, 1), print(thread_count()) # one thread has to do
read(100_000, 2), print(thread_count())
read(100_000, 2), print(thread_count()) # the same
read(100_000, 3), print(thread_count()) # and another
"""
    assert output_of(BEGIN + program) == ["0", "0", "0", "1", "1", "2"]


def test_at_the_end_no_thread_is_left_and_kernels_still_work() -> None:
    begin = "import atexit\natexit.register(lambda: print(thread_count(), read(100_000, 3), thread_count()))\n"
    assert output_of(begin + BEGIN + "print(read(100_000, 3), thread_count())") == ["70000", "2", "0", "70000", "0"]


def test_a_forked_process_starts_threads_of_its_own() -> None:
    program = """
read(100_000, 2)
for reads in (0, 1):
    child = os.fork()
    if not child:
        print(thread_count(), *(read(100_000, 2) for _ in range(reads)), thread_count(), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print(read(100_000, 2), thread_count())
"""
    assert output_of(BEGIN + program) == ["0", "0", "0", "70000", "1", "70000", "1"]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_thread_without_work_sleeps_and_takes_no_signal() -> None:
    program = """
import signal, time

def status(thread):
    with open(f"/proc/self/task/{thread}/status") as lines:
        return dict(line.strip().partition(":\\t")[::2] for line in lines)

read(100_000, 2)
(thread,) = {*os.listdir("/proc/self/task")} - {str(os.getpid())}
while not status(thread)["State"].startswith("S"):
    time.sleep(0.001)
blocked = int(status(thread)["SigBlk"], 16)
print(all(blocked >> number - 1 & 1 for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2, signal.SIGPROF)))
"""
    assert output_of(BEGIN + program) == ["True"]
