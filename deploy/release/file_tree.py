"""Files, folders and links by their paths, as a layer of an image holds them."""

from __future__ import annotations

import io
import posixpath
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from deploy.release.source import BuildError

READABLE, EXECUTABLE, FOLDER, SHARED_FOLDER = 0o644, 0o755, 0o755, 0o1777


@dataclass(frozen=True)
class File:
    content: bytes
    mode: int = READABLE


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True)
class Folder:
    mode: int = FOLDER


Entry = File | Link | Folder


@dataclass
class FileTree:
    """Entries by paths such as usr/bin/python3.13; the folders above an entry need not be named."""

    entries: dict[str, Entry] = field(default_factory=dict)

    def add(self, path: str, entry: Entry) -> None:
        """Add an entry. Raises BuildError if another one has the path, or if it leads out of the tree."""
        clean = posixpath.normpath(path)
        if clean.startswith(("/", "../")) or clean in ("..", "."):
            raise BuildError(f"expected a path within the image, got {path!r}")
        if self.entries.setdefault(clean, entry) != entry:
            raise BuildError(f"two different files have the path {clean}")

    def add_tar(self, archive: bytes, wanted: Callable[[str], bool]) -> None:
        """Add the files and links of a tar archive whose paths are wanted. Owners and times are left behind."""
        with tarfile.open(fileobj=io.BytesIO(archive)) as unpacked:
            for member in unpacked:
                path = posixpath.normpath(member.name)
                if member.isdir() or not wanted(path):
                    continue
                if member.issym():
                    self.add(path, Link(member.linkname))
                elif (opened := unpacked.extractfile(member)) is not None:
                    self.add(path, File(opened.read(), EXECUTABLE if member.mode & 0o100 else READABLE))
                else:
                    raise BuildError(f"{path} is neither a file nor a link")

    def add_wheel(self, wheel: Path, into: str) -> None:
        """Add what a wheel installs into the folder of packages `into`; its scripts and headers are left out."""
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                path = _installed_path(name)
                if path and not name.endswith("/"):
                    mode = EXECUTABLE if path.endswith(".so") or ".so." in path else READABLE
                    self.add(f"{into}/{path}", File(archive.read(name), mode))

    def files(self) -> Iterator[tuple[str, File]]:
        """Yield paths and files, in order of the paths."""
        for path, entry in sorted(self.entries.items()):
            if isinstance(entry, File):
                yield path, entry

    def write(self, folder: Path) -> None:
        """Write everything into a folder, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        for path, entry in self.with_folders():
            place = folder / path
            match entry:
                case Folder(mode):
                    place.mkdir(exist_ok=True)
                    place.chmod(mode)
                case File(content, mode):
                    place.write_bytes(content)
                    place.chmod(mode)
                case Link(target):
                    place.symlink_to(target)

    def tar(self, epoch_s: int) -> bytes:
        """Return a tar archive: in order of the paths, folders before what is in them, all of root and of one time."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path, entry in self.with_folders():
                member = tarfile.TarInfo(path)
                member.mtime = epoch_s
                match entry:
                    case Folder(mode):
                        member.type, member.mode = tarfile.DIRTYPE, mode
                        archive.addfile(member)
                    case File(content, mode):
                        member.size, member.mode = len(content), mode
                        archive.addfile(member, io.BytesIO(content))
                    case Link(target):
                        member.type, member.linkname, member.mode = tarfile.SYMTYPE, target, 0o777
                        archive.addfile(member)
        return packed.getvalue()

    def with_folders(self) -> Iterator[tuple[str, Entry]]:
        """Yield all entries, and the folders above them."""
        everything = dict(self.entries)
        for path in self.entries:
            above = posixpath.dirname(path)
            while above and above not in everything:
                everything[above] = Folder()
                above = posixpath.dirname(above)
        yield from sorted(everything.items(), key=lambda item: item[0].split("/"))


def _installed_path(name: str) -> str:
    """Return where a wheel's file goes below the folder of packages: "" for scripts, headers and data."""
    first, _, rest = name.partition("/")
    if not first.endswith(".data"):
        return name
    kind, _, below = rest.partition("/")
    return below if kind in ("purelib", "platlib") else ""
