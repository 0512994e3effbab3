"""The measurement of wasm calls measures each engine, and says whether the goals are met."""

from __future__ import annotations

import pytest

from perf import wasm_calls
from perf.wasm_calls import GOALS, main, table, verdicts

FIGURES = {"bare call": 0.1, "two threads": 1.9, "runaway": 21.0, "event loop": 6.0}


@pytest.mark.slow
def test_a_round_measures_what_there_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wasm_calls, "TIMES", 20)
    monkeypatch.setattr(wasm_calls, "WORK", 1000)
    assert main(["--rounds", "1"]) == 0
    printed = capsys.readouterr().out
    assert "bare call" in printed
    assert "runaway (ms)" in printed
    assert printed.count("wasmtime: ") == len(GOALS)


def test_the_table_takes_ratios_within_a_round() -> None:
    ours = [{"bare call": 1.0}, {"bare call": 2.0}, {"bare call": 4.0}]
    theirs = [{"bare call": 10.0}, {"bare call": 20.0}, {"bare call": 40.0}]
    row = table({"ours": ours, "theirs": theirs}).splitlines()[1]
    assert row.replace("(", "").replace(")", "").split() == ["bare", "call", "2.000", "1.00", "20.000", "10.00"]


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({}, []),
        ({"bare call": 0.3}, ["bare call"]),
        ({"two threads": 1.2}, ["two threads"]),
        ({"runaway": 30.0}, ["runaway, worst"]),
        ({"event loop": 21.0}, ["event loop, worst"]),
    ],
)
def test_a_goal_that_is_not_met_is_reported(changed: dict[str, float], missed: list[str]) -> None:
    lines = verdicts("wasmtime", [FIGURES, FIGURES | changed, FIGURES | changed])
    assert [line.split(": ")[1] for line in lines if "NOT met" in line] == missed
