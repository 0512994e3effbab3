"""Instructions are read off callgrind's report, by pod, and compared with a baseline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perf import instructions

REPORT = "==7== Events    : Ir\n==7== Collected : 1234567\n==7==\n"


def test_the_count_is_in_callgrinds_report() -> None:
    assert instructions.collected(REPORT) == 1_234_567
    with pytest.raises(ValueError, match="expected a line"):
        instructions.collected("==7== Killed")


def test_a_pod_costs_what_more_pods_cost_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(instructions, "BASELINE", tmp_path / "baseline.json")
    monkeypatch.setattr(instructions, "instructions", lambda shape, pods: 1_000_000 + 600 * pods)
    monkeypatch.setattr("shutil.which", lambda name: name)
    assert instructions.main(["--shapes", "basic", "--write"]) == 0
    assert json.loads((tmp_path / "baseline.json").read_text(encoding="utf-8")) == {"basic": 600}
    assert capsys.readouterr().out == "basic: 600 instructions a pod; there is no baseline\n"
    monkeypatch.setattr(instructions, "instructions", lambda shape, pods: 1_000_000 + 640 * pods)
    assert instructions.main(["--shapes", "basic"]) == 1
    assert capsys.readouterr().out == "basic: 640 instructions a pod, 600 in the baseline (+6.7 %)\n"


def test_the_baseline_has_every_shape() -> None:
    assert set(json.loads(instructions.BASELINE.read_text(encoding="utf-8"))) == {*instructions.SHAPES}
