"""Results survive a crash: what was written is kept, and half a line is dropped."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kscheduler.errors import ConfigError
from kscheduler.sweep.metrics import Timing
from kscheduler.sweep.results import PLAN, RESULTS, Finished, PlanFile, Result, Results
from tests.sweep.grids import finished, run


def test_results_are_read_again(tmp_path: Path) -> None:
    first, second = finished(run(1), placed=1.0), Finished(Result.failed(run(2), "it failed"))
    timing = Timing(run(1).key, 1.0, 0.9, 100.0, 50.0)
    with Results(str(tmp_path)) as results:
        results.add(Finished(first.result, timing))
        results.add(second)
    with Results(str(tmp_path)) as results:
        assert list(results.by_key.values()) == [first.result, second.result]
        assert results.timings == {timing.key: timing}
        assert results.notes == []


def test_a_last_line_that_is_cut_off_is_dropped_with_a_note(tmp_path: Path) -> None:
    with Results(str(tmp_path)) as results:
        results.add(finished(run(1), placed=1.0))
        results.add(finished(run(2), placed=1.0))
    path = tmp_path / RESULTS
    whole = path.read_bytes()
    for cut in range(1, len(whole) // 2):
        path.write_bytes(whole[:-cut])
        with Results(str(tmp_path)) as results:
            assert [result.seed for result in results.by_key.values()] == [1]
            assert "the last line is cut off" in results.notes[0]
            results.add(finished(run(2), placed=1.0))
        assert path.read_bytes() == whole


def test_a_damaged_line_before_the_last_is_refused(tmp_path: Path) -> None:
    (tmp_path / RESULTS).write_bytes(b'{"key": 5}\n{"key": "a"}\n')
    with (
        pytest.raises(ConfigError, match=r"results.jsonl:1: expected a line of a sweep's results"),
        Results(str(tmp_path)),
    ):
        pass


def test_two_sweeps_cannot_write_into_one_directory(tmp_path: Path) -> None:
    with (
        Results(str(tmp_path)),
        pytest.raises(ConfigError, match="another sweep is writing its results here"),
        Results(str(tmp_path)),
    ):
        pass
    with Results(str(tmp_path)):  # it is free again
        pass


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"), Results(str(tmp_path / "file" / "out")):
        pass


def test_a_file_in_the_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(ConfigError, match="out: expected a directory for results, this is a file"):
        Results(str(tmp_path / "out")).__enter__()


def test_a_file_that_cannot_be_replaced_is_named_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    (tmp_path / PLAN).mkdir()
    with (
        Results(str(tmp_path)) as results,
        pytest.raises(ConfigError, match=r"plan\.json: cannot be written: Is a directory"),
    ):
        results.write_plan(PlanFile("1", ["placed"], "a", [run(1)]))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", PLAN]


def test_a_directory_that_cannot_be_locked_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(ConfigError, match="cannot be written: No locks available"), Results(str(tmp_path)):
        pass


def test_results_are_put_in_the_order_of_the_plan_with_its_names(tmp_path: Path) -> None:
    runs = [run(seed) for seed in (1, 2, 3)]
    other = run(9, "other")
    with Results(str(tmp_path)) as results:
        for each in (runs[2], other, runs[0]):
            results.add(finished(each, placed=1.0))
        renamed = [type(each)(each.key, "new", each.cluster, each.config, each.seed) for each in runs]
        results.put_in_order(renamed)
    with Results(str(tmp_path)) as results:
        assert [(result.trace, result.config, result.seed) for result in results.by_key.values()] == [
            ("new", "a", 1),
            ("new", "a", 3),
            ("t", "other", 9),
        ]


def test_the_plan_is_read_again_and_a_missing_one_is_named(tmp_path: Path) -> None:
    written = PlanFile("1", ["placed"], "a", [run(1)])
    with Results(str(tmp_path)) as results:
        with pytest.raises(ConfigError, match="there is none"):
            results.read_plan()
        results.write_plan(written)
        assert results.read_plan() == written
