"""A reader takes what is whole of a record that was cut off, and refuses one that was changed, in clear words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import zstandard

from kscheduler.errors import ConfigError
from kscheduler.record import reader as reading
from kscheduler.record.entries import FORMAT, Change, End, Header, Synced
from kscheduler.record.reader import RecordReader
from kscheduler.record.writer import RecordWriter


def change(number: int) -> Change:
    return Change(float(number), "pods", "ADDED", msgspec.Raw(b'{"metadata":{"name":"p%d"}}' % number))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A record of three changes, with a mark before each."""
    path = tmp_path / "run.zst"
    with RecordWriter(path) as writer:
        writer.write(Header(1, "0.1.0", 1_700_000_000.0))
        writer.write(Synced(0.0))
        writer.flush()
        for number in range(3):
            writer.write(change(number))
            writer.flush()
        writer.write(End(9.0))
    return path


def plain(path: Path) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())


def rewritten(path: Path, edit: Callable[[bytes], bytes]) -> Path:
    path.write_bytes(zstandard.ZstdCompressor().compress(edit(plain(path))))
    return path


def read(path: Path) -> tuple[list[str], bool]:
    """The changes' objects, and whether the end is missing."""
    reader = RecordReader(path)
    objects = [bytes(entry.object).decode() for entry in reader if isinstance(entry, Change)]
    return objects, reader.is_cut


def test_a_whole_record_is_read_whole(path: Path) -> None:
    objects, is_cut = read(path)
    assert objects == [f'{{"metadata":{{"name":"p{number}"}}}}' for number in range(3)]
    assert not is_cut


def test_of_a_record_cut_off_anywhere_a_whole_beginning_is_read(path: Path) -> None:
    content, (whole, _) = path.read_bytes(), read(path)
    seen = set()
    for size in range(len(content) - 1, 0, -1):
        path.write_bytes(content[:size])
        try:
            objects, is_cut = read(path)
        except ConfigError:  # not even the header is there
            continue
        assert objects == whole[: len(objects)]
        assert is_cut or objects == whole
        seen.add(len(objects))
    assert seen == {0, 1, 2, 3}


def test_of_a_record_that_is_still_written_everything_is_read_up_to_its_last_flush(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    writer = RecordWriter(path)
    writer.write(Header(1, "0.1.0", 1_700_000_000.0))
    for number in range(5_000):  # far more than the library decompresses at once
        writer.write(change(number))
    writer.flush()
    objects, is_cut = read(path)
    writer.close()
    assert (len(objects), is_cut) == (5_000, True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b"p1", b"p7", id="an object"),
        pytest.param(b'"at":2.0', b'"at":2.5', id="a time"),
        pytest.param(b'"at":9.0', b'"at":8.0', id="the end"),
    ],
)
def test_a_record_that_was_changed_is_refused(path: Path, old: bytes, new: bytes) -> None:
    rewritten(path, lambda text: text.replace(old, new))
    with pytest.raises(ConfigError, match="the record was changed or damaged"):
        read(path)


def test_a_change_in_a_record_without_an_end_is_noticed_at_the_next_mark(path: Path) -> None:
    rewritten(path, lambda text: text.partition(b'{"entry":"end"')[0].replace(b"p1", b"p7"))
    with pytest.raises(ConfigError, match="expected the digest of the lines before it, got another"):
        read(path)


def test_a_line_that_was_taken_out_is_noticed(path: Path) -> None:
    rewritten(path, lambda text: b"".join(line for line in text.splitlines(keepends=True) if b"p1" not in line))
    with pytest.raises(ConfigError, match="the record was changed or damaged"):
        read(path)


def test_a_record_of_a_newer_format_names_the_version_that_reads_it(path: Path) -> None:
    newer = b'"format":%d,"version":"3.0.0"' % (FORMAT + 1)
    rewritten(path, lambda text: text.replace(b'"format":1,"version":"0.1.0"', newer))
    expected = rf"expected a record of format {FORMAT} or older, got format {FORMAT + 1}, .*kscheduler 3\.0\.0"
    with pytest.raises(ConfigError, match=expected):
        RecordReader(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            b"", "expected a record of `kscheduler record` or `kscheduler run --record`, this is none", id="nothing"
        ),
        pytest.param(b"kind: Pod\n", "expected a file compressed with zstd, this is none", id="no zstd"),
        pytest.param(
            zstandard.ZstdCompressor().compress(b'{"kind":"Pod"}\n'),
            "expected a record of `kscheduler record` or `kscheduler run --record`, this is none",
            id="something else",
        ),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        RecordReader(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.zst: cannot be read: No such file or directory"):
        RecordReader(tmp_path / "none.zst")


def test_a_line_without_end_takes_no_more_memory_than_allowed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 1 << 16)
    rewritten(path, lambda text: text.splitlines(keepends=True)[0] + b" " * (1 << 20))
    with pytest.raises(ConfigError, match="line 2: longer than"):
        read(path)


def test_an_entry_that_is_none_is_named_by_its_line(path: Path) -> None:
    rewritten(path, lambda text: text.replace(b'{"entry":"synced"', b'{"entry":"sunk"'))
    with pytest.raises(ConfigError, match="line 2: expected an entry of a record"):
        read(path)


def test_an_existing_file_is_not_written_over(path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a new file, this one exists"):
        RecordWriter(path)
