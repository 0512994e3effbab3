"""Two results side by side: what counts as a change, what is printed, and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf.compare import WITHIN, Change, main
from perf.ratios import Spread, ratios_of, write_ratios
from perf.results import write
from tests.perf.outcomes import NAME, results


def change(before: tuple[float, float], after: tuple[float, float], *, more_is_better: bool = True) -> Change:
    one, other = (Spread(sum(ends) / 2, *ends, 2) for ends in (before, after))
    return Change("any", "any", one, other, more_is_better)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ((1.0, 2.0), (2.1, 3.0), "better"),
        ((1.0, 2.0), (0.5, 0.9), "worse"),
        ((1.0, 2.0), (1.9, 9.0), WITHIN),
        ((1.0, 2.0), (2.0, 3.0), WITHIN),
    ],
)
def test_change_counts_when_no_round_of_one_reaches_the_other(
    before: tuple[float, float], after: tuple[float, float], verdict: str
) -> None:
    assert change(before, after).verdict == verdict


def test_less_may_be_better() -> None:
    assert change((1.0, 2.0), (0.5, 0.9), more_is_better=False).verdict == "better"
    assert change((1.0, 2.0), (2.5, 2.9), more_is_better=False).verdict == "worse"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Results of two runs: first twice as fast, then three times."""
    paths = (tmp_path / "before.json", tmp_path / "after.json")
    for path, rate in zip(paths, (20.0, 30.0), strict=True):
        write(path, results([rate, rate], [10.0, 10.0]))
    return str(paths[0]), str(paths[1])


def test_ratios_of_both_are_shown_with_the_change(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(files) == 0
    line = next(text for text in capsys.readouterr().out.splitlines() if "pods bound a second" in text)
    assert "2.00 (2.00 .. 2.00)  ->         3.00 (3.00 .. 3.00)   x1.50  better" in line


def test_baseline_of_ratios_is_compared_with_results(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline = tmp_path / "baseline.json"
    write_ratios(baseline, ratios_of(results([20.0], [10.0])))
    assert main([str(baseline), files[1]]) == 0
    assert NAME in capsys.readouterr().out


def test_figures_of_each_target_are_compared_when_asked(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*files, "--absolute"]) == 0
    shown = capsys.readouterr().out
    assert f"{NAME}, kscheduler" in shown
    assert f"{NAME}, kube-scheduler" in shown
    assert "x0.67  better" in next(text for text in shown.splitlines() if "scheduler CPU" in text)


def test_check_fails_for_what_is_worse(files: tuple[str, str]) -> None:
    assert main([*files, "--check"]) == 0
    assert main([files[1], files[0], "--check"]) == 1


def test_part_is_marked(tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    part = tmp_path / "part.json"
    write(part, results([20.0], [10.0], partial=True))
    main([files[0], str(part)])
    assert f"PARTIAL: {part}" in capsys.readouterr().out


def test_files_with_nothing_in_common_are_refused(
    tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.json"
    write(other, results([20.0], [10.0], name="Other/5Nodes"))
    assert main([files[0], str(other)]) == 2
    assert "no workload in common" in capsys.readouterr().err


def test_file_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "no.json"), str(tmp_path / "no.json")]) == 2
    assert "no.json: No such file" in capsys.readouterr().err


def test_repository_s_baselines_can_be_read() -> None:
    for path in (Path(__file__).resolve().parents[2] / "perf" / "baseline").glob("*.json"):
        assert main([str(path), str(path), "--check"]) == 0
