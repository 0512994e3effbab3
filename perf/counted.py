"""Runs `kscheduler` and counts calls of Python functions, resumptions of coroutines, and uses of the event loop.

    python -m perf.counted FILE run --config ...

At each SIGUSR1 the counts since the start are written to FILE as JSON: function -> calls, and the event loop's work
under the names in WORK. Counting halves the process's speed. That affects the calls per pod only where pods are decided
in batches, whose size depends on speed.
"""

from __future__ import annotations

import cProfile
import json
import math
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import uvloop

import kscheduler
from kscheduler import scheduler
from kscheduler.client import adaptive_limit, informer
from kscheduler.command.cli import main
from kscheduler.cycle import schedule_batch
from kscheduler.explain import decisions
from kscheduler.watch import watches

PACKAGE = Path(kscheduler.__file__).parent
CALLBACKS, TIMERS, TASKS = "(loop) callbacks", "(loop) timers", "(loop) tasks"
READS, WRITES = "(system) reads", "(system) writes"
WORK = (CALLBACKS, TIMERS, TASKS, READS, WRITES)
worked: Counter[str] = Counter()  # what the loop was asked for

# What one turn of the loop does and how large a batch is also depend on how long things take.
TIME_LIMITS = (
    (informer, "SLICE_S"),
    (scheduler, "SLICE_S"),
    (schedule_batch, "LONG_S"),
    (adaptive_limit, "NEAR_S"),
)


class CountingLoop(uvloop.Loop):
    """Counts callbacks, timers and tasks, but not what uvloop does internally, such as reading a socket."""

    def call_soon(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        worked[CALLBACKS] += 1
        return super().call_soon(*args, **kwargs)

    def call_later(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        worked[TIMERS] += 1
        return super().call_later(*args, **kwargs)

    def call_at(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        worked[TIMERS] += 1
        return super().call_at(*args, **kwargs)

    def create_task(self, *args: Any, **kwargs: Any) -> Any:
        worked[TASKS] += 1
        return super().create_task(*args, **kwargs)


def system_calls() -> dict[str, int]:
    """Return how often this process has read and written, sockets included; nothing where the kernel does not tell."""
    try:
        lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    counted = dict(line.split(": ") for line in lines)
    return {READS: int(counted["syscr"]), WRITES: int(counted["syscw"])}


def counts(profile: cProfile.Profile) -> dict[str, int]:
    """Return the calls by function; those of modules beyond the package bear their path's end."""
    found: Counter[str] = Counter()
    for entry in profile.getstats():
        if isinstance(entry.code, CodeType) and entry.code.co_filename != __file__:
            found[name_of(entry.code)] += entry.callcount
    return dict(found)


def name_of(code: CodeType) -> str:
    """Return a function's module and name, such as `queue/nominator.py Nominator.remove`."""
    path = Path(code.co_filename)
    shown = path.relative_to(PACKAGE) if PACKAGE in path.parents else Path(*path.parts[-2:])
    return f"{shown.as_posix()} {code.co_qualname}"


def run(file: Path, arguments: list[str]) -> int:
    """Run the command under the counter."""
    profile = cProfile.Profile(subcalls=False, builtins=False)

    def write(_number: int, _frame: FrameType | None) -> None:
        profile.disable()
        # Renamed into place, so that who waits for it reads all of it.
        scratch = file.with_suffix(".new")
        scratch.write_text(json.dumps({**counts(profile), **worked, **system_calls()}), encoding="utf-8")
        os.replace(scratch, file)
        profile.enable()

    uvloop.new_event_loop = CountingLoop
    # Details of decisions have a share of the time that passes, so that a slower machine collects more of them a pod.
    decisions.SHARE = 1e-9
    for module, name in TIME_LIMITS:
        setattr(module, name, math.inf)
    # Silent watches are opened again as time passes, a score at once, in the measured time or beside it.
    watches.ROOM_SILENCE_S = watches.SILENCE_S = math.inf
    signal.signal(signal.SIGUSR1, write)
    profile.enable()
    try:
        return main(arguments)
    finally:
        profile.disable()


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
