"""A run can be limited to few cases of each test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.few_cases import CASES_OF_EACH, cases_of_each

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.support.few_cases import FewCases
def pytest_configure(config): config.pluginmanager.register(FewCases())
"""
TESTS = """
import pytest
@pytest.mark.parametrize("number", range(5))
def test_many(number): ...
def test_one(): ...
"""


def outcome(folder: Path, cases: str | None, *arguments: str) -> str:
    """The last line that pytest prints about TESTS."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_cases.py").write_text(TESTS)
    environment = {name: value for name, value in os.environ.items() if name != CASES_OF_EACH}
    environment |= {"PYTHONPATH": str(ROOT)} | ({CASES_OF_EACH: cases} if cases else {})
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    done = subprocess.run([*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    return done.stdout.splitlines()[-1].partition(" in ")[0]


def test_the_first_cases_of_each_test_are_kept(tmp_path: Path) -> None:
    assert outcome(tmp_path, None) == "6 passed"
    assert outcome(tmp_path, "2") == "3 passed, 3 deselected"


def test_cases_that_are_deselected_already_do_not_count(tmp_path: Path) -> None:
    assert outcome(tmp_path, "2", "-k", "not [0") == "3 passed, 3 deselected"


@pytest.mark.parametrize("number", ["0", "-1", "many", ""])
def test_anything_but_a_positive_number_is_refused(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CASES_OF_EACH, number)
    with pytest.raises(ValueError, match=f"{CASES_OF_EACH}: expected a positive number, got '{number}'"):
        cases_of_each()
