"""Reads guests from files: completely, up to a size limit, and only from regular files."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from kscheduler.wasm.loading.source import SourceError


@dataclass(frozen=True, slots=True)
class FileState:
    """The properties of a file that reveal a change without reading it."""

    modified_ns: int
    size_bytes: int
    inode: int
    device: int


def read_file(path: str, max_bytes: int) -> tuple[bytes, FileState]:
    """Return the contents and the file's state. Raises SourceError, also if the file changed while it was read."""
    try:
        # O_NONBLOCK, since opening a pipe would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _failed("open", path, error) from error
    except ValueError as error:
        raise SourceError(f"open {path!r}: {error}") from error
    before = os.fstat(descriptor)
    if not stat.S_ISREG(before.st_mode):
        os.close(descriptor)
        raise SourceError(f"open {path}: expected a regular file, got {_kind(before.st_mode)}")
    with os.fdopen(descriptor, "rb") as file:
        if before.st_size > max_bytes:
            raise SourceError(f"read {path}: expected at most {max_bytes} bytes, got {before.st_size}")
        try:
            data = file.read(max_bytes + 1)
        except OSError as error:
            raise _failed("read", path, error) from error
        after = state_of(os.fstat(file.fileno()))
    if len(data) > max_bytes:
        raise SourceError(f"read {path}: expected at most {max_bytes} bytes, got more")
    if after != state_of(before) or len(data) != after.size_bytes:
        raise SourceError(f"read {path}: the file was written to while it was read")
    return data, after


def file_state(path: str) -> FileState:
    """Return the state of the file at this path. Raises SourceError."""
    try:
        return state_of(os.stat(path))
    except (OSError, ValueError) as error:
        raise _failed("stat", path, error) from error


def state_of(found: os.stat_result) -> FileState:
    return FileState(found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev)


def _failed(verb: str, path: str, error: OSError | ValueError) -> SourceError:
    """Create a SourceError worded as in Go: `open /x.wasm: no such file or directory`."""
    reason = getattr(error, "strerror", None) or str(error)
    return SourceError(f"{verb} {path}: {reason[:1].lower()}{reason[1:]}")


def _kind(mode: int) -> str:
    for is_kind, what in (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    ):
        if is_kind(mode):
            return what
    return "something else"
