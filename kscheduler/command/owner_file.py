"""A file with secrets in it: at no moment may anybody but its owner read it."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile

OWNER_ONLY = 0o600


def write_for_owner(path: str, text: str) -> None:
    """Write a file of mode 0600. Raises OSError, and leaves what was there then.

    A file of that name is replaced by a new one rather than filled: who has it open goes on reading the old one. What
    is no plain file (a link such as /dev/stdout, a pipe) is written to; a plain file behind a link is made the
    owner's alone before the first byte.
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
