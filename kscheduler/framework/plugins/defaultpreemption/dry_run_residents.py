"""The pods of each node in order of importance, with their requests: kept from one dry run to the next.

Most nodes have the pods they had before; those that changed are noticed when they are asked for, and only then.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from kscheduler._fast import Residents
from kscheduler.framework.demands import kind_of
from kscheduler.framework.plugins.defaultpreemption.importance import started_s
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

# Clusters have a few thousand kinds of pods; the bound guards against pods that each have labels of their own.
MAX_KINDS = 65_536


@dataclass(slots=True)
class NodePods:
    """As they were when they were looked at; not to be changed."""

    pods: list[PodInfo]  # the most important first
    kinds: list[int]  # of each; all 0 unless somebody asked for kinds
    residents: Residents  # the same for the kernels
    distinct_kinds: frozenset[int]
    # When this order ends: a pod that has not been started yet starts now, so it is to come after all that have been.
    sorted_after: float

    def first_below(self, priority: int) -> int:
        """The position of the first pod of a lower priority than this."""
        return bisect.bisect_right(self.pods, -priority, key=lambda pod: -pod.priority)


class Kinds:
    """Numbers for kinds of pods."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}  # kind -> its number
        self.examples: list[PodInfo] = []  # number -> a pod of this kind

    def __len__(self) -> int:
        return len(self.examples)

    def of(self, pod: PodInfo) -> int:
        kind = kind_of(pod)
        found = self._numbers.get(kind)
        if found is None:
            found = self._numbers[kind] = len(self.examples)
            self.examples.append(pod)
        return found


class KeptPods:
    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._kept: dict[int, NodePods] = {}  # row -> the pods that were last found there
        self._tells_kinds = False
        self.kinds = Kinds()

    def begin(self, *, tells_kinds: bool) -> None:
        """Before each search. Kinds cost time, so they are told apart from when somebody first asks for them."""
        is_late = tells_kinds and not self._tells_kinds
        if is_late or (len(self.kinds) > MAX_KINDS and len(self.kinds) > 2 * self._kinds_in_use()):
            self._kept.clear()
            self.kinds = Kinds()
        self._tells_kinds = self._tells_kinds or tells_kinds

    def _kinds_in_use(self) -> int:
        return len(frozenset().union(*(found.distinct_kinds for found in self._kept.values())))

    def of(self, node: NodeInfo, now: float) -> NodePods:
        found = self._kept.get(node.row)
        if found is None or not found.residents.are(node.pods) or found.sorted_after >= now:
            found = self._kept[node.row] = self.look(node.pods.values(), now)
        return found

    def look(self, members: Iterable[PodInfo], now: float) -> NodePods:
        # By importance, as everywhere in preemption; starts are worked out once.
        started = [(pod, started_s(pod, -math.inf)) for pod in members]
        order = sorted(started, key=lambda pair: (-pair[0].priority, now if pair[1] == -math.inf else pair[1]))
        pods = [pod for pod, _ in order]
        kinds = [self.kinds.of(pod) for pod in pods] if self._tells_kinds else [0] * len(pods)
        request_of = self._table.request_of
        residents = Residents(
            [pod for pod, _ in started],
            [(pod.priority, request_of(pod), kind) for pod, kind in zip(pods, kinds, strict=True)],
        )
        starts = [start for _, start in started]
        # Only beside a pod without a start does it matter how late the others started.
        sorted_after = max(starts) if -math.inf in starts else -math.inf
        return NodePods(pods, kinds, residents, frozenset(kinds), sorted_after)
