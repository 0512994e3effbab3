"""The kernels built with every check on: an index out of range or an overflow that release builds miss fails here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def copy_sources(to: Path) -> None:
    """What the kernels and their tests need, without what was built."""
    # Of the compiled modules only the kernels have twins.
    unwanted = shutil.ignore_patterns("*.so", "*.c", "*.html", "__pycache__", "go", "calls.pyx")
    for folder in ("kscheduler", "tests"):
        shutil.copytree(ROOT / folder, to / folder, ignore=unwanted)
    for file in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, to)


def run(*command: str, at: Path, **variables: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(at), **variables}
    done = subprocess.run(command, cwd=at, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    return done.stdout


def test_the_kernels_agree_with_their_twins_when_built_with_every_check(tmp_path: Path) -> None:
    copy_sources(tmp_path)
    run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", "-j2", at=tmp_path, KSCHEDULER_DEBUG="1")
    where = run(sys.executable, "-c", "import kscheduler._fast.scoring as it; print(it.__file__)", at=tmp_path)
    assert where.startswith(str(tmp_path)), f"expected the debug build to be tested, got {where}"
    output = run(
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/fast",
        "--ignore=tests/fast/test_debug_build.py",  # this test, which would build again
        "-k",
        "not [reference",  # what runs on the twins alone is the same in each build
        at=tmp_path,
        CI="true",
    )
    assert re.search(r"^\d+ passed, \d+ deselected in ", output, re.MULTILINE), output  # none was skipped
