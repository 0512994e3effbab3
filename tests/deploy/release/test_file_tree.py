"""A tree of files becomes the same archive each time, and takes nothing from outside its root."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from deploy.release.file_tree import EXECUTABLE, READABLE, SHARED_FOLDER, File, FileTree, Folder, Link
from deploy.release.source import BuildError

EPOCH_S = 1_700_000_000


def tree(**entries: File | Link | Folder) -> FileTree:
    made = FileTree()
    for name, entry in entries.items():
        made.add(name.replace("_", "/"), entry)
    return made


def test_the_order_in_which_files_are_added_does_not_matter() -> None:
    one = tree(usr_bin_program=File(b"1", EXECUTABLE), etc_settings=File(b"2"), lib=Link("usr/lib"))
    two = tree(lib=Link("usr/lib"), etc_settings=File(b"2"), usr_bin_program=File(b"1", EXECUTABLE))
    assert one.tar(EPOCH_S) == two.tar(EPOCH_S) != one.tar(EPOCH_S + 1)


def test_an_archive_has_each_folder_before_what_is_in_it_and_belongs_to_root() -> None:
    packed = tree(usr_bin_program=File(b"1", EXECUTABLE), tmp=Folder(SHARED_FOLDER)).tar(EPOCH_S)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        members = archive.getmembers()
    assert [(member.name, member.mode) for member in members] == [
        ("tmp", 0o1777),
        ("usr", 0o755),
        ("usr/bin", 0o755),
        ("usr/bin/program", 0o755),
    ]
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in members} == {(0, 0, "", EPOCH_S)}


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "a/../../outside", "."])
def test_a_path_that_leads_out_of_the_tree_is_an_error(path: str) -> None:
    with pytest.raises(BuildError, match="expected a path within the image"):
        FileTree().add(path, File(b""))


def test_two_packages_may_bring_the_same_file_but_not_two_of_one_name() -> None:
    made = tree(a=File(b"1"))
    made.add("./a", File(b"1"))
    with pytest.raises(BuildError, match="two different files have the path a"):
        made.add("a", File(b"2"))


def test_files_and_links_of_an_archive_are_taken_without_owner_and_time() -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, mode in (("./bin/tool", 0o4755), ("./doc/text", 0o600), ("./skipped", 0o644)):
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.uid, member.mtime = 3, mode, 7, 99
            archive.addfile(member, io.BytesIO(b"abc"))
        link = tarfile.TarInfo("./bin/same")
        link.type, link.linkname = tarfile.LNKTYPE, "./bin/tool"
        archive.addfile(link)
    made = FileTree()
    made.add_tar(packed.getvalue(), lambda path: path != "skipped")
    assert made.entries == {
        "bin/tool": File(b"abc", EXECUTABLE),
        "doc/text": File(b"abc", READABLE),
        "bin/same": File(b"abc", READABLE),
    }


def test_a_wheel_is_installed_without_its_scripts(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as wheel:
        for name in (
            "x/one.py",
            "x/fast.so",
            "x-1.data/scripts/run",
            "x-1.data/platlib/x/two.py",
            "x-1.data/headers/h",
        ):
            wheel.writestr(name, name)
    made = FileTree()
    made.add_wheel(tmp_path / "x.whl", "lib")
    assert {path: file.mode for path, file in made.files()} == {
        "lib/x/fast.so": EXECUTABLE,
        "lib/x/one.py": READABLE,
        "lib/x/two.py": READABLE,
    }


def test_what_is_written_is_what_the_tree_has(tmp_path: Path) -> None:
    tree(usr_lib_a=File(b"1", EXECUTABLE), lib=Link("usr/lib"), tmp=Folder(SHARED_FOLDER)).write(tmp_path / "root")
    assert (tmp_path / "root/lib/a").read_bytes() == b"1"
    assert (tmp_path / "root/usr/lib/a").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "root/tmp").stat().st_mode & 0o7777 == 0o1777
