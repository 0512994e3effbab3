"""Files of results: scheduler_perf's schema, what is ours in it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perf.results import CPU, FIGURES, THROUGHPUT, UNITS, Facts, Record, ResultError, Results, read, write

RECORD = Record("Some/5Nodes", "kscheduler", 1, {"PodsPerSecond": {"Average": 5.0}, "SchedulingThroughput": {}})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.json"


def test_items_are_of_scheduler_perf_s_schema(path: Path) -> None:
    write(path, Results([RECORD], Facts(True, 2, ("kscheduler",), failures={"Some/5Nodes": "gone"})))
    document = json.loads(path.read_text())
    assert document["version"] == "v1"
    assert document["dataItems"] == [
        {
            "data": {"Average": 5.0},
            "unit": "pods/s",
            "labels": {
                "Name": "Some/5Nodes",
                "Metric": "PodsPerSecond",
                "Scheduler": "kscheduler",
                "Load": "peak",
                "Round": "1",
            },
        }
    ]
    assert document["kscheduler"]["partial"] is True


def test_all_items_have_the_same_labels(path: Path) -> None:
    # scheduler_perf fills in what an item has not; ours have them all.
    rated = Record("Some/5Nodes", "embedded", 2, {"SchedulerCPU": {"Average": 1.0}}, "half of the peak")
    write(path, Results([RECORD, rated]))
    items = json.loads(path.read_text())["dataItems"]
    assert len({frozenset(item["labels"]) for item in items}) == 1


def test_what_was_written_is_read(path: Path) -> None:
    rated = Record("Some/5Nodes", "embedded", 2, {"SchedulerCPU": {"Average": 1.0}}, "half of the peak")
    write(path, Results([RECORD, rated], Facts(False, 2, ("embedded",), machine={"cpus": "2"})))
    found = read(path)
    assert found.titles() == ["Some/5Nodes", "Some/5Nodes at half of the peak"]
    assert found.values("Some/5Nodes", "kscheduler", THROUGHPUT) == [5.0]
    assert found.values("Some/5Nodes at half of the peak", "embedded", CPU) == [1.0]
    assert found.facts.machine == {"cpus": "2"}


def test_every_figure_has_a_unit() -> None:
    assert {figure.metric for figure in FIGURES} <= UNITS.keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.pop("version"), "missing required field `version`"),
        (lambda document: document.update(version="v2"), "version: expected v1, got 'v2'"),
        (lambda document: document.pop("kscheduler"), "missing required field `kscheduler`"),
        (lambda document: document["dataItems"][0]["labels"].pop("Round"), r"dataItems\[0\]\.labels\.Round is missing"),
        (
            lambda document: document["dataItems"][0]["labels"].update(Round="one"),
            r"dataItems\[0\]\.labels\.Round: expected a number, got 'one'",
        ),
        (
            lambda document: document["dataItems"][0]["data"].update(Average="fast"),
            r"Expected `float`, got `str` - at `\$\.dataItems\[0\]\.data\[\.\.\.\]`",
        ),
    ],
)
def test_what_is_not_understood_names_file_and_field(path: Path, change: object, message: str) -> None:
    write(path, Results([RECORD]))
    document = json.loads(path.read_text())
    change(document)  # type: ignore[operator]
    path.write_text(json.dumps(document))
    with pytest.raises(ResultError, match=message) as raised:
        read(path)
    assert str(raised.value).startswith(f"{path}: ")


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_file_that_is_no_document_is_refused(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(ResultError, match=f"^{path}: "):
        read(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"nothing\.json: No such file"):
        read(tmp_path / "nothing.json")
