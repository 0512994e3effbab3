"""Writes files with secrets, which only their owner can read at any moment."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile

OWNER_ONLY = 0o600


def write_for_owner(path: str, text: str) -> None:
    """Write a file of mode 0600. Raises OSError, and then leaves an existing file as it was.

    An existing regular file is replaced by a new one, so that processes that have it open keep reading the old one.
    Anything else (a link such as /dev/stdout, a pipe) is written to; a regular file behind a link gets mode 0600
    before the first byte.
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
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, OWNER_ONLY)
    with open(descriptor, "w", encoding="utf-8") as file:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, OWNER_ONLY)
            os.ftruncate(descriptor, 0)
        file.write(text)
