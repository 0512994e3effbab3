"""The sweep as a function of Python, on any executor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from typing import Any

from kscheduler.sweep.executing import in_this_process, on_executor
from kscheduler.sweep.grid import read_grid
from kscheduler.sweep.plan import MAX_RUNS, Plan
from kscheduler.sweep.results import Finished, Result


def sweep(
    grid: str | Mapping[str, Any],
    *,
    seeds: Iterable[int] = range(1, 6),
    executor: Executor | None = None,
    max_runs: int = MAX_RUNS,
) -> Iterator[Result]:
    """Yield the result of every run of a grid, in the order of the plan, whatever the order in which they end.

    `grid` is a file or its content as a mapping. `executor` is any of `concurrent.futures`, such as Dask's
    `client.get_executor()`, whose workers need nothing but this package; None runs one after the other here. Raises
    ConfigError before the first run if the grid or one of its files is wrong. A run that fails has a result with an
    error.
    """
    plan = Plan(read_grid(grid), list(seeds), max_runs=max_runs)
    plan.check_traces()
    tasks = plan.tasks()
    finished = in_this_process(tasks) if executor is None else on_executor(tasks, executor)
    return _in_order([run.key for run in plan.runs()], finished)


def _in_order(keys: Iterable[str], finished: Iterable[Finished]) -> Iterator[Result]:
    """Yield results in the order of their keys, each as soon as those before it are there."""
    early: dict[str, Result] = {}
    ending = iter(finished)
    for key in keys:
        while key not in early:
            result = next(ending).result
            early[result.key] = result
        yield early.pop(key)
