"""The exit codes of a program that failed, and the line that says why."""

from __future__ import annotations

import re
import sys

from kscheduler.errors import ConfigError
from kscheduler.input.redaction import hide_urls

EXIT_RUNTIME = 1  # the program started, and failed
EXIT_USAGE = 2  # wrong flags or configuration; the program did not start

MOST = 8_000  # characters of an error that are printed: many times what a person reads of one line
# Characters that a terminal obeys, or that turn or hide text; errors quote files and arguments, which may have any.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def report(error: Exception) -> int:
    """Print an error as one line on stderr and return its exit code: 2 for a ConfigError, else 1."""
    text = hide_urls(" ".join(str(error).split())) or type(error).__name__
    text = _UNPRINTABLE.sub(_escaped, text)
    if len(text) > MOST:
        text = f"{text[:MOST]}... ({len(text):,} characters)"
    print(f"kscheduler: error: {text}", file=sys.stderr)
    return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_RUNTIME


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode()
