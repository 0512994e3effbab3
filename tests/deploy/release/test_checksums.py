"""Digests of a release's files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deploy.release import checksums
from deploy.release.source import BuildError
from tests.support.skips import program


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b").write_text("2")
    (tmp_path / "a").write_text("1")
    checksums.write(tmp_path)
    return tmp_path


def test_sha256sum_reads_what_was_written(folder: Path) -> None:
    command = [program("sha256sum", "install coreutils"), "--check", "--strict", checksums.NAME]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == "a: OK\nb: OK\n"
    assert checksums.verify(folder) == 2


def test_a_file_that_was_changed_is_found(folder: Path) -> None:
    (folder / "b").write_text("3")
    with pytest.raises(BuildError, match="b is not what SHA256SUMS says"):
        checksums.verify(folder)


def test_a_file_that_is_missing_is_found(folder: Path) -> None:
    (folder / "a").unlink()
    with pytest.raises(BuildError, match="SHA256SUMS names a, which is not there"):
        checksums.verify(folder)
