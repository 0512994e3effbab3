"""The exit codes of a program that failed, and the line that says why."""

from __future__ import annotations

import sys

from kscheduler.errors import ConfigError
from kscheduler.input.printable import printable
from kscheduler.input.redaction import hide_urls

EXIT_RUNTIME = 1  # the program started, and failed
EXIT_USAGE = 2  # wrong flags or configuration; the program did not start
MOST = 8_000  # characters of an error that are printed: many times what a person reads of one line


def report(error: Exception) -> int:
    """Print an error as one line on stderr and return its exit code: 2 for a ConfigError, else 1.

    Its text may come from outside, as what a guest printed before it failed.
    """
    text = printable(hide_urls(" ".join(str(error).split()))) or type(error).__name__
    if len(text) > MOST:
        text = f"{text[:MOST]}... ({len(text):,} characters)"
    print(f"kscheduler: error: {text}", file=sys.stderr)
    return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_RUNTIME
