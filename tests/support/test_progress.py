"""A long run of tests says what it does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BY_FILE = ["--dist", "loadfile"]
GOOD = "def test_a(): ...\ndef test_b(): ...\n"
BAD = "def test_a(): ...\ndef test_b(): assert False\n"


@pytest.mark.parametrize("processes", ["0", "2"])
def test_each_file_says_when_it_begins_how_long_it_took_and_what_failed(tmp_path: Path, processes: str) -> None:
    for name, text in (("test_good.py", GOOD), ("test_bad.py", BAD), ("conftest.py", "")):
        (tmp_path / name).write_text(text)
    alone = ["-p", "no:cacheprovider", "-p", "no:asyncio", "-c", os.devnull, "--rootdir", "."]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.progress", "-n", processes, *BY_FILE, *alone],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    lines = [re.sub(r"^[\d:]{8} |[\d.]+ s", "", line) for line in done.stdout.splitlines()]
    assert {"test_good.py: 2 tests begin", "test_good.py: 2 tests in ", "test_bad.py: 2 tests in , 1 failed"} <= {
        *lines
    }
    assert lines.index("test_good.py: 2 tests begin") < lines.index("test_good.py: 2 tests in ")
    assert "1 failed, 3 passed" in done.stdout
