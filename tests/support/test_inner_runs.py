"""What a run of pytest within a test ran twice is shown at the end of the outer run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.inner_runs import ran_twice

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.support.inner_runs import InnerRuns
def pytest_configure(config): config.pluginmanager.register(InnerRuns())
"""
OUTER = """
from tests.support.inner_runs import show_at_end
def test_of_a_run(request): show_at_end(request, "RERUN test_a.py::test_shaky")
def test_silent(): ...
"""
SHAKY = """
from pathlib import Path
def test_shaky():
    seen = Path("seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("the first time")
def test_steady(): ...
"""


def output(folder: Path, *arguments: str) -> str:
    """What pytest prints about a folder whose tests pass."""
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("processes", [[], ["-n", "1"]])
def test_what_a_test_reports_is_shown_once_at_the_end(processes: list[str], tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_outer.py").write_text(OUTER)
    printed = output(tmp_path, *processes)
    assert "= ran twice within test_outer.py::test_of_a_run =" in printed
    assert printed.count("RERUN test_a.py::test_shaky\n") == 1
    assert "test_silent" not in printed


def test_a_test_that_was_run_twice_is_found_in_the_output_with_its_first_failure(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(SHAKY)
    found = ran_twice(output(tmp_path, "--reruns", "1", "--max-suite-reruns", "3", "--rerun-show-tracebacks"))
    assert found.startswith("RERUN test_a.py::test_shaky\n")
    assert "AssertionError: the first time" in found
    assert "test_steady" not in found


def test_where_nothing_was_run_twice_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_steady(): ...\n")
    assert ran_twice(output(tmp_path)) == ""
