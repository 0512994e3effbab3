"""Free loopback ports, below the range the kernel takes for outgoing connections.

A server that is killed and started again must find its port free: neither an outgoing connection nor another run of
the tests may have taken it. So each process reserves a block of ports at a time, by the name of a socket in Linux'
abstract namespace: the kernel gives a name to one process only, and takes it back when that ends, however it ends.
"""

from __future__ import annotations

import random
import socket

from kscheduler.testing.controlplane.faults import HarnessError

FIRST, LAST = 20_000, 32_000  # Linux takes outgoing ports from 32768 on
BLOCK = 100  # ports; one open file each

_reserved: list[int] = []  # ports of this process's blocks which it has not given out yet
_random = random.SystemRandom()


def free_port() -> int:
    """A TCP port on 127.0.0.1 on which nobody listens and which no running process that asked here was given."""
    while True:
        if not _reserved:
            _reserved.extend(_reserve_block())
        port = _reserved.pop()
        if _is_free(port):
            return port


def _reserve_block() -> list[int]:
    """Reserve ports until this process ends, in no certain order."""
    blocks = list(range(FIRST, LAST, BLOCK))
    _random.shuffle(blocks)
    for first in blocks:
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0kscheduler-test-ports-{first}")
        except OSError:
            name.close()
            continue
        name.detach()  # it stays open, and no warning says so at the end
        ports = list(range(first, first + BLOCK))
        _random.shuffle(ports)
        return ports
    raise HarnessError(f"all ports between {FIRST} and {LAST} are reserved by running tests")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
