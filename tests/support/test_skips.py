"""Tests that cannot run are skipped with a reason, and fail in CI unless their reason is on the list."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = """
from tests.support.skips import SkipRule
def pytest_configure(config): config.pluginmanager.register(SkipRule())
"""
WITHOUT_TOOLS = """
import pytest
from tests.support import skips
from kscheduler.testing.controlplane import MissingTool

class ToolOfAScript(Exception): ...
ToolOfAScript.__name__ = "MissingTool"

@pytest.fixture(scope="module")
def compiler(): raise MissingTool("no Go: install it")

def test_a_fixture_lacks_a_tool(compiler): ...
def test_another_lacks_it_too(compiler): ...
def test_a_script_lacks_a_tool(): raise ToolOfAScript("no Rust: install it")
def test_a_program_is_missing(): skips.program("no-such-program", "build it")
def test_a_package_is_missing(): skips.package("no_such_package", "pip install it")
@pytest.mark.skip(reason="nobody knows why")
def test_a_mark_skips(): ...
"""
REASONS = (
    "no Go: install it",
    "no Rust: install it",
    "'no-such-program' is not on PATH: build it",
    "the Python package 'no_such_package' is not installed: pip install it",
    "nobody knows why",
)


def run(folder: Path, tests: str, *, ci: str) -> tuple[int, str]:
    """Run tests with the rule; the exit code and what pytest printed."""
    (folder / "conftest.py").write_text(PLUGIN)
    (folder / "test_it.py").write_text(tests)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rfExX", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CI": ci, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_without_its_tools_a_test_is_skipped_and_says_what_to_install(tmp_path: Path) -> None:
    code, printed = run(tmp_path, WITHOUT_TOOLS, ci="")
    assert (code, "6 skipped" in printed, "error" in printed.lower()) == (0, True, False), printed
    for reason in REASONS:
        assert f"{2 if reason == REASONS[0] else 1:5d}  {reason}\n" in printed


def test_in_ci_each_skip_is_a_failure(tmp_path: Path) -> None:
    code, printed = run(tmp_path, WITHOUT_TOOLS, ci="true")
    assert (code, "6 failed" in printed, "skipped in" in printed) == (1, True, False), printed
    for reason in REASONS:
        assert f"CI must run this test, which was skipped: {reason}" in printed


@pytest.mark.parametrize(("ci", "code"), [("", 5), ("true", 2)])
def test_a_module_that_skips_itself_fails_in_ci(tmp_path: Path, ci: str, code: int) -> None:
    tests = "from tests.support import skips\nskips.package('no_such_package')\ndef test_it(): ...\n"
    found, printed = run(tmp_path, tests, ci=ci)
    assert (found, "'no_such_package' is not installed: run `make build`" in printed) == (code, True), printed


def test_skips_on_the_list_and_expected_failures_stay_what_they_are_in_ci(tmp_path: Path) -> None:
    tests = """
import pytest
def test_wasmer(): pytest.skip("wasmer cannot be built here: libwasmer needs cargo and rustc 1.95 or later")
@pytest.mark.xfail(reason="known")
def test_known(): assert False
"""
    code, printed = run(tmp_path, tests, ci="true")
    assert (code, "1 skipped, 1 xfailed" in printed) == (0, True), printed
