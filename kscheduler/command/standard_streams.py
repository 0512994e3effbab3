"""Tells which names of files to write mean standard output or standard error.

Where the shell has redirected a stream to a file, opening that file again by another name, such as /dev/stdout, would
truncate what was written to it before, and what the stream writes next would overwrite the report.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

STDOUT = "-"  # in place of the name of a file


def stream_at(path: str) -> TextIO | None:
    """Return the stream that writes to the file of this name already; None if neither does.

    It is standard output for /dev/stdout, and for the name of the file to which the shell sends it.
    """
    try:
        named = os.stat(path)
    except OSError:  # there is no such file yet
        return None
    return next((each for each in (sys.stdout, sys.stderr) if each is not None and _writes_to(each, named)), None)


def _writes_to(stream: TextIO, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), file)
    except (OSError, ValueError):  # closed, or no file at all
        return False


def write_to_stream(stream: TextIO, content: bytes) -> None:
    """Write after all that was written to the stream before."""
    stream.flush()
    stream.buffer.write(content)
    stream.flush()
