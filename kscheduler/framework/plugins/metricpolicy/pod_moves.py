"""The pods that recently came to nodes or left them, with times, from which a node's earlier usage is computed.

Every replica records them from its start, whether it leads or not. So a new leader knows which pods its predecessor
placed after the samples that it uses. For pods that were there before the replica started, conditions show when they
came; pods that had left by then are unknown: until the next sample their nodes look fuller than they are.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from kscheduler._fast import PodRequest
from kscheduler.framework.pod_times import came_at
from kscheduler.framework.telemetry import Telemetry
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

MAX_MOVES = 65_536  # the newest; some 150 bytes each


class Move(NamedTuple):
    """A pod that came to a node (`sign` 1) or left it (-1)."""

    at: float  # seconds of the scheduler's clock
    node: NodeInfo
    request: PodRequest
    sign: int


class PodMoves:
    """Records pods that come to nodes and leave them, as a watcher of the node table."""

    def __init__(self, table: NodeTable, telemetry: Telemetry) -> None:
        self._table = table
        self._telemetry = telemetry
        self._moves: deque[Move] = deque(maxlen=MAX_MOVES)
        self._left: tuple[str, NodeInfo] | None = None  # uid and node of the pod that left last
        for node in table:
            for pod in node.pods.values():
                self.pod_added(node.row, pod)
        table.pod_watchers.append(self)

    def pod_added(self, row: int, pod: PodInfo) -> None:
        node = self._table.at(row)
        # A pod that changes is removed from its node and added back at once: only its request may have changed.
        returns = self._left is not None and self._left[0] == pod.uid and self._left[1] is node
        at = self._telemetry.now() if returns else came_at(pod, self._telemetry)
        if at > -math.inf:
            self._moves.append(Move(at, node, self._table.request_of(pod), 1))

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        node = self._table.at(row)
        self._left = pod.uid, node
        self._moves.append(Move(self._telemetry.now(), node, self._table.request_of(pod), -1))

    def since(self, moment: float) -> list[Move]:
        """Return the pods that came or left from that moment on, on nodes that still exist, in order of time."""
        found = [move for move in self._moves if move.at >= moment and self._table.find(move.node.row) is move.node]
        return sorted(found, key=lambda move: move.at)
