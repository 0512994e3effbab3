"""Carries out tasks on an executor: this process, processes of its own, or any other of `concurrent.futures`.

A process that is killed, for want of memory say, breaks a whole `ProcessPoolExecutor`. Then each run that was under way
is repeated alone in a new pool; the one that breaks that pool too is a failed run, and all others go on.
"""

from __future__ import annotations

import gc
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait

import msgspec

from kscheduler.sweep.plan import sent
from kscheduler.sweep.results import Finished, Result
from kscheduler.sweep.running import carry_out
from kscheduler.sweep.runs import Task

MAX_PENDING = 64  # tasks given at once to an executor of the user, whose workers are not known
KILLED = "the process that carried it out was killed, perhaps because the machine has not enough memory"

May = Callable[[], bool]
Work = Callable[[Task], Finished]


def _always() -> bool:
    return True


def in_this_process(tasks: Iterable[Task], may_start: May = _always) -> Iterator[Finished]:
    """Carry out the tasks one after the other, while `may_start` is true."""
    for task in tasks:
        if not may_start():
            return
        yield carry_out(task)


def on_executor(tasks: Iterable[Task], executor: Executor, may_start: May = _always) -> Iterator[Finished]:
    """Carry out the tasks on the user's executor, with the content of their files, in the order in which they end.

    An exception of the executor is the failure of its run; one that is broken for good raises its own exception.
    """
    under_way: dict[int, Task] = {}
    for future, task in _ended(_sent(tasks), executor, carry_out, MAX_PENDING, may_start, under_way):
        error = future.exception()
        if error is None:
            yield future.result()
        elif isinstance(error, Exception):
            yield Finished(Result.failed(task.run, f"{type(error).__name__}: {error}"))
        else:
            raise error


def in_processes(
    tasks: Iterable[Task], processes: int, may_start: May = _always, work: Work = carry_out
) -> Iterator[Finished]:
    """Carry out the tasks in so many processes of its own, in the order in which they end."""
    waiting = iter(tasks)
    while True:
        under_way: dict[int, Task] = {}
        pool = _pool(processes)
        try:
            for future, task in _ended(waiting, pool, work, processes, may_start, under_way):
                if isinstance(future.exception(), BrokenExecutor):
                    under_way[id(task)] = task
                    raise BrokenExecutor
                yield future.result()
            return
        except BrokenExecutor:
            pass
        except KeyboardInterrupt:
            for worker in multiprocessing.active_children():
                worker.terminate()  # the runs under way are lost, and nobody waits for them
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        for task in under_way.values():
            yield _alone(task, work)


def _alone(task: Task, work: Work) -> Finished:
    with _pool(1) as pool:
        try:
            return pool.submit(work, task).result()
        except BrokenExecutor:
            return Finished(Result.failed(task.run, KILLED))


def _ended(
    tasks: Iterable[Task], executor: Executor, work: Work, at_once: int, may_start: May, under_way: dict[int, Task]
) -> Iterator[tuple[Future[Finished], Task]]:
    """Submit tasks, so many at once, and yield each with its future when it has ended.

    `under_way` always has the tasks that were submitted and not yielded.
    """
    waiting = iter(tasks)
    futures: dict[Future[Finished], Task] = {}
    while True:
        while len(futures) < at_once and may_start():
            task = next(waiting, None)
            if task is None:
                break
            under_way[id(task)] = task
            futures[executor.submit(work, task)] = task
        if not futures:
            return
        done, _ = wait(futures, return_when=FIRST_COMPLETED)
        for future in done:
            task = futures.pop(future)
            del under_way[id(task)]
            yield future, task


def _sent(tasks: Iterable[Task]) -> Iterator[Task]:
    """Yield the tasks with the content of their files, which is read once for tasks in a row with equal inputs."""
    before = after = None
    for task in tasks:
        if before is None or task.inputs != before:
            before, after = task.inputs, sent(task.inputs)
        assert after is not None
        yield msgspec.structs.replace(task, inputs=after)


def _pool(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_begin)


def _end_with_parent() -> None:
    """End this process when its parent is gone: a worker of a killed parent would wait for tasks for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def _begin() -> None:
    """Prepare a process for many runs.

    Ctrl-C, which all processes of a terminal get, is left to the process that waits for the results. What was imported
    is never garbage, and is not visited when a run's is collected.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="sweep-parent", daemon=True).start()
    gc.collect()
    gc.freeze()
