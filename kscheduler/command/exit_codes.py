"""The exit codes of a program that failed, and the line that says why."""

from __future__ import annotations

import sys

from kscheduler.errors import ConfigError
from kscheduler.input.redaction import hide_urls

EXIT_RUNTIME = 1  # the program started, and failed
EXIT_USAGE = 2  # wrong flags or configuration; the program did not start


def report(error: Exception) -> int:
    """Print an error as one line on stderr and return its exit code: 2 for a ConfigError, else 1."""
    text = hide_urls(" ".join(str(error).split())) or type(error).__name__
    print(f"kscheduler: error: {text}", file=sys.stderr)
    return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_RUNTIME
