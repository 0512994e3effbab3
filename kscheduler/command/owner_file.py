"""Writes files with secrets, which only their owner can read at any moment."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile

from kscheduler.command.standard_streams import stream_at, write_to_stream

OWNER_ONLY = 0o600


def write_for_owner(path: str, text: str) -> None:
    """Write a file of mode 0600. Raises OSError, and then leaves an existing file as it was.

    An existing regular file is replaced by a new one, so that processes that have it open keep reading the old one.
    Anything else (a link such as /dev/stdout, a pipe) is written to; a regular file behind a link gets mode 0600
    before the first byte. What standard output or standard error has written there stays.
    """
    try:
        is_replaced = stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        is_replaced = True
    if is_replaced:
        _replace(path, text)
    else:
        _fill(path, text)


def _replace(path: str, text: str) -> None:
    directory, name = os.path.split(os.path.abspath(path))
    descriptor, aside = tempfile.mkstemp(prefix=f".{name}.", dir=directory)  # of mode 0600 from its creation
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, OWNER_ONLY)  # a stricter umask may have left less
            file.write(text)
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise


def _fill(path: str, text: str) -> None:
    stream = stream_at(path)
    if stream is not None:
        _keep_for_owner(stream.fileno())
        write_to_stream(stream, text.encode())
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, OWNER_ONLY)
    with open(descriptor, "w", encoding="utf-8") as file:
        if _keep_for_owner(descriptor):
            os.ftruncate(descriptor, 0)
        file.write(text)


def _keep_for_owner(descriptor: int) -> bool:
    """Give an open file mode 0600, and return True, if it is a regular one."""
    is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
    if is_regular:
        os.fchmod(descriptor, OWNER_ONLY)
    return is_regular
