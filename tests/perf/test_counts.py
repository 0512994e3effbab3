"""A pod does not cost more Python calls than the baseline says."""

from __future__ import annotations

import json

import pytest

from perf import counts
from perf.counts import ALONE, BASELINE, LOADS, compared, grew, least_calls


@pytest.mark.controlplane
@pytest.mark.slow
@pytest.mark.parametrize("load", ["plain", ALONE])
def test_a_pod_needs_no_more_calls_than_before(load: str) -> None:
    """After a change that is worth its calls: `python -m perf.counts --write`."""
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))[load]
    calls = least_calls(load, baseline)
    assert not grew(calls, baseline), compared(load, calls, baseline)


def test_the_baseline_has_every_load() -> None:
    assert set(json.loads(BASELINE.read_text(encoding="utf-8"))) == {*LOADS}


def test_growth_is_found_and_named() -> None:
    baseline = {"queue/a.py push": 100.0, "cycle/b.py bind": 100.0}
    calls = {"queue/a.py push": 100.0, "cycle/b.py bind": 105.0, "cycle/c.py extra": 6.0}
    assert grew(calls, baseline)
    assert not grew({**calls, "cycle/c.py extra": 5.0}, baseline)
    assert not grew(calls, None)
    assert compared("plain", calls, baseline).splitlines() == [
        "plain: 211 calls a pod, 200 in the baseline (+5.5 %)",
        "     +6.00 cycle/c.py extra",
        "     +5.00 cycle/b.py bind",
    ]


def test_a_load_is_measured_again_while_it_grew_and_each_function_counts_least(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = iter([{"a.py f": 12.0, "b.py g": 10.0}, {"a.py f": 10.0, "b.py g": 12.0, "c.py h": 1.0}, {}])
    monkeypatch.setattr(counts, "calls_a_pod", lambda load: next(measured))
    assert least_calls("plain", {"a.py f": 10.0, "b.py g": 10.0}) == {"a.py f": 10.0, "b.py g": 10.0}


def test_growth_in_every_measurement_is_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "calls_a_pod", lambda load: {"a.py f": 12.0})
    assert grew(least_calls("plain", {"a.py f": 10.0}), {"a.py f": 10.0})


def test_a_load_without_a_baseline_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(counts, "calls_a_pod", lambda load: {"a.py f": 2.0})
    monkeypatch.setattr(counts, "BASELINE", BASELINE.with_name("none.json"))
    assert counts.main(["--loads", "plain"]) == 0
    assert capsys.readouterr().out == "plain: 2 calls a pod; there is no baseline\n"
