"""Every executor gives the same results, and a process that is killed costs its own run only."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from kscheduler.sweep.executing import KILLED, in_processes, in_this_process, on_executor
from kscheduler.sweep.results import Finished
from kscheduler.sweep.runs import Task
from tests.sweep.grids import finished, tasks


def killed_by_seed_2(task: Task) -> Finished:
    """Work that kills its process for one seed, as the kernel does when memory is short."""
    if task.run.seed == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return finished(task.run, placed=1.0)


@pytest.mark.slow
def test_a_process_that_is_killed_fails_its_own_run_and_no_other() -> None:
    given = tasks((1, 2, 3, 4), configs=[{"name": "one"}])
    ended = {each.result.seed: each.result.error for each in in_processes(given, 2, work=killed_by_seed_2)}
    assert ended == {1: "", 2: KILLED, 3: "", 4: ""}


def test_no_run_begins_after_the_time_is_over() -> None:
    calls = count(1)
    given = tasks((1, 2, 3))
    assert len(list(in_this_process(given, lambda: next(calls) <= 2))) == 2


def test_threads_give_the_results_of_this_process() -> None:
    given = tasks((1, 2))
    here = {each.result.key: each.result for each in in_this_process(given)}
    with ThreadPoolExecutor(1) as executor:
        there = {each.result.key: each.result for each in on_executor(given, executor)}
    assert here == there
    assert list(here) == [task.run.key for task in given]
