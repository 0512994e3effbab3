"""Where tests run side by side, the files that last longest begin first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support import order

ROOT = Path(__file__).parents[2]
CONFTEST = """
from pathlib import Path
from tests.support import order
order.TESTS = Path(__file__).parent
order.SECONDS = {"test_c.py": 60, "test_b.py": 70}
def pytest_configure(config): config.pluginmanager.register(order.LongestFirst())
"""


def begun(folder: Path, *arguments: str) -> list[str]:
    """The tests in the order in which they ran."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-v",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            "--rootdir",
            ".",
            *arguments,
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return [word for line in done.stdout.splitlines() if "PASSED" in line for word in line.split() if "::" in word]


def test_files_begin_by_length_and_keep_their_order_within(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text("def test_2(): ...\ndef test_1(): ...\n")
    by_name = [f"test_{name}.py::test_{number}" for name in "abc" for number in (2, 1)]
    by_length = [f"test_{name}.py::test_{number}" for name in "bca" for number in (2, 1)]
    assert begun(tmp_path) == by_name
    assert begun(tmp_path, "-n", "1", "--dist", "loadfile", "--no-loadscope-reorder") == by_length


def test_every_file_in_the_table_exists() -> None:
    assert [name for name in order.SECONDS if not (order.TESTS / name).is_file()] == []
