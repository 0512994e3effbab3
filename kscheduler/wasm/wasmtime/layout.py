"""Whether the compiled calls fit the installed wasmtime: its version, and the sizes of the structs they share."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from importlib import metadata

# calls.pyx was written against the C API of this version.
MAJOR = 50


def installed_version() -> str:
    """PackageNotFoundError without wasmtime."""
    return metadata.version("wasmtime")


def mismatch(sizes: Mapping[str, int]) -> str | None:
    """What keeps structs of these sizes from being handed to the library; None if they fit."""
    from wasmtime import _ffi

    version = installed_version()
    if version.split(".")[0] != str(MAJOR):
        return f"wasmtime {version} is installed, expected {MAJOR}.*"
    for name, size in sizes.items():
        theirs = ctypes.sizeof(getattr(_ffi, name))
        if theirs != size:
            return f"{name} has {theirs} bytes, expected {size}"
    return None
