"""The pods that recently came to nodes or left them, with times: earlier usage follows from it.

Every replica keeps it from its start, whether it leads or not. So a new leader knows which pods its predecessor placed
after the samples that it uses. Of pods that were there before the replica was, conditions show when they came;
those that had left by then are not known: until the next sample their nodes look fuller than they are.
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
    """The moves, as a watcher of the table."""

    def __init__(self, table: NodeTable, telemetry: Telemetry) -> None:
        self._table = table
        self._telemetry = telemetry
        self._moves: deque[Move] = deque(maxlen=MAX_MOVES)
        self._left: tuple[str, NodeInfo] | None = None  # who left last: uid and node
        for node in table:
            for pod in node.pods.values():
                self.pod_added(node.row, pod)
        table.pod_watchers.append(self)

    def pod_added(self, row: int, pod: PodInfo) -> None:
        node = self._table.at(row)
        # A pod that changes is taken off its node and put back at once: only what it asks for may be other than before.
        returns = self._left is not None and self._left[0] == pod.uid and self._left[1] is node
        at = self._telemetry.now() if returns else came_at(pod, self._telemetry)
        if at > -math.inf:
            self._moves.append(Move(at, node, self._table.request_of(pod), 1))

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        node = self._table.at(row)
        self._left = pod.uid, node
        self._moves.append(Move(self._telemetry.now(), node, self._table.request_of(pod), -1))

    def since(self, moment: float) -> list[Move]:
        """Return the moves since then on nodes that still exist, in the order of their times."""
        found = [move for move in self._moves if move.at >= moment and self._table.find(move.node.row) is move.node]
        return sorted(found, key=lambda move: move.at)
