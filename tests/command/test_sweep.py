"""`kscheduler sweep` from its arguments to its files, in processes of its own."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kscheduler.command.flags.commands import parse
from kscheduler.command.flags.simulations import SweepOptions
from kscheduler.command.sweep import collect, sweep
from kscheduler.errors import ConfigError
from kscheduler.sweep.grid import read_grid
from kscheduler.sweep.job import run_index
from kscheduler.sweep.options import read_arguments, read_collect_arguments
from kscheduler.sweep.plan import Plan
from kscheduler.sweep.results import RESULTS, Results
from kscheduler.sweep.running import carry_out
from kscheduler.testing.controlplane.patience import eventually
from tests.support.clocks import ManualClock
from tests.sweep.grids import write_grid

PODS = 300  # a run takes long enough to be killed in the middle of a sweep


def call(*flags: str) -> int:
    options = parse(["sweep", *flags])
    assert isinstance(options, SweepOptions)
    return sweep(read_arguments(options.arguments), ManualClock())


def command(*flags: str) -> list[str]:
    return [sys.executable, "-m", "kscheduler", "sweep", *flags]


def rows(directory: Path) -> bytes:
    return (directory / RESULTS).read_bytes()


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    """Return whether the process runs; one that waits for its parent to take notice of its end does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def finish_here(grid: str, seeds: range, directory: Path) -> None:
    """Write the results of all runs, carried out in this process."""
    with Results(str(directory)) as results:
        for task in Plan(read_grid(grid), seeds).tasks():
            results.add(carry_out(task))


