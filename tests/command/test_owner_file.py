"""A file with secrets is its owner's alone, from its first moment."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kscheduler.command.owner_file import write_for_owner


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0, 0o022, 0o277])
def test_a_new_file_is_its_owners_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "new"
    before = os.umask(mask)
    try:
        write_for_owner(str(path), "text")
    finally:
        os.umask(before)
    assert mode(path) == 0o600
    assert path.read_text() == "text"


def test_who_has_the_old_file_open_does_not_read_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "there"
    path.write_text("old, and longer")
    path.chmod(0o644)
    with path.open() as reader:
        write_for_owner(str(path), "new")
        assert reader.read() == "old, and longer"
    assert mode(path) == 0o600
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["there"]


def test_a_file_behind_a_link_is_made_its_owners_before_it_is_filled(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("old, and longer")
    target.chmod(0o644)
    (tmp_path / "link").symlink_to(target)
    write_for_owner(str(tmp_path / "link"), "new")
    assert (target.read_text(), mode(target)) == ("new", 0o600)


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    write_for_owner(f"/dev/fd/{write_end}", "text")
    os.close(write_end)
    with open(read_end) as reader:
        assert reader.read() == "text"


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "there"
    path.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        write_for_owner(str(path), "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["there"]
