"""Finds the nodes that lack least of what a pod requests."""

from __future__ import annotations

import heapq
from array import array
from typing import Any

from kscheduler.serving.live.readings import FreeAmounts

NEAREST = 8


def nearest_nodes(free: FreeAmounts) -> list[dict[str, Any]]:
    """Return the nodes with the smallest sum of lacking shares: [{node, lacks: {resource: amount}}], the best first.

    Other filters are not considered: a node that lacks nothing was rejected by one of these.
    """
    columns = []
    for name, amount in free.asked.items():
        requested, allocatable = array("q", free.requested[name]), array("q", free.allocatable[name])
        columns.append((name, amount, requested, allocatable))
    found = []
    for row, node in enumerate(free.names):
        if not node:
            continue
        share = 0.0
        for _, amount, requested, allocatable in columns:
            missing = amount - allocatable[row] + requested[row]
            if missing > 0:
                share += missing / amount
        found.append((share, row))
    return [
        {
            "node": free.names[row],
            "lacks": {
                name: amount - allocatable[row] + requested[row]
                for name, amount, requested, allocatable in columns
                if amount > allocatable[row] - requested[row]
            },
        }
        for _, row in heapq.nsmallest(NEAREST, found)
    ]
