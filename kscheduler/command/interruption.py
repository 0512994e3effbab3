"""What a command prints and returns that Ctrl-C has ended.

It imports nothing of kscheduler: `start` needs it while the command itself is still being imported.
"""

import sys

EXIT_INTERRUPTED = 130  # as a shell reports a program that SIGINT ended: 128 + 2


def report_interruption(consequence: str = "") -> int:
    """Print on stderr that the command was interrupted, and what follows from it; return the exit code."""
    print("kscheduler: interrupted" + (f"; {consequence}" if consequence else ""), file=sys.stderr)
    return EXIT_INTERRUPTED
