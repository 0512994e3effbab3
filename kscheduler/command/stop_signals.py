"""The signals that stop `kscheduler run`, and how they end the process at once.

The first one does so only before there is anything to bring to an end (see start.py). After it, a second one ends the
process with exit code 1, as it ends kube-scheduler, whatever the process is still waiting for.
"""

import contextlib
import os
import select
import signal

SIGNALS = (signal.SIGTERM, signal.SIGINT)
EXIT_STOPPED = 0  # as `run` returns it when a signal to stop has ended it in order
EXIT_HURRIED = 1  # as `run` returns it when a second signal has ended it


def end_at_once(number: int, frame: object) -> None:
    """End the process. An exception would not do: it could be raised within an import that takes it for its own."""
    os._exit(EXIT_STOPPED)


def end_at_next_signal() -> None:
    """Let the next signal to stop end the process at once: it is the second one."""
    for number in SIGNALS:
        signal.signal(number, end_hurried)


def end_hurried(number: int, frame: object) -> None:
    """End the process, and say so on stderr if that can be written to without waiting for who reads it."""
    ready = select.poll()
    ready.register(2, select.POLLOUT)
    with contextlib.suppress(OSError):
        if ready.poll(0):
            os.write(2, b"kscheduler: error: stopped at once by a second signal\n")
    os._exit(EXIT_HURRIED)
