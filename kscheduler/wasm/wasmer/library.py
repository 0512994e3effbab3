"""Where libwasmer is: a file that the environment names, the user's cache, or the system's libraries."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path

from kscheduler.wasm.engine import EngineUnavailable
from kscheduler.wasm.wasmer import calls

VERSION = "7.4.2"  # that `make wasmer` builds; libwasmer/Cargo.toml has it too
MAJOR = 7  # calls.pyx was written against the C API of this version
VARIABLE = "KSCHEDULER_WASMER"
FILE = "libwasmer.so"


def bind_library() -> str:
    """Load the first library there is; returns its version, with what else makes compiled code its own."""
    tried = []
    for path in candidates(os.environ):
        try:
            version = calls.bind(path)
        except calls.LibraryError as error:
            tried.append(f"{path}: {error}")
            if os.environ.get(VARIABLE):
                break
            continue
        if version.split(".")[0] != str(MAJOR):
            raise EngineUnavailable(f"engine wasmer needs libwasmer {MAJOR}.*: {path} is version {version}")
        return f"{version}-{_identity(path)}"
    raise EngineUnavailable(
        "engine wasmer needs libwasmer: run `make wasmer` (or `python -m kscheduler.wasm.wasmer.build`), or name the "
        f"file in {VARIABLE}; tried {'; '.join(tried)}"
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


def _identity(path: str) -> str:
    """Two builds of one version may lay out their code differently; "" for what the system's loader found."""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    return f"{found.st_size}-{found.st_mtime_ns}"
