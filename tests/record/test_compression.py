"""Without the extra `record`, what needs no record works, and what does says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = "import sys; sys.modules['zstandard'] = None; from kscheduler.command.cli import main; sys.exit(main())"
INPUT = ("--nodes", "3", "--pods", "5", "--quiet")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "arguments",
    [("compare", "default", "default", *INPUT), ("whatif", *INPUT, "--add-nodes", "1:node-0")],
    ids=lambda arguments: arguments[0],
)
def test_what_reads_no_record_needs_no_extra(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("simulate", "--record", "a.zst"), ("replay", "a.zst"), ("ui", "a.zst"), ("compare", "a.zst", "default")],
    ids=lambda arguments: arguments[0],
)
def test_what_reads_a_record_names_the_extra(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd....")
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert "records need the package zstandard: pip install 'kscheduler[record]'" in done.stderr
