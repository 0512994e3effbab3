"""Calls a guest for many nodes: one after the other on the attempt's instance, or in groups on several instances.

Groups save time for slow guests. Guests run without the GIL, so several instances use several cores. The more nodes a
guest has stored in one attempt, the slower each further node becomes (SDKs look nodes up in a list, and their garbage
collectors scan all data), so a group is small, and begins with `prefilter`. An answer about a node must not depend on
calls about others: see `ExtensionPlugin.is_divided`. Answers and actions are merged in the order of the nodes' rows, so
that the number of threads makes no difference.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

from kscheduler.wasm.engine import Instance
from kscheduler.wasm.extension.host.call import Call, forget_output

T = TypeVar("T")

WORTH_S = 0.0004  # if calls are likely to take longer, threads pay; passing work to a thread costs a tenth of it
GROUP_ROWS = 64  # at most so many rows share one `prefilter` and one decoding of the pod
_WEIGHT = 0.2  # weight of the latest call in the moving average


Answer = tuple[int, int, str]  # row of a node, what the export returned, and the reason that the guest gave
Ends = Callable[[int], bool]  # returns whether this result ends the calls for further rows


def ask_rows(
    instance: Instance, export: str, call: Call, rows: Sequence[int], names: Sequence[str], ends: Ends
) -> list[Answer]:
    """Call the export for the node of each row, in order; return answers other than 0, until `ends` returns True."""
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
    """The threads for the calls of one plugin, created when first needed, and the usual time per node by export."""

    def __init__(self, threads: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0))
        self._threads = cores - 1 if threads is None else threads
        self._executor: ThreadPoolExecutor | None = None
        self._usual_s: dict[str, float] = {}  # export -> seconds per row

    def note(self, export: str, rows: int, seconds: float) -> None:
        if rows:
            usual = self._usual_s.get(export, seconds / rows)
            self._usual_s[export] = usual + _WEIGHT * (seconds / rows - usual)

    def is_worth_it(self, export: str, rows: int) -> bool:
        return self.likely_s(export, rows) > WORTH_S

    def likely_s(self, export: str, rows: int) -> float:
        """Return how many seconds calls for `rows` nodes are likely to take; 0 if nothing is known yet."""
        return self._usual_s.get(export, 0.0) * rows

    def parts(self, rows: Sequence[int]) -> list[Sequence[int]]:
        """Divide the rows (nodes) in order into even parts: at least one for each thread, none above GROUP_ROWS."""
        count = max(self._threads + 1, -(-len(rows) // GROUP_ROWS))
        size = -(-len(rows) // count)
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def run(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """Run all functions, the first on this thread, and return their results.

        If one raises, its exception is raised when all have ended.
        """
        others = min(self._threads, len(works) - 1)
        if self._executor is None and others > 0:
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="wasm-rows")
        results: dict[int, T] = {}
        turns = itertools.count(1)  # the first work is this thread's

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
