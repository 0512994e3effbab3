"""Free loopback ports, below the range the kernel takes for outgoing connections.

A server that is killed and started again must find its port free: an outgoing connection must not have taken it.
"""

from __future__ import annotations

import random
import socket

from tests.controlplane.harness.faults import HarnessError

FIRST, LAST = 20_000, 32_000  # Linux takes outgoing ports from 32768 on
TRIES = 200

_given: set[int] = set()  # ports handed out by this program
_random = random.SystemRandom()


def free_port() -> int:
    """A TCP port on 127.0.0.1 which nobody listens on and this program has not given out before."""
    for _ in range(TRIES):
        port = _random.randint(FIRST, LAST)
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise HarnessError(f"no free port on 127.0.0.1 between {FIRST} and {LAST} in {TRIES} tries")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
