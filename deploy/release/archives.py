"""Writes archives of which the same files make the same bytes: in order of their names, of one time, of no owner."""

from __future__ import annotations

import gzip
import io
import tarfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

FIRST_ZIP_TIME = 315532800  # 1980-01-01, in seconds since 1970: a zip archive can hold no earlier one
_READABLE, _EXECUTABLE = 0o644, 0o755


def write_zip(path: Path, files: Mapping[str, bytes], epoch_s: int, *, last: str = "") -> None:
    """Write files (name -> content) into a zip archive; every file has the time `epoch_s`.

    The names that begin with `last` come at the end, as the metadata of wheels should.
    """
    when = time.gmtime(max(epoch_s, FIRST_ZIP_TIME))[:6]
    in_order = sorted(files, key=lambda name: (bool(last) and name.startswith(last), name))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in in_order:
            entry = zipfile.ZipInfo(name, when)
            entry.create_system = 3  # Unix, whatever machine this is
            entry.external_attr = (0o100000 | (_EXECUTABLE if name.endswith(".so") else _READABLE)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])


def write_tar_gz(path: Path, files: Mapping[str, bytes], epoch_s: int) -> None:
    """Write files (name -> content) into a compressed tar archive; every file has the time `epoch_s`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(files[name]), epoch_s, _READABLE
            archive.addfile(entry, io.BytesIO(files[name]))
    with path.open("wb") as file, gzip.GzipFile("", "wb", compresslevel=9, fileobj=file, mtime=epoch_s) as compressed:
        compressed.write(packed.getvalue())


def files_below(folder: Path, prefix: str = "") -> dict[str, bytes]:
    """Return the contents of all files below a folder, by their paths in it with `prefix` before them."""
    return {
        prefix + path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
