"""The sweep as a function of Python, on any executor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from kscheduler.sweep.executing import in_this_process, on_executor
from kscheduler.sweep.grid import read_grid
from kscheduler.sweep.plan import MAX_RUNS, Plan
from kscheduler.sweep.results import Finished, Result, renamed
from kscheduler.sweep.runs import Run


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
    runs = plan.runs()
    tasks = {task.run.key: task for task in plan.tasks()}.values()
    finished = in_this_process(tasks) if executor is None else on_executor(tasks, executor)
    return _in_order(runs, finished)


def _in_order(runs: Sequence[Run], finished: Iterable[Finished]) -> Iterator[Result]:
    """Yield a result for each run, as soon as those before it are there; runs of one key share theirs."""
    uses = Counter(run.key for run in runs)
    found: dict[str, Result] = {}
    ending = iter(finished)
    for run in runs:
        while run.key not in found:
            result = next(ending).result
            found[result.key] = result
        yield renamed(found[run.key], run)
        uses[run.key] -= 1
        if not uses[run.key]:
            del found[run.key]
