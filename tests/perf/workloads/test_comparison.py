"""Rounds of both schedulers: their order, what is kept when they are cut short, and exit codes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from perf.pairs import OURS, THEIRS
from perf.workloads.__main__ import INTERRUPTED, main
from perf.workloads.collection import Collected
from perf.workloads.comparison import Comparison, line
from perf.workloads.execution import Result
from perf.workloads.suite import Plan
from tests.controlplane.harness import HarnessError

PLAN = Plan("Some", "5Nodes", (), {})


def result(name: str = OURS, seconds: float = 1.0, problems: tuple[str, ...] = ()) -> Result:
    collected = Collected(
        pods=100,
        seconds=seconds,
        created_per_s=250.0,
        behind_s=0.5,
        scheduler_cpu_s=0.2,
        apiserver_cpu_s=0.3,
        peak_memory_bytes=64 << 20,
    )
    return Result(name, PLAN.name, collected, evicted=3, churned=7, problems=list(problems))


@dataclass
class FakeRuns:
    """Runs that are over at once; one of them may go wrong."""

    at: int = -1  # which one goes wrong, from 0
    fault: Callable[[], None] = lambda: None
    problems: tuple[str, ...] = ()
    taken: list[str] = field(default_factory=list)

    def __call__(self, name: str, plan: Plan) -> Result:
        if len(self.taken) == self.at:
            self.fault()
        self.taken.append(name)
        return replace(result(name, 1.0 if name == OURS else 2.0, self.problems), workload=plan.name)


def raising(error: BaseException) -> Callable[[], None]:
    def fault() -> None:
        raise error

    return fault


def test_order_is_turned_round_every_round() -> None:
    runs, comparison = FakeRuns(), Comparison(PLAN, wanted=2)
    comparison.run_round(runs)
    comparison.run_round(runs)
    assert runs.taken == [OURS, THEIRS, THEIRS, OURS]
    assert comparison.is_complete


def test_line_says_what_a_run_took() -> None:
    assert line(result(problems=("x",))) == (
        "kscheduler: 100 pods/s (created at 250/s, 0.50 s behind), 2.00 ms CPU a pod, 64 MiB, 3 evicted, 7 churned, "
        "1 PROBLEMS"
    )


def test_complete_comparison_prints_a_table_and_writes_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "results.json"
    arguments = ["--workload", "MixedChurn", "--size", "small", "--rounds", "2", "--output", str(output)]
    assert main(arguments, FakeRuns()) == 0
    shown = capsys.readouterr().out
    assert "MixedChurn/5Nodes; median of 2 interleaved rounds" in shown
    assert "PARTIAL" not in shown
    assert "2.00 (2.00 .. 2.00)" in next(text for text in shown.splitlines() if text.startswith("pods/s"))
    document = json.loads(output.read_text())
    assert document["partial"] is False
    assert [set(entry) for entry in document["workloads"][0]["rounds"]] == [{OURS, THEIRS}] * 2


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (raising(KeyboardInterrupt()), INTERRUPTED),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), INTERRUPTED),
        (raising(HarnessError("3 of 9 pods were bound")), 1),
    ],
    ids=["Ctrl-C", "SIGTERM", "fault"],
)
def test_what_is_complete_is_kept_and_marked_as_a_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: Callable[[], None], code: int
) -> None:
    output = tmp_path / "results.json"
    arguments = ["--workload", "MixedChurn", "--size", "small", "--rounds", "3", "--output", str(output)]
    assert main(arguments, FakeRuns(at=3, fault=fault)) == code
    captured = capsys.readouterr()
    assert "PARTIAL, 1 of 3 rounds: MixedChurn/5Nodes" in captured.out
    document = json.loads(output.read_text())
    assert document["partial"] is True
    assert len(document["workloads"][0]["rounds"]) == 1
    assert list(document["workloads"][0]["unpaired"]) == [THEIRS]


def test_workloads_that_were_not_reached_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--workload", "MixedChurn", "--workload", "Unschedulable", "--size", "small", "--rounds", "1"]
    assert main(arguments, FakeRuns(at=2, fault=raising(KeyboardInterrupt()))) == INTERRUPTED
    assert "PARTIAL, 0 of 1 rounds: Unschedulable/5Nodes" in capsys.readouterr().out


def test_wrong_outcome_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--workload", "MixedChurn", "--size", "small", "--rounds", "1"]
    assert main(arguments, FakeRuns(problems=("n/one is not bound",))) == 1
    assert "MixedChurn/5Nodes: kube-scheduler: n/one is not bound" in capsys.readouterr().err


def test_sigterm_is_handled_as_before_when_all_is_over() -> None:
    before = signal.getsignal(signal.SIGTERM)
    main(["--workload", "MixedChurn", "--size", "small", "--rounds", "1"], FakeRuns())
    assert signal.getsignal(signal.SIGTERM) is before


def test_unknown_workload_is_refused_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    runs = FakeRuns()
    assert main(["--workload", "Nothing"], runs) == 2
    assert runs.taken == []
    assert "there is no workload 'Nothing', expected one of PreemptionBasic" in capsys.readouterr().err


def test_number_of_nodes_is_short_for_a_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--workload", "MixedChurn", "--nodes", "7"], FakeRuns()) == 2
    assert "MixedChurn has no size '7Nodes'" in capsys.readouterr().err


def test_list_prints_cases_and_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert "MixedChurn: 5Nodes, 500Nodes, 5000Nodes" in capsys.readouterr().out.splitlines()