@pytest.mark.slow
def test_results_are_equal_for_one_process_and_two_and_after_a_kill(tmp_path: Path) -> None:
    grid = write_grid(tmp_path, traces=[{"name": "few", "pods": PODS, "arrival": "poisson:10"}])
    for jobs in ("1", "2"):
        done = subprocess.run(
            command(grid, "--seeds", "1..4", "--jobs", jobs, "--out", str(tmp_path / jobs)),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "8 of 8 runs finished" in done.stdout
    assert rows(tmp_path / "1") == rows(tmp_path / "2")
    # Killed when some runs are finished, and once more with half a line at the end.
    out = tmp_path / "killed"
    flags = (grid, "--seeds", "1..4", "--jobs", "2", "--out", str(out))
    process = subprocess.Popen(command(*flags), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: (out / RESULTS).exists() and b"\n" in rows(out), "a run is finished")
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    eventually(lambda: not any(is_alive(worker) for worker in workers), "the workers have ended, too")
    finished = rows(out).count(b"\n")
    assert 0 < finished <= 8
    with (out / RESULTS).open("ab") as file:
        file.write(b'{"key":"00')
    done = subprocess.run(command(*flags, "--resume"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "the last line is cut off (10 bytes): it is dropped, its run repeated" in done.stderr
    assert rows(out) == rows(tmp_path / "1")


def test_a_sweep_whose_runs_are_finished_repeats_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid, out, page = write_grid(tmp_path), tmp_path / "out", tmp_path / "page.html"
    finish_here(grid, range(1, 4), out)
    before = rows(out)
    assert call(grid, "--seeds", "1..3", "--out", str(out), "--html", str(page), "--baseline", "packed") == 0
    assert rows(out) == before
    printed = capsys.readouterr().out
    assert "6 of 6 runs finished" in printed
    assert "paired by seed, difference to packed:" in printed
    report = json.loads((out / "report.json").read_bytes())
    assert (report["baseline"], report["finished"], report["failed"]) == ("packed", 6, 0)
    assert page.read_text().startswith("<!doctype html>")


def test_gates_without_effect_are_named_at_the_start_and_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path, configs=[{"name": "a", "featureGates": {"MemoryQoS": True}}]), tmp_path / "out"
    finish_here(grid, range(1, 3), out)
    assert call(grid, "--seeds", "1..2", "--out", str(out)) == 0
    captured = capsys.readouterr()
    warning = 'config "a": featureGates MemoryQoS=true has no effect: it is of other parts of Kubernetes'
    assert captured.err == f"kscheduler: {warning}\n"
    assert f"warning: {warning}\n" in captured.out
    (tmp_path / "log").write_bytes(b"")
    options = parse(["sweep", "collect", str(tmp_path / "log"), "--out", str(out)])
    assert isinstance(options, SweepOptions)
    assert collect(read_collect_arguments(options.arguments), ManualClock()) == 0
    assert warning in json.loads((out / "report.json").read_bytes())["warnings"], "what is collected later says so, too"


def test_a_dry_run_starts_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(write_grid(tmp_path), "--seeds", "1..50", "--out", str(tmp_path / "out"), "--dry-run") == 0
    printed = capsys.readouterr().out
    assert printed.startswith(
        "100 runs\ntraces: 1 (few)\nclusters: 1 (five)\nconfigurations: 2 (spread, packed)\nseeds: 50 (1,"
    )
    assert not (tmp_path / "out").exists()


def test_a_page_that_cannot_be_written_is_refused_before_the_first_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a file to write"):
        call(write_grid(tmp_path), "--out", str(tmp_path / "out"), "--html", str(tmp_path))
    assert not (tmp_path / "out").exists()


# A limit on the size of files stands for a disk that is full when the page is written: it is larger than the report.
SMALL_DISK = """
import resource, sys
from kscheduler.command.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))
sys.exit(main(sys.argv[1:]))
"""


def test_a_page_for_which_there_is_no_space_is_named_and_no_half_of_it_is_left(tmp_path: Path) -> None:
    grid, out, page = write_grid(tmp_path), tmp_path / "out", tmp_path / "page.html"
    finish_here(grid, range(1, 2), out)
    ended = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, "sweep", grid, "--seeds", "1", "--out", str(out), "--html", str(page)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (2, f"kscheduler: error: {page}: cannot be written: File too large\n")
    assert json.loads((out / "report.json").read_bytes())["finished"] == 2
    assert not page.exists()


def test_resume_needs_an_earlier_sweep(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--resume: expected the results of an earlier sweep"):
        call(write_grid(tmp_path), "--out", str(tmp_path / "out"), "--resume")


def test_a_baseline_that_does_not_exist_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='unknown configuration "pakced": did you mean "packed"'):
        call(write_grid(tmp_path), "--out", str(tmp_path / "out"), "--baseline", "pakced")


def test_a_job_is_written_and_its_lines_are_collected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid, out, here = write_grid(tmp_path), tmp_path / "out", tmp_path / "here"
    finish_here(grid, range(1, 3), here)
    assert call(grid, "--seeds", "1..2", "--jobs", "3", "--out", str(out), "--on", "job") == 0
    assert "4 runs in 3 indexes, 1 ConfigMaps" in capsys.readouterr().out
    logs = mounted(out / "job.yaml", tmp_path / "plan", 3)
    (tmp_path / "log-0").write_bytes(b"a warning\n" + logs[0])
    (tmp_path / "log-1").write_bytes(logs[1] + logs[2][:-9])
    options = parse(["sweep", "collect", str(tmp_path / "log-0"), "--out", str(out)])
    assert isinstance(options, SweepOptions)
    assert collect(read_collect_arguments(options.arguments), ManualClock()) == 1
    captured = capsys.readouterr()
    assert "2 of 4 runs finished, 2 left" in captured.out
    assert "2 results, 1 other line" in captured.err
    (tmp_path / "log-2").write_bytes(logs[2])
    options = parse(["sweep", "collect", str(tmp_path / "log-1"), str(tmp_path / "log-2"), "--out", str(out)])
    assert isinstance(options, SweepOptions)
    assert collect(read_collect_arguments(options.arguments), ManualClock()) == 0
    assert rows(out) == rows(here)


def mounted(manifests: Path, directory: Path, indexes: int) -> list[bytes]:
    """What the pods of a written Job print, by index."""
    directory.mkdir()
    for manifest in yaml.safe_load_all(manifests.read_text()):
        for name, part in manifest.get("binaryData", {}).items():
            (directory / name).write_bytes(base64.b64decode(part))
    return [b"".join(run_index(str(directory), index, indexes)) for index in range(indexes)]


def test_what_belongs_to_another_sweep_is_not_collected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = write_grid(tmp_path)
    assert call(grid, "--seeds", "1", "--out", str(tmp_path / "one"), "--on", "job") == 0
    assert call(grid, "--seeds", "2", "--out", str(tmp_path / "two"), "--on", "job") == 0
    (log,) = mounted(tmp_path / "two" / "job.yaml", tmp_path / "plan", 1)
    (tmp_path / "log").write_bytes(log)
    options = parse(["sweep", "collect", str(tmp_path / "log"), "--out", str(tmp_path / "one")])
    assert isinstance(options, SweepOptions)
    capsys.readouterr()
    assert collect(read_collect_arguments(options.arguments), ManualClock()) == 1
    assert "2 of another sweep, which are left out" in capsys.readouterr().err
    assert rows(tmp_path / "one") == b""


def test_an_index_without_its_number_is_refused(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JOB_COMPLETION_INDEX"}
    done = subprocess.run(
        command("index", "--plan", str(tmp_path), "--indexes", "2"),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == 'kscheduler: error: JOB_COMPLETION_INDEX: expected a number below 2, got ""\n'
