"""The entry of the `kscheduler` command, which sets the signal handlers of the time before its code is imported.

The imports of `kscheduler run` take most of a second. A signal to stop ends the process at once during that time, with
the exit code of any other stop: nothing has begun that would have to be brought to an end. Without a handler SIGTERM
would be an exit code of -15, and in a container it would be lost, since the kernel drops signals that its first process
has no handler for; the kubelet would then wait for its whole grace period. `running.until_signal` and `replica.Replica`
handle the signals later, each for a while, and leave these handlers in place around theirs.

Nothing may be imported here at the top that itself imports the rest of kscheduler.
"""

import signal
import sys

from kscheduler.command.interruption import report_interruption
from kscheduler.command.stop_signals import SIGNALS, end_at_once


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
