"""Ratios of the two schedulers: taken within a round, in our favour above 1; as a table and as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.ratio_plot import PANELS, to_svg
from perf.ratios import BARE, BARE_EVENTS, OURS, THEIRS, Spread, ratios_of, read_ratios, spread, write_ratios
from perf.result_table import whole_table
from perf.results import CPU, LATENCY, THROUGHPUT, Record, Results
from tests.perf.outcomes import NAME, results


def test_ratio_is_in_our_favour_whether_more_or_less_is_better() -> None:
    found = ratios_of(results([20.0], [10.0])).of(NAME)
    assert found[THROUGHPUT.key] == Spread(2.0, 2.0, 2.0, 1)
    assert found[CPU.key].median == pytest.approx(2.0)
    assert LATENCY.key not in found


def test_ratios_are_taken_within_a_round() -> None:
    found = ratios_of(results([20.0, 30.0, 90.0], [10.0, 10.0, 90.0])).of(NAME)[THROUGHPUT.key]
    assert found == Spread(median=2.0, lowest=1.0, highest=3.0, rounds=3)


def test_round_without_its_pair_has_no_ratio() -> None:
    assert ratios_of(results([20.0, 30.0], [10.0])).of(NAME)[THROUGHPUT.key].rounds == 1
    assert ratios_of(results([20.0], [])).of(NAME) == {}


@given(st.lists(st.floats(0.001, 1e6), min_size=1))
def test_median_lies_within_the_spread(values: list[float]) -> None:
    found = spread(values)
    assert found.lowest <= found.median <= found.highest


def test_ratios_are_read_as_written_and_made_of_results(tmp_path: Path) -> None:
    ratios = ratios_of(results([20.0], [10.0]))
    write_ratios(tmp_path / "ratios.json", ratios)
    assert read_ratios(tmp_path / "ratios.json") == ratios


def test_table_has_both_and_the_ratio() -> None:
    shown = whole_table(results([20.0, 30.0], [10.0, 10.0]))
    line = next(text for text in shown.splitlines() if text.startswith("pods bound a second"))
    assert line.split() == ["pods", "bound", "a", "second", "25.0", "10.0", "2.50", "(2.00", "..", "3.00)"]


def test_a_table_of_one_target_promises_no_ratios() -> None:
    alone = Results([record for record in results([20.0], [10.0]).records if record.target == OURS])
    assert "is ahead" not in whole_table(alone)
    assert "is ahead" in whole_table(results([20.0], [10.0]))


def latencies(p50: Sequence[float], p99: Sequence[float], target: str) -> list[Record]:
    """Rounds."""
    return [
        Record(NAME, target, number, {"CreateToBound": {"Perc50": middle, "Perc99": tail}}, "half")
        for number, (middle, tail) in enumerate(zip(p50, p99, strict=True), start=1)
    ]


def test_table_says_what_of_the_longest_waits_is_the_control_planes() -> None:
    records = [
        *latencies([1.0, 1.0], [8.0, 90.0], OURS),
        *latencies([4.0, 3.0], [40.0, 300.0], THEIRS),
        *latencies([1.0, 1.0], [6.0, 60.0], BARE),
    ]
    lines = {text[:36].strip(): text[36:].split() for text in whole_table(Results(records)).splitlines()}
    assert lines["p99 beyond that of bare-client, ms"] == ["16.0", "137", "0.00"]  # 2 and 30, 34 and 240
    assert lines["p99 in p50s of kube-scheduler"] == ["16.0", "55.0", "10.8"]  # 2 and 30, 10 and 100, 1.5 and 20
    with_events = [*records, *latencies([1.0, 1.0], [7.0, 80.0], BARE_EVENTS)]
    lines = {text[:36].strip(): text[36:].split() for text in whole_table(Results(with_events)).splitlines()}
    assert lines["p99 beyond that of bare-events, ms"] == ["5.50", "126", "-10.5", "0.00"]  # 1 and 10, 33 and 220
    without = whole_table(Results([record for record in records if record.target != BARE]))
    assert "p50s" not in without
    assert "beyond" not in without


# --- the picture ---

SVG = "{http://www.w3.org/2000/svg}"


def places(*ratios: float) -> list[float]:
    """How far right the dots of the first panel are."""
    records = [
        record
        for number, ratio in enumerate(ratios)
        for record in results([ratio], [1.0], name=f"Workload<{number}>").records
    ]
    picture = ElementTree.fromstring(to_svg(ratios_of(Results(records))))
    dots = [float(dot.get("cx", "")) for dot in picture.iter(f"{SVG}circle")]
    return dots[: len(ratios)]


def test_twice_and_half_are_equally_far_from_one() -> None:
    half, one, twice = places(0.5, 1.0, 2.0)
    assert twice - one == pytest.approx(one - half, abs=0.2)


def test_picture_names_each_workload_and_marks_a_part() -> None:
    picture = to_svg(ratios_of(results([20.0], [10.0], partial=True)))
    texts = [text.text for text in ElementTree.fromstring(picture).iter(f"{SVG}text")]
    assert NAME in texts
    assert any(text is not None and text.startswith("PARTIAL") for text in texts)
    assert len(PANELS) == 4
