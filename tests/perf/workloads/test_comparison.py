"""Rounds of all targets: their order, what is kept when they are cut short, and exit codes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kscheduler.testing.controlplane import HarnessError
from perf.ratios import BARE, read_ratios
from perf.results import LATENCY, THROUGHPUT, read
from perf.workloads.__main__ import INTERRUPTED, main
from perf.workloads.collection import Collected
from perf.workloads.comparison import HALF, OWN_HALF, Comparison, compare
from perf.workloads.execution import Outcome
from perf.workloads.suite import Plan
from perf.workloads.targets import EMBEDDED, OURS, TARGETS, THEIRS

PLAN = Plan("Some", "5Nodes", (), {})


def outcome(seconds: float = 1.0, problems: tuple[str, ...] = ()) -> Outcome:
    collected = Collected(
        pods=100,
        seconds=seconds,
        created_per_s=250.0,
        behind_s=0.5,
        scheduler_cpu_s=0.2,
        apiserver_cpu_s=0.3,
        peak_memory_bytes=64 << 20,
        throughput={"Average": 90.0},
        latency_ms={"Perc50": 10.0, "Perc99": 20.0 * seconds},
    )
    return Outcome(collected, evicted=3, churned=7, problems=list(problems))


@dataclass
class FakeRuns:
    """Runs that are over at once; kube-scheduler takes twice as long. One of them may go wrong."""

    at: int = -1  # which one goes wrong, from 0
    fault: Callable[[], None] = lambda: None
    problems: tuple[str, ...] = ()
    taken: list[str] = field(default_factory=list)  # targets
    plans: list[Plan] = field(default_factory=list)
    tries: int = 0

    def __call__(self, target: str, plan: Plan) -> Outcome:
        self.tries += 1
        if self.tries == self.at + 1:
            self.fault()
        self.taken.append(target)
        self.plans.append(plan)
        return outcome(2.0 if target == THEIRS else 1.0, self.problems)


def raising(error: BaseException) -> Callable[[], None]:
    def fault() -> None:
        raise error

    return fault


def arguments(output: Path, *more: str, rounds: int = 2) -> list[str]:
    return ["MixedChurn", *more, "--size", "small", "--rounds", str(rounds), "--output", str(output)]


def test_another_target_is_first_every_round() -> None:
    runs, comparison = FakeRuns(), Comparison(PLAN, 2, TARGETS)
    comparison.run_round(runs)
    comparison.run_round(runs)
    assert runs.taken == [EMBEDDED, OURS, THEIRS, OURS, THEIRS, EMBEDDED]
    assert comparison.is_complete


@pytest.mark.parametrize("are_compiled", [True, False])
def test_a_run_says_that_the_kernels_are_not_compiled(
    are_compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perf.workloads.__main__.COMPILED", are_compiled)
    assert main(arguments(tmp_path), FakeRuns()) == 0
    assert ("the kernels are not compiled" in capsys.readouterr().err) is not are_compiled


def test_complete_comparison_prints_a_table_and_writes_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(tmp_path), FakeRuns()) == 0
    shown = capsys.readouterr().out
    assert "MixedChurn/5Nodes; median of 2 of 2 interleaved rounds" in shown
    assert "PARTIAL" not in shown
    assert "2.00 (2.00 .. 2.00)" in next(text for text in shown.splitlines() if text.startswith("pods bound a second"))
    results = read(tmp_path / "results.json")
    assert not results.facts.partial
    assert results.values("MixedChurn/5Nodes", THEIRS, THROUGHPUT) == [50.0, 50.0]
    assert read_ratios(tmp_path / "ratios.json").of("MixedChurn/5Nodes")[LATENCY.key].median == 2.0
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "ratios.json", "ratios.txt", "ratios.svg"}


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (raising(KeyboardInterrupt()), INTERRUPTED),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), INTERRUPTED),
        (raising(HarnessError("kube-apiserver ended by itself with exit code -9")), 1),
    ],
    ids=["Ctrl-C", "SIGTERM", "dead control plane"],
)
def test_what_is_complete_is_kept_and_marked_as_a_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: Callable[[], None], code: int
) -> None:
    assert main(arguments(tmp_path, rounds=3), FakeRuns(at=4, fault=fault)) == code
    assert "PARTIAL, MixedChurn/5Nodes" in capsys.readouterr().out
    results = read(tmp_path / "results.json")
    assert results.facts.partial
    assert list(results.facts.failures) == ["MixedChurn/5Nodes"]
    assert [(record.round, record.target) for record in results.records] == [
        (1, EMBEDDED),
        (1, OURS),
        (1, THEIRS),
        (2, OURS),
    ]
    assert read_ratios(tmp_path / "ratios.json").facts.partial
    assert "PARTIAL" in (tmp_path / "ratios.svg").read_text()


def test_half_of_the_slowest_peak_is_the_rate_of_all() -> None:
    runs, kept = FakeRuns(), []
    compare([PLAN], TARGETS, 1, runs, lambda all_: kept.append([each.plan.full_name for each in all_]), at_half=True)
    assert [plan.rate_per_s for plan in runs.plans] == [None, None, None, 25.0, 25.0, 25.0, 25.0]
    assert kept[-1] == ["Some/5Nodes", f"Some/5Nodes at {HALF}"]


def test_a_bare_client_runs_at_half_rate_beside_a_control_plane() -> None:
    for targets, more in ((TARGETS, [BARE]), ((EMBEDDED,), []), ((OURS, BARE), [])):
        runs = FakeRuns()
        compare([PLAN], targets, 1, runs, lambda _: None, at_half=True)
        assert runs.taken == [*targets, *targets, *more]


def test_half_of_its_own_peak_is_the_rate_of_each() -> None:
    runs, kept = FakeRuns(), []
    at_both: list[str] = [OURS, THEIRS]
    compare(
        [PLAN],
        at_both,
        1,
        runs,
        lambda all_: kept.append([each.plan.full_name for each in all_]),
        at_half=True,
        at_own_half=True,
    )
    rates = {(target, plan.load): plan.rate_per_s for target, plan in zip(runs.taken, runs.plans, strict=True)}
    assert [rates[target, OWN_HALF] for target in (OURS, THEIRS, BARE)] == [50.0, 25.0, 50.0]
    assert kept[-1] == ["Some/5Nodes", f"Some/5Nodes at {HALF}", f"Some/5Nodes at {OWN_HALF}"]
