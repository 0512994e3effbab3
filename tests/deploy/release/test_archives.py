"""The same files make the same bytes, whatever the clock, the order and the owner."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.release.archives import FIRST_ZIP_TIME, files_below, write_tar_gz, write_zip

FILES = {"b/two.so": b"2" * 5000, "a.dist-info/RECORD": b"r", "b/one.py": b"1"}
EPOCH_S = 1_700_000_000


@pytest.mark.parametrize("write", [write_zip, write_tar_gz])
def test_an_archive_depends_on_contents_and_time_alone(write: Callable[..., None], tmp_path: Path) -> None:
    one, two, later = tmp_path / "one", tmp_path / "two", tmp_path / "later"
    write(one, FILES, EPOCH_S)
    write(two, dict(reversed(FILES.items())), EPOCH_S)
    write(later, FILES, EPOCH_S + 2)
    assert one.read_bytes() == two.read_bytes() != later.read_bytes()


def test_a_zip_archive_has_what_it_was_given_with_the_metadata_last(tmp_path: Path) -> None:
    write_zip(tmp_path / "x.whl", FILES, EPOCH_S, last="a.dist-info")
    with zipfile.ZipFile(tmp_path / "x.whl") as archive:
        assert archive.namelist() == ["b/one.py", "b/two.so", "a.dist-info/RECORD"]
        assert {name: archive.read(name) for name in archive.namelist()} == FILES


def test_a_time_before_the_first_of_zip_archives_becomes_the_first(tmp_path: Path) -> None:
    write_zip(tmp_path / "old", FILES, 0)
    write_zip(tmp_path / "first", FILES, FIRST_ZIP_TIME)
    assert (tmp_path / "old").read_bytes() == (tmp_path / "first").read_bytes()


def test_a_tar_archive_names_no_owner(tmp_path: Path) -> None:
    write_tar_gz(tmp_path / "x.tar.gz", FILES, EPOCH_S)
    with tarfile.open(tmp_path / "x.tar.gz") as archive:
        assert {(entry.uid, entry.uname, entry.mtime) for entry in archive} == {(0, "", EPOCH_S)}


def test_files_below_a_folder_are_named_by_their_paths_in_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").write_text("x")
    assert files_below(tmp_path, "top/") == {"top/a/b": b"x"}
