"""Two results side by side: what counts as a change, what is printed, and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf.compare import WITHIN, Change, main
from perf.ratios import Spread
from perf.results import write
from tests.perf.outcomes import results


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


def test_check_fails_for_what_is_worse(files: tuple[str, str]) -> None:
    assert main([*files, "--check"]) == 0
    assert main([files[1], files[0], "--check"]) == 1


def test_repository_s_baselines_can_be_read() -> None:
    for path in (Path(__file__).resolve().parents[2] / "perf" / "baseline").glob("*.json"):
        assert main([str(path), str(path), "--check"]) == 0
