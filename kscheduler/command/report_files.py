"""Writes reports to the files that flags name; whether that is possible is checked before minutes of work."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import msgspec

from kscheduler.command.standard_streams import STDOUT, stream_at, write_to_stream
from kscheduler.errors import ConfigError


def check_writable(*paths: str | None) -> None:
    """Raise ConfigError if a report cannot be written to one of these paths; None: no report is asked for."""
    for path in paths:
        if path is not None and path != STDOUT:
            _check_writable(path)


def _check_writable(path: str) -> None:
    if not path:  # as of a variable of the shell that is not set; it would be taken for the current directory
        raise ConfigError("expected a file to write, got an empty name")
    target = Path(path)
    try:
        is_there = _is_there(target)
        if target.is_dir():
            raise ConfigError(f"{path}: expected a file to write, this is a directory")
        if not target.parent.is_dir():
            raise ConfigError(f"{path}: cannot be written: expected a directory {target.parent}, there is none")
        if not os.access(target if is_there else target.parent, os.W_OK):
            raise ConfigError(f"{path}: cannot be written: no permission")
    except OSError as error:  # such as a name that is too long
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error


def _is_there(path: Path) -> bool:
    """Say whether there is such a file. Raises OSError for a name that no file can have.

    `Path.exists` does not, from CPython 3.14 on.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def save(path: str, content: bytes) -> None:
    """Write a report, and name the file on stderr. Raises ConfigError if that fails, and leaves no half of it.

    What goes to standard output, or to where that goes, is written after what is there.
    """
    stream = sys.stdout if path == STDOUT else stream_at(path)
    if stream is not None:
        write_to_stream(stream, content)
        return
    write(path, content)
    print(f"wrote {path} ({len(content) / 1024:,.0f} KiB)", file=sys.stderr)


def write(path: str | Path, content: bytes) -> None:
    """Write a file. Raises ConfigError if that fails, and leaves no half of it."""
    target = Path(path)
    try:
        target.write_bytes(content)
    except OSError as error:
        with contextlib.suppress(OSError):
            if target.is_file() and not target.is_symlink():
                target.unlink()
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error


def indented_json(report: object) -> str:
    """Return a report as JSON that people can read too, with a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
