"""Reads whole files that users name, without hanging on a pipe that nobody writes to or on an endless device.

Files that are read while the scheduler runs (certificates, tokens) must be regular files, because nothing may wait
then. Those read once at start may be pipes (`--config <(envsubst < template)`), for which it waits a limited time.
"""

from __future__ import annotations

import errno
import io
import os
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

PIPE_PATIENCE_S = 10.0  # without a byte: a program that makes a configuration has begun to write it by then
MAX_PIPED_BYTES = 1 << 28  # where there is no other limit: a device never ends

FilesState = tuple[tuple[int, ...], ...]


def read_file(path: str | os.PathLike[str], max_bytes: int | None = None) -> bytes:
    """Return the contents of a regular file, at most `max_bytes`. Raises OSError with a `strerror` for users."""
    with _opened(path) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _not_regular(path, os.fstat(descriptor).st_mode)
        return _read(descriptor, max_bytes)


def read_input(path: str | os.PathLike[str], max_bytes: int | None = None) -> bytes:
    """Return the contents of a file, pipe or device, at most `max_bytes`.

    Raises OSError, and TimeoutError after ten seconds in which no data arrives.
    """
    with _opened(path) as descriptor:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return _read(descriptor, max_bytes)
        if stat.S_ISDIR(mode):
            raise _not_regular(path, mode)
        return _read_piped(descriptor, MAX_PIPED_BYTES if max_bytes is None else max_bytes)


def open_input(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file, to be read piece by piece; what is in a pipe or device is read first, as `read_input` does.

    Raises OSError, and TimeoutError after ten seconds in which no data arrives from a pipe.
    """
    with _opened(path) as descriptor:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.fdopen(os.dup(descriptor), "rb")
    return io.BytesIO(read_input(path))


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise OSError unless this is a regular file. For libraries that open the file themselves and might hang."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise _not_regular(path, mode)


def files_state(*paths: str) -> FilesState:
    """Return a value that changes when one of the files is written, replaced, created or removed.

    Links are followed, as those by which a mounted Secret is replaced.
    """
    return tuple(_file_state(path) for path in paths)


def _file_state(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ino, found.st_size


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[int]:
    """Open a file without ever waiting for it. A path that contains a NUL counts as missing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError as error:
        raise FileNotFoundError(errno.ENOENT, str(error)) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read(descriptor: int, max_bytes: int | None) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read(-1 if max_bytes is None else max_bytes)


def _read_piped(descriptor: int, max_bytes: int) -> bytes:
    parts = bytearray()
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    while len(parts) < max_bytes:
        if not waiting.poll(PIPE_PATIENCE_S * 1000):
            raise TimeoutError(errno.ETIMEDOUT, f"nobody has written into this pipe for {PIPE_PATIENCE_S:g} s")
        try:
            part = os.read(descriptor, min(1 << 16, max_bytes - len(parts)))
        except BlockingIOError:
            continue
        if not part:
            break
        parts += part
    return bytes(parts)


def _not_regular(path: str | os.PathLike[str], mode: int) -> OSError:
    if stat.S_ISDIR(mode):
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a device or a socket"
    return OSError(errno.EINVAL, f"expected a regular file, got {kind}", os.fspath(path))
