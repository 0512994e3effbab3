"""Runs `kscheduler` and counts the calls of Python functions, resumptions of coroutines included.

    python -m perf.counted FILE run --config ...

At each SIGUSR1 the counts since the start are written to FILE as JSON: function -> calls. Counting makes the process
half as fast; how often functions are called for a pod depends on that only where pods are decided in batches.
"""

from __future__ import annotations

import cProfile
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

import kscheduler
from kscheduler.command.cli import main

PACKAGE = Path(kscheduler.__file__).parent


def counts(profile: cProfile.Profile) -> dict[str, int]:
    """Return the calls by function; those of modules beyond the package bear their path's end."""
    found: Counter[str] = Counter()
    for entry in profile.getstats():
        if isinstance(entry.code, CodeType):
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
        scratch.write_text(json.dumps(counts(profile)), encoding="utf-8")
        os.replace(scratch, file)
        profile.enable()

    signal.signal(signal.SIGUSR1, write)
    profile.enable()
    try:
        return main(arguments)
    finally:
        profile.disable()


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
