"""`perf.decisions` in virtual time does the same work each time, so that it can be counted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COUNT_CALLS = """
import sys
from kscheduler.observability.logs import QUIET, configure
from kscheduler.simulator.virtual_time import run_virtual
from perf.decisions import run

calls = 0

def count(frame, event, argument):
    global calls
    calls += event == "call"

configure(verbosity=QUIET)
run_virtual(run("mixed", 8, 60, "compiled", virtual=True))  # imports what is imported when it is needed
sys.setprofile(count)
found = run_virtual(run("mixed", 8, 60, "compiled", virtual=True))
sys.setprofile(None)
print(found.pods, calls)
"""


def test_two_runs_in_virtual_time_make_equally_many_calls() -> None:
    command = [sys.executable, "-c", COUNT_CALLS]
    repository = Path(__file__).resolve().parents[2]
    first, second = (
        subprocess.run(
            command, env={"PYTHONHASHSEED": "0"}, cwd=repository, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    )
    assert first[0] == "60"
    assert first == second
