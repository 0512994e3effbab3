"""A record is written by a thread, and what fails there ends the record and nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kscheduler.errors import ConfigError
from kscheduler.record import background
from kscheduler.record.background import BackgroundWriter
from kscheduler.record.entries import Change, End, Header, Synced
from kscheduler.record.reader import RecordReader
from kscheduler.record.writer import RecordWriter
from tests.record.recording import OnFullDisk


def begun(path: Path) -> BackgroundWriter:
    writer = BackgroundWriter(path)
    writer.write(Header(2, "0.1.0", 0.0))
    writer.write(Synced(0.0))
    return writer


def change(number: int) -> Change:
    return Change(float(number), "pods", "ADDED", msgspec.Raw(b'{"metadata":{"name":"p%d"}}' % number))


def test_all_entries_are_in_the_file_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    writer = begun(path)
    for number in range(5_000):
        writer.write(change(number))
    writer.write(End(1.0))
    writer.close()
    reader = RecordReader(path)
    assert [entry.at for entry in reader if isinstance(entry, Change)] == [float(number) for number in range(5_000)]
    assert not reader.is_cut


def test_after_a_flush_a_reader_finds_all_entries_though_the_file_is_open(tmp_path: Path) -> None:
    writer = begun(tmp_path / "run.zst")
    writer.write(change(1))
    writer.flush()
    writer.settle()
    reader = RecordReader(tmp_path / "run.zst")
    assert len(list(reader)) == 2
    assert reader.is_cut
    writer.close()


def test_a_full_disk_ends_the_record_and_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: RecordWriter, content: bytes) -> None:
        raise ConfigError(f"{self.path}: cannot be written: No space left on device")

    writer = begun(tmp_path / "run.zst")
    monkeypatch.setattr(RecordWriter, "_put", refuse)
    writer.flush()
    writer.settle()
    writer.write(change(1))
    writer.close()
    assert "No space left on device" in writer.failure


def test_a_disk_that_is_full_at_a_flush_ends_the_record_and_nobody_waits_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "RecordWriter", OnFullDisk)
    writer = begun(tmp_path / "run.zst")
    writer.flush()
    writer.settle()
    writer.write(change(1))
    writer.close()
    assert "No space left on device" in writer.failure


def test_a_disk_that_is_too_slow_ends_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_WAITING", 0)
    writer = begun(tmp_path / "run.zst")
    writer.flush()
    assert "the disk is too slow" in writer.failure
    writer.close()


def test_a_file_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written: No such file or directory"):
        BackgroundWriter(tmp_path / "none" / "run.zst")
