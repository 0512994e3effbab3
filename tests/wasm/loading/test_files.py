"""Guests from files: what is read, and what is never waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kscheduler.wasm.loading.files import file_state, read_file
from kscheduler.wasm.loading.source import SourceError


def test_a_file_is_read_with_the_state_it_was_in(tmp_path: Path) -> None:
    path = tmp_path / "g.wasm"
    path.write_bytes(b"guest")
    data, state = read_file(str(path), 5)
    assert data == b"guest"
    assert state == file_state(str(path))


def test_a_changed_file_has_another_state(tmp_path: Path) -> None:
    path = tmp_path / "g.wasm"
    path.write_bytes(b"guest")
    before = file_state(str(path))
    os.utime(path, (1, 1))
    assert file_state(str(path)) != before


def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "g.wasm"
    path.write_bytes(b"guest")
    with pytest.raises(SourceError, match=r"expected at most 4 bytes, got 5$"):
        read_file(str(path), 4)


def test_a_missing_file_is_reported_as_go_reports_it(tmp_path: Path) -> None:
    path = tmp_path / "absent"
    with pytest.raises(SourceError, match=rf"^open {path}: no such file or directory$"):
        read_file(str(path), 4)
    with pytest.raises(SourceError, match=rf"^stat {path}: no such file or directory$"):
        file_state(str(path))


def test_a_pipe_a_device_and_a_directory_are_no_guests(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, what in ((str(pipe), "a pipe"), ("/dev/zero", "a device"), (str(tmp_path), "a directory")):
        with pytest.raises(SourceError, match=rf"^open {path}: expected a regular file, got {what}$"):
            read_file(path, 4)
