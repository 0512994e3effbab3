"""Finds and loads libwasmer: a file that the environment names, the user's cache, or the system's libraries."""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from kscheduler.wasm.engine import EngineUnavailable
from kscheduler.wasm.wasmer import calls

VERSION = "7.4.2"  # the version that `make wasmer` builds; also in libwasmer/Cargo.toml
MAJOR = 7  # calls.pyx was written against the C API of this version
VARIABLE = "KSCHEDULER_WASMER"
FILE = "libwasmer.so"


def bind_library() -> str:
    """Load the first usable library; return its version and identity, on which compiled code depends.

    Raises EngineUnavailable if there is none.
    """
    tried = []
    for path in candidates(os.environ):
        try:
            _check_is_whole(path)
            version, file = calls.bind(path, MAJOR)
        except calls.LibraryError as error:
            tried.append(f"{path}: {error}")
        else:
            return f"{version}-{_identity(file)}"
    raise EngineUnavailable(
        f"engine wasmer needs libwasmer {MAJOR}.*: run `make wasmer` (or `python -m kscheduler.wasm.wasmer.build`), or "
        f"name the file in {VARIABLE}; tried {'; '.join(tried)}"
    )


def candidates(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the places where libwasmer may be, in the order in which to try them.

    If the environment variable KSCHEDULER_WASMER names a file, it is that file only. Else it is the file in the user's
    cache, if it exists, and then the bare file name, which the system's loader looks for.
    """
    named = environment.get(VARIABLE)
    if named:
        yield named
        return
    built = cached_library(environment)
    if built.exists():
        yield str(built)
    yield FILE


def cached_library(environment: Mapping[str, str]) -> Path:
    """Return the path at which `make wasmer` puts the library."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "kscheduler" / "wasmer" / f"{VERSION}-{platform.machine()}" / FILE


def _check_is_whole(path: str) -> None:
    """Raise LibraryError for a truncated ELF file, because the system's loader would crash the process with it."""
    try:
        with open(path, "rb") as file:
            header = file.read(64)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return  # a name without a path, or a file whose error the loader reports
    if len(header) < 64 or header[:5] != b"\x7fELF\x02":
        return
    order = "<" if header[5] == 1 else ">"
    (sections,) = struct.unpack_from(f"{order}Q", header, 40)  # their headers come last in the file
    entry, count = struct.unpack_from(f"{order}HH", header, 58)
    if sections + entry * count > size:
        raise calls.LibraryError(f"the file was cut: {size} bytes, expected at least {sections + entry * count}")


def _identity(path: str) -> str:
    """Return the file's size and time, since two builds of one version may compile differently; "" if unknown."""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    return f"{found.st_size}-{found.st_mtime_ns}"
