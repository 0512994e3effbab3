"""Checks that the compiled extension module matches the installed wasmtime: the version, and sizes of structs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from importlib import metadata

# calls.pyx was written against the C API of this version.
MAJOR = 50


def installed_version() -> str:
    """Return wasmtime's version. Raises PackageNotFoundError if it is not installed."""
    return metadata.version("wasmtime")


def mismatch(sizes: Mapping[str, int]) -> str | None:
    """Return why structs of these sizes cannot be passed to the library; None if they can."""
    from wasmtime import _ffi

    version = installed_version()
    if version.split(".")[0] != str(MAJOR):
        return f"wasmtime {version} is installed, expected {MAJOR}.*"
    for name, size in sizes.items():
        theirs = ctypes.sizeof(getattr(_ffi, name))
        if theirs != size:
            return f"{name} has {theirs} bytes, expected {size}"
    return None
