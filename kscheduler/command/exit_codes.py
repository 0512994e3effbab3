"""The exit codes of a program that failed, and the line that says why."""

from __future__ import annotations

import contextlib
import sys

from kscheduler.errors import ConfigError
from kscheduler.input.printable import printable
from kscheduler.input.redaction import hide_urls
from kscheduler.observability.pipe_writer import pipe_writer

EXIT_RUNTIME = 1  # the program started, and failed
EXIT_USAGE = 2  # wrong flags or configuration; the program did not start
MOST = 8_000  # characters of an error that are printed: many times what a person reads of one line


def report(error: Exception, *, longest_wait_s: float | None = None) -> int:
    """Print an error as one line on stderr and return its exit code: 2 for a ConfigError, else 1.

    Its text may come from outside, as what a guest printed before it failed. `longest_wait_s`: how long the reader of a
    pipe is waited for before the line is dropped; None: for ever.
    """
    text = printable(hide_urls(" ".join(str(error).split()))) or type(error).__name__
    if len(text) > MOST:
        text = f"{text[:MOST]}... ({len(text):,} characters)"
    line = f"kscheduler: error: {text}"
    pipe = None if longest_wait_s is None else pipe_writer(sys.stderr, longest_wait_s)
    if pipe is None:
        print(line, file=sys.stderr)
    else:
        with contextlib.suppress(OSError):  # nobody reads it any more
            pipe.write(f"{line}\n".encode(errors="backslashreplace"))
    return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_RUNTIME
