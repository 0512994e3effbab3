"""The herding bench: its figures are of the true load, and its rules are those that it names."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from perf.herding import BEST, CORES, Burst, Result, main, measure, table


def test_self_load_evens_out_what_goes_to_one_node_without_it() -> None:
    """One node is idle, the others are half full: without correction the burst goes to the one, until it is full."""
    burst = Burst(residents=[(0.1, 0.0)] + [(0.1, 0.5)] * 3, pods=[(500, 500.0)] * 24)
    without, corrected = measure("load", burst, 1), measure("load, self-load", burst, 1)
    assert max(without.loads) == pytest.approx(24 * 50 / CORES), "all of it"
    assert max(corrected.loads) - min(corrected.loads) <= 100 * 0.5 / CORES + 1e-9, "within one pod"


def test_figures_are_of_the_loads() -> None:
    result = Result("some", 1, (20.0, 40.0, 120.0))
    assert result.deviation == pytest.approx(43.2, abs=0.1)
    assert (result.above_mean, result.over) == (60.0, 1)
    assert "43.2 (43.2 .. 43.2)" in table([result])


def test_the_command_prints_a_table_and_draws_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "herding.svg"
    rules = ["requests only", "load, self-load"]
    assert main(["--nodes", "4", "--pods", "20", "--seeds", "1", "--rules", *rules, "--plot", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert all(rule in printed for rule in [*rules, BEST])
    bars = ElementTree.parse(picture).getroot().iter("{http://www.w3.org/2000/svg}rect")
    assert sum(1 for _ in bars) == 1 + 3 * 4
