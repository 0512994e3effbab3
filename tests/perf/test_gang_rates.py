"""Members of gangs cost few Python calls more than other pods, and nearly no writes."""

from __future__ import annotations

import pytest

from perf import gang_rates
from perf.gang_rates import Kind, Result

pytestmark = pytest.mark.usefixtures("batches_of_one_size")


@pytest.mark.parametrize("kind", Kind)
def test_all_pods_are_bound_and_their_calls_and_writes_counted(kind: Kind) -> None:
    counts = gang_rates.count(kind, nodes=5, pods=40)
    assert counts.calls["cache/cache.py Cache.confirm"] > 0
    assert counts.writes["Events"] >= 1
    assert counts.writes["all but Events"] >= 1


def test_the_command_prints_counts_and_the_functions_that_differ_most(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--count", "--kinds", "tens", "--nodes", "5", "--pods", "20", "--most", "2"]
    assert gang_rates.main(options) == 0
    plain, tens, *functions = capsys.readouterr().out.splitlines()
    assert plain.startswith("plain: ")
    assert "Events" in tens
    assert len(functions) == 2


def test_ratios_are_taken_within_a_round(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rates = iter([100.0, 90.0, 160.0, 200.0])

    def measured(kind: Kind, nodes: int, pods: int) -> Result:
        return Result(next(rates), 1.0, 2.0)

    monkeypatch.setattr(gang_rates, "measure", measured)
    assert gang_rates.main(["--kinds", "one", "--rounds", "2"]) == 0
    captured = capsys.readouterr()
    assert "round 2: one: 160 pods/s" in captured.err, "each round begins with another kind"
    assert captured.out.splitlines()[-1].split()[:3] == ["of", "plain", "0.85"]
