"""Files of results: scheduler_perf's schema, and what is ours in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perf.results import CPU, THROUGHPUT, Facts, Record, Results, read, write

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


def test_what_was_written_is_read(path: Path) -> None:
    rated = Record("Some/5Nodes", "embedded", 2, {"SchedulerCPU": {"Average": 1.0}}, "half of the peak")
    write(path, Results([RECORD, rated], Facts(False, 2, ("embedded",), machine={"cpus": "2"})))
    found = read(path)
    assert found.titles() == ["Some/5Nodes", "Some/5Nodes at half of the peak"]
    assert found.values("Some/5Nodes", "kscheduler", THROUGHPUT) == [5.0]
    assert found.values("Some/5Nodes at half of the peak", "embedded", CPU) == [1.0]
    assert found.facts.machine == {"cpus": "2"}
