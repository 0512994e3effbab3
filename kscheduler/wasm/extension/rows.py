"""A guest asked about many nodes: one after the other on the attempt's instance, or in groups on several.

Groups save time where the guest takes long. Guests run without the GIL, so several instances use several cores; and
what a guest keeps of the nodes of one attempt makes each further node dearer (SDKs look nodes up in a list, and their
collectors walk all that is kept), so a group is small, and begins with `prefilter`. What it says of a node must not
rest on what it was asked about others: see `ExtensionPlugin.is_divided`. Answers are put together in the order of rows,
and what the guest set going, too, so that one thread or many make no difference.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

from kscheduler.wasm.engine import Instance
from kscheduler.wasm.extension.host.call import Call
from kscheduler.wasm.extension.invoking import forget_output

T = TypeVar("T")

WORTH_S = 0.0004  # of what the guest is likely to take for all rows; a hand-off costs a tenth of it
GROUP_ROWS = 64  # of one beginning: `prefilter`, and what the guest reads of the pod, are shared by so many nodes
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
        return self.likely_s(export, rows) > WORTH_S

    def likely_s(self, export: str, rows: int) -> float:
        """What asking about so many nodes is likely to take; 0 if nothing is known yet."""
        return self._usual_s.get(export, 0.0) * rows

    def parts(self, rows: Sequence[int]) -> list[Sequence[int]]:
        """As even as may be, in order: one for each thread at least, and none above a group."""
        count = max(self._threads + 1, -(-len(rows) // GROUP_ROWS))
        size = -(-len(rows) // count)
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def run(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """All of them, the first on this thread; what one of them raises is raised when all have ended."""
        others = min(self._threads, len(works) - 1)
        if self._executor is None and others > 0:
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="wasm-rows")
        results: dict[int, T] = {}
        turns = itertools.count(1)  # the first is this thread's

        def pull() -> None:
            while (turn := next(turns)) < len(works):
                results[turn] = works[turn]()

        pending = [self._executor.submit(pull) for _ in range(others)] if self._executor is not None else []
        try:
            results[0] = works[0]()
            pull()
        finally:
            for future in pending:
                future.exception()  # waits
        for future in pending:
            future.result()
        return [results[turn] for turn in range(len(works))]

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
