"""The numbers that kernels and their callers must agree on; codes.pxd declares them for the compiler."""

from __future__ import annotations

from typing import Final

# Resource columns that every table has; all others are scalar resources (extended, hugepages, attachable volumes).
CPU: Final = 0  # milli-cores
MEMORY: Final = 1  # bytes
EPHEMERAL_STORAGE: Final = 2  # bytes

# What Verdicts.code says of a row. 1..MAX_CODE belong to the caller: usually the position of a filter plugin.
FEASIBLE: Final = 0
MAX_CODE: Final = 200
NOBODY: Final = 252  # clear_nodes: no pod on the node is of lower priority
NOT_EXAMINED: Final = 254  # left out by limit_feasible
NO_NODE: Final = 255  # a dead row

# Bits of the detail that filter_fit gives; `entry_bit` has those that stand for the entries of the request.
TOO_MANY_PODS: Final = 1
UNRESOLVABLE: Final = 1 << 62  # at least one amount is more than the node has when empty

# Amounts up to 2^62: the sum of two of them, and a remainder below twice one, still fit into a signed 64-bit integer.
MAX_AMOUNT: Final = 1 << 62
MAX_ENTRIES: Final = 1024  # resources one pod asks for; each new name is a column of every node
ENTRY_BITS: Final = 60  # 1..60; the last one is shared by the 60th entry and all later ones
MAX_SCORED_RESOURCES: Final = 64
MAX_WEIGHT: Final = (1 << 31) - 1
MAX_CLASS_WEIGHT: Final = 21_474_836  # all weights of a pod class: a hundred times that is an int32
MAX_TEXT: Final = 8_000  # bytes of a pod's texts together
# Raw scores up to 2^53: a hundred times that still fits, and a double holds it exactly.
MAX_RAW: Final = 1 << 53

# Pod classes that score all rows in one pass: more gain little, and take long at once.
CLASSES_TOGETHER: Final = 8

PENALTY: Final = 1_000  # a queue that may use nothing of a resource counts as using so many times what it uses

# Why CallQueue.run ended.
STOPPED: Final = 0
NOTHING_LEFT: Final = 1
TIME_STANDS_STILL: Final = 2
MANY_TIMERS: Final = 1_024  # with more, cancelled ones are removed from a CallQueue


def entry_bit(position: int) -> int:
    """Return the bit of a reason number (detail) that stands for too little of one resource that the pod requests.

    `position` is that resource's place in the request, from 0.
    """
    return 1 << min(1 + position, ENTRY_BITS)
