"""Several plugins at once: guests run without the GIL, so two of them use two cores, where that is worth a hand-off.

Handing work to a thread and waiting for it takes 15 to 50 µs, and what the host does for a guest (encoding, decoding)
still takes turns: so plugins run one after the other unless the time to be saved is well above that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from kscheduler.wasm.engine import Instance
from kscheduler.wasm.pool import Outcome, Pool

T = TypeVar("T")

WORTH_S = 0.0002  # of time saved, by what the runs usually take

Job = tuple[Pool, Callable[[Instance], T]]


class Workers:
    """Threads for guests, made when first needed."""

    def __init__(self, threads: int | None = None) -> None:
        """`threads` beside the caller's; by default one less than there are cores."""
        cores = len(os.sched_getaffinity(0))
        self._threads = max(0, cores - 1 if threads is None else threads)
        self._executor: ThreadPoolExecutor | None = None

    def run_all(self, jobs: Sequence[Job[T]]) -> list[Outcome[T]]:
        """How each job went, in their order; every job has ended by then, and is reported to its pool."""
        outcomes = self._in_parallel(jobs) if self._is_worth_it(jobs) else [pool.attempt(work) for pool, work in jobs]
        for (pool, _), outcome in zip(jobs, outcomes, strict=True):
            pool.report(outcome)
        return outcomes

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    def _is_worth_it(self, jobs: Sequence[Job[T]]) -> bool:
        if self._threads == 0 or len(jobs) < 2:
            return False
        usual = [pool.typical_s for pool, _ in jobs]
        total = sum(usual)
        return total - max(max(usual), total / (self._threads + 1)) > WORTH_S

    def _in_parallel(self, jobs: Sequence[Job[T]]) -> list[Outcome[T]]:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="wasm")
        *others, own = jobs
        pending: list[Future[Outcome[T]]] = [self._executor.submit(pool.attempt, work) for pool, work in others]
        try:
            last = own[0].attempt(own[1])
        finally:
            for future in pending:
                future.exception()  # waits: an instance must not outlive the run that uses it
        return [*(future.result() for future in pending), last]
