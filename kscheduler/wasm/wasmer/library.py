"""Where libwasmer is: a file that the environment names, the user's cache, or the system's libraries."""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from kscheduler.wasm.engine import EngineUnavailable
from kscheduler.wasm.wasmer import calls

VERSION = "7.4.2"  # that `make wasmer` builds; libwasmer/Cargo.toml has it too
MAJOR = 7  # calls.pyx was written against the C API of this version
VARIABLE = "KSCHEDULER_WASMER"
FILE = "libwasmer.so"


def bind_library() -> str:
    """Load the first library that fits; returns its version, with what else makes compiled code its own."""
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
    """Paths, and a name for the system's loader. What the environment names is the only one."""
    named = environment.get(VARIABLE)
    if named:
        yield named
        return
    built = cached_library(environment)
    if built.exists():
        yield str(built)
    yield FILE


def cached_library(environment: Mapping[str, str]) -> Path:
    """Where `make wasmer` puts it."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "kscheduler" / "wasmer" / f"{VERSION}-{platform.machine()}" / FILE


def _check_is_whole(path: str) -> None:
    """LibraryError for an ELF file that was cut: the system's loader maps what is not there, and the process ends."""
    try:
        with open(path, "rb") as file:
            header = file.read(64)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return  # a name, or the loader's to explain
    if len(header) < 64 or header[:5] != b"\x7fELF\x02":
        return
    order = "<" if header[5] == 1 else ">"
    (sections,) = struct.unpack_from(f"{order}Q", header, 40)  # their headers come last in the file
    entry, count = struct.unpack_from(f"{order}HH", header, 58)
    if sections + entry * count > size:
        raise calls.LibraryError(f"the file was cut: {size} bytes, expected at least {sections + entry * count}")


def _identity(path: str) -> str:
    """Two builds of one version may lay out their code differently."""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    return f"{found.st_size}-{found.st_mtime_ns}"
