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
from perf.workloads.comparison import HALF, OWN_HALF, Comparison, compare, line
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


def test_line_says_what_a_run_took() -> None:
    assert line(OURS, outcome(problems=("x",))) == (
        "kscheduler: 100 pods/s (created at 250/s, 0.50 s behind), 2.00 ms CPU a pod, p99 20 ms, 64 MiB, "
        "3 evicted, 7 churned, 1 PROBLEMS"
    )


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


def test_only_the_targets_that_are_named_run(tmp_path: Path) -> None:
    runs = FakeRuns()
    assert main(arguments(tmp_path, "--targets", "embedded,kscheduler", rounds=1), runs) == 0
    assert runs.taken == [EMBEDDED, OURS]


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


def test_workload_that_fails_does_not_keep_the_next_from_being_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = FakeRuns(at=1, fault=raising(HarnessError("3 of 9 pods were bound")))
    assert main(arguments(tmp_path, "Unschedulable", rounds=1), runs) == 1
    assert "PARTIAL: MixedChurn/5Nodes: 3 of 9 pods were bound" in capsys.readouterr().out
    assert [plan.case for plan in runs.plans] == ["MixedChurn", *["Unschedulable"] * 3]


def test_workloads_that_were_not_reached_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(
        ["MixedChurn", "Unschedulable", "--size", "small", "--rounds", "1"], FakeRuns(3, raising(KeyboardInterrupt()))
    )
    assert code == INTERRUPTED
    assert "PARTIAL: Unschedulable/5Nodes: not reached" in capsys.readouterr().out


def test_baseline_is_written_of_what_is_complete(tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    assert main(arguments(tmp_path / "one", "--baseline", str(baseline)), FakeRuns()) == 0
    assert read_ratios(baseline).of("MixedChurn/5Nodes")[THROUGHPUT.key].median == 2.0
    baseline.unlink()
    main(arguments(tmp_path / "two", "--baseline", str(baseline)), FakeRuns(2, raising(HarnessError("gone"))))
    assert not baseline.exists()


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


def test_rate_is_given_to_the_plan(tmp_path: Path) -> None:
    runs = FakeRuns()
    main(arguments(tmp_path, "--rate", "120", rounds=1), runs)
    assert {plan.rate_per_s for plan in runs.plans} == {120.0}
    assert read(tmp_path / "results.json").titles() == ["MixedChurn/5Nodes at 120 pods/s"]


def test_wrong_outcome_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(tmp_path), FakeRuns(problems=("n/one is not bound",))) == 1
    assert "MixedChurn/5Nodes: kube-scheduler: n/one is not bound" in capsys.readouterr().err
    assert len(read(tmp_path / "results.json").facts.problems) == 6


def test_sigterm_is_handled_as_before_when_all_is_over(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    main(arguments(tmp_path), FakeRuns())
    assert signal.getsignal(signal.SIGTERM) is before


def test_unknown_workload_is_refused_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    runs = FakeRuns()
    assert main(["Nothing"], runs) == 2
    assert runs.taken == []
    assert "there is no workload 'Nothing', expected one of SchedulingBasic" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--targets", "embedded,other"], "there is no target 'other', expected some of embedded, kscheduler"),
        (["--rate", "0"], "expected more than zero, got 0"),
        (["--rate", "5", "--half-rate"], "not allowed with argument"),
    ],
)
def test_option_without_sense_is_refused(capsys: pytest.CaptureFixture[str], option: list[str], message: str) -> None:
    with pytest.raises(SystemExit):
        main(["MixedChurn", *option], FakeRuns())
    assert message in capsys.readouterr().err


def test_number_of_nodes_is_short_for_a_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["MixedChurn", "--nodes", "7"], FakeRuns()) == 2
    assert "MixedChurn has no size '7Nodes'" in capsys.readouterr().err


def test_list_prints_cases_and_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert "MixedChurn: 5Nodes, 500Nodes, 5000Nodes" in capsys.readouterr().out.splitlines()
