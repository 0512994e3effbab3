"""A guest asked about many nodes: one after the other on the attempt's instance, or shared out among several.

Several instances save time where the guest takes long, since guests run without the GIL; what the host does for them
takes turns. The guest has to allow it (`parallel`, and `pure` ones anyway): what it says of a node must not rest on
what it was asked about others. Each instance begins with `prefilter`. Answers are put together in the order of rows,
and what the guest set going, too, so that one thread or many make no difference.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

from kscheduler.wasm.engine import Instance
from kscheduler.wasm.extension.host.call import Call
from kscheduler.wasm.extension.invoking import forget_output

T = TypeVar("T")

WORTH_S = 0.0004  # of what the guest is likely to take for all rows; a hand-off costs a tenth of it
_WEIGHT = 0.2  # of the latest call in the usual one


Answer = tuple[int, int, str]  # row of a node, what the export returned, and the reason that the guest gave
Ends = Callable[[int], bool]  # is it of no use to ask any further, after this value?


def ask_rows(
    instance: Instance, export: str, call: Call, rows: Sequence[int], names: Sequence[str], ends: Ends
) -> list[Answer]:
    """Answers other than 0, which is what most say."""
    instance.data = call
    function = cast(Callable[[], int], instance.prepare(export))
    found: list[Answer] = []
    for row, name in zip(rows, names, strict=True):
        call.node_name = name.encode()
        value = function()
        if value:
            found.append((row, value, call.reason))
            if ends(value):
                break
        if call.reason:
            call.begin()
    forget_output(instance)
    return found


class Sharing:
    """Threads beside the caller's, made when first needed, and how long an answer of each export usually takes."""

    def __init__(self, threads: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0))
        self._threads = cores - 1 if threads is None else threads
        self._executor: ThreadPoolExecutor | None = None
        self._usual_s: dict[str, float] = {}  # export -> seconds a row

    def note(self, export: str, rows: int, seconds: float) -> None:
        if rows:
            usual = self._usual_s.get(export, seconds / rows)
            self._usual_s[export] = usual + _WEIGHT * (seconds / rows - usual)

    def is_worth_it(self, export: str, rows: int) -> bool:
        return self._threads > 0 and self._usual_s.get(export, 0.0) * rows > WORTH_S

    def parts(self, rows: Sequence[int]) -> list[Sequence[int]]:
        """As even as may be, in order."""
        size = -(-len(rows) // (self._threads + 1))
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def run(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """All of them, the first on this thread; what one of them raises is raised when all have ended."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="wasm-rows")
        pending = [self._executor.submit(work) for work in works[1:]]
        try:
            first = works[0]()
        finally:
            for future in pending:
                future.exception()  # waits
        return [first, *(future.result() for future in pending)]

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
