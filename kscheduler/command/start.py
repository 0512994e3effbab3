"""The entry of the `kscheduler` command: how signals end the process before its code is there to handle them.

The imports of `kscheduler run` take most of a second. A signal to stop ends the process at once during that time, with
the exit code of any other stop: nothing has begun that would have to be brought to an end. Without a handler SIGTERM
would be an exit code of -15, and in a container it would be lost, since the kernel drops signals that its first process
has no handler for; the kubelet would then wait for its whole grace period. `running.until_signal` and `replica.Replica`
handle the signals later, each for a while, and leave these handlers in place around theirs.

After a first signal to stop, a second one ends the process at once with exit code 1, as it ends kube-scheduler,
whatever the process is still waiting for.

Nothing may be imported here at the top that itself imports the rest of kscheduler.
"""

import contextlib
import os
import signal
import sys

from kscheduler.command.interruption import report_interruption

SIGNALS = (signal.SIGTERM, signal.SIGINT)
EXIT_STOPPED = 0  # as `run` returns it when a signal to stop has ended it in order
EXIT_HURRIED = 1  # as `run` returns it when a second signal has ended it


def main() -> int:
    """Run the `kscheduler` command with the process's arguments, and return its exit code."""
    if sys.argv[1:2] == ["run"]:
        for number in SIGNALS:
            signal.signal(number, end_at_once)
    try:
        from kscheduler.command.cli import main as run_command
    except KeyboardInterrupt:
        return report_interruption()
    return run_command()


def end_at_once(number: int, frame: object) -> None:
    """End the process. An exception would not do: it could be raised within an import that takes it for its own."""
    os._exit(EXIT_STOPPED)


def end_at_next_signal() -> None:
    """Let the next signal to stop end the process at once: it is the second one."""
    for number in SIGNALS:
        signal.signal(number, end_hurried)


def end_hurried(number: int, frame: object) -> None:
    """End the process, and say so on stderr if that can be written to."""
    with contextlib.suppress(OSError):
        os.write(2, b"kscheduler: error: stopped at once by a second signal\n")
    os._exit(EXIT_HURRIED)
