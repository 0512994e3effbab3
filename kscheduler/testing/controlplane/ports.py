"""Finds free loopback ports, below the range that the kernel uses for outgoing connections.

A server that is killed and restarted must find its port free: neither an outgoing connection nor another run of the
tests may have taken it. So each process reserves a block of ports by binding a socket's name in Linux' abstract
namespace: the kernel gives a name to only one process, and frees it when that process ends in any way.
"""

from __future__ import annotations

import random
import socket

from kscheduler.testing.controlplane.faults import HarnessError

FIRST, LAST = 20_000, 32_000  # Linux uses ports from 32768 on for outgoing connections
BLOCK = 100  # ports per block; each block takes one open file

_reserved: list[int] = []  # ports in this process's blocks that were not returned yet
_random = random.SystemRandom()


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listens on, and that was returned to no other running process."""
    while True:
        if not _reserved:
            _reserved.extend(_reserve_block())
        port = _reserved.pop()
        if _is_free(port):
            return port


def _reserve_block() -> list[int]:
    """Reserve a block of ports until this process ends; return them in random order.

    Raises HarnessError if none is left.
    """
    blocks = list(range(FIRST, LAST, BLOCK))
    _random.shuffle(blocks)
    for first in blocks:
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0kscheduler-test-ports-{first}")
        except OSError:
            name.close()
            continue
        name.detach()  # stays open until the process ends, without a warning about an unclosed socket
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
