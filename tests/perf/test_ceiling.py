"""The ceiling of one process is measured against a stub apiserver that notices mistakes."""

from __future__ import annotations

import pytest

from perf import ceiling
from perf.ceiling import Round, table

pytestmark = pytest.mark.controlplane


def test_each_shape_is_placed_without_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert ceiling.main(["--nodes", "20", "--pods", "40", "--warm-up", "10"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["shape", "plain", "spread", "classes", "stateful", "large"]


def test_memory_is_shown_while_pods_come_and_go(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--nodes", "20", "--pods", "40", "--warm-up", "10", "--shapes", "plain", "--come-and-go", "200"]
    assert ceiling.main(arguments) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in printed[:-1]] == [f"plain: {40 * n:>9} pods" for n in range(1, 6)]
    assert "in the second" in printed[-1]


def test_ratios_are_taken_within_a_round() -> None:
    rounds = [
        Round("plain", name, 10, us_a_pod, 1.0, 1.0)
        for name, us_a_pod in (("this", 50.0), ("before", 100.0), ("before", 200.0), ("this", 50.0))
    ]
    assert table(rounds, ["this", "before"]).splitlines()[1].endswith("0.38 (0.25 .. 0.50)")
