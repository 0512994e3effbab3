"""Benchmarks that need no control plane run to their end, on next to nothing, and print what they measure."""

from __future__ import annotations

from importlib import import_module

import pytest

from kscheduler._fast import COMPILED
from tests.support.skips import NOT_BUILT

BENCHMARKS = {  # command -> a part of what it prints
    "decisions --nodes 20 --pods 200 --rounds 1": "decisions/s",
    "joined --nodes 120 --pods 110": "anti-affinity",
    "lane --nodes 20 --pods 300 --classes 1 3 --rounds 1": "3 classes, calls of 256",
    "metric_rules --nodes 20 --pods 200 --rounds 1": "ratio",
    "preemption_dry_run --nodes 20 --pods 3 --attempts 1": "what-ifs",
    "queue_events --pods 500 --updates 100 --limit 1": "useful: labels",
    "wire --binds 60 --at-once 5 --events 30": "us",
}


@pytest.mark.skipif(not COMPILED, reason=NOT_BUILT)
@pytest.mark.parametrize("command", BENCHMARKS, ids=lambda command: command.split()[0])
def test_it_runs_and_prints_what_it_measures(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, *arguments = command.split()
    assert import_module(f"perf.{name}").main(arguments) == 0
    printed, complaints = capsys.readouterr()
    assert BENCHMARKS[command] in printed
    assert complaints == ""
