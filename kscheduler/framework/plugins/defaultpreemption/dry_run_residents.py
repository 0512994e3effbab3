"""The pods of each node in order of importance, with their requests, kept from one preemption's dry runs to the next.

Most nodes still have the pods they had. Whether a node's pods have changed is checked only when they are asked for.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from kscheduler._fast import PodRequest, Residents
from kscheduler.api.resources import PodResources
from kscheduler.framework.demands import kind_of
from kscheduler.framework.interface import Handle
from kscheduler.framework.preemption.importance import started_s
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

# A kind of pod (see `kind_of`) that has no pod any more is forgotten when there are more kinds than this, and twice as
# many as in use.
MAX_KINDS = 65_536
MAX_REQUESTS = 16_384


@dataclass(slots=True)
class NodePods:
    """The pods of one node at one moment, which callers must not change."""

    pods: list[PodInfo]  # the most important first
    kinds: list[int]  # number of each pod's kind (see `Kinds`); all 0 if no search has needed kinds
    residents: Residents  # these pods in the form that kernels read
    distinct_kinds: frozenset[int]
    # The order of `pods` is right at all times after this one. A pod that has not been started counts as started now,
    # and so comes after all that have been; unless one of them states a start in the future.
    holds_after: float

    def first_below(self, priority: int) -> int:
        """Return the index of the first pod whose priority is lower than this one."""
        return bisect.bisect_right(self.pods, -priority, key=lambda pod: -pod.priority)


class Kinds:
    """Numbers the kinds of pods: the pods of one kind are equal in all by which filters count them (see `kind_of`)."""

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
        self._requests: dict[int, tuple[PodResources, PodRequest]] = {}  # id of a pod's resources -> these, compiled
        self._needs_kinds = False
        self._most_kinds = MAX_KINDS
        self.kinds = Kinds()

    def begin(self, *, needs_kinds: bool) -> None:
        """Prepare for one preemptor's search for victims; called before each search.

        `needs_kinds`: the search has to know which pods filters count equally. From the first such search on that is
        determined for all pods.
        """
        is_late = needs_kinds and not self._needs_kinds
        if len(self.kinds) > self._most_kinds:
            in_use = len(frozenset().union(*(found.distinct_kinds for found in self._kept.values())))
            self._most_kinds = max(MAX_KINDS, 2 * in_use)
        if is_late or len(self.kinds) > self._most_kinds:
            self._kept.clear()
            self.kinds = Kinds()
        self._needs_kinds = self._needs_kinds or needs_kinds

    def of_each(self, nodes: Sequence[NodeInfo], now: float) -> list[NodePods]:
        """Return the pods of each of these nodes, reading only those again that have changed."""
        kept = [self._kept.get(node.row) for node in nodes]
        return [
            found
            if found is not None and found.holds_after < now and found.residents.are(node.pods)
            else self._read_again(node, now)
            for node, found in zip(nodes, kept, strict=True)
        ]

    def _read_again(self, node: NodeInfo, now: float) -> NodePods:
        found = self._kept[node.row] = self.read(node.pods.values(), now)
        return found

    def _request_of(self, pod: PodInfo) -> PodRequest:
        """Return the pod's request in the form for kernels.

        Pods that share one `resources` object share one request.
        """
        resources = pod.resources
        found = self._requests.get(id(resources))
        if found is None or found[0] is not resources:
            if len(self._requests) >= MAX_REQUESTS:
                self._requests.clear()
            found = self._requests[id(resources)] = resources, self._table.request_of(pod)
        return found[1]

    def read(self, members: Iterable[PodInfo], now: float) -> NodePods:
        # By importance, as everywhere in preemption; starts are worked out once.
        started = [(pod, started_s(pod, -math.inf)) for pod in members]
        order = sorted(started, key=lambda pair: (-pair[0].priority, now if pair[1] == -math.inf else pair[1]))
        pods = [pod for pod, _ in order]
        kinds = [self.kinds.of(pod) for pod in pods] if self._needs_kinds else [0] * len(pods)
        request_of = self._request_of
        residents = Residents(
            [pod for pod, _ in started],
            [(pod.priority, request_of(pod), kind) for pod, kind in zip(pods, kinds, strict=True)],
        )
        return NodePods(pods, kinds, residents, frozenset(kinds), _holds_after([start for _, start in started], now))


class KeptNominated:
    """The nominated pods to which a preemptor must leave room, by node, kept from one dry run to the next."""

    def __init__(self, handle: Handle, kept: KeptPods) -> None:
        self._nominations = handle.nominations
        self._kept = kept
        self._kinds: Kinds = kept.kinds  # of the pods below
        self._nominated: dict[str, tuple[list[PodInfo], NodePods]] = {}  # node name -> the pods, and as they were found
        handle.nominations.watch(self._forget)

    def _forget(self, node_name: str) -> None:
        self._nominated.pop(node_name, None)

    def begin(self) -> None:
        """Prepare for one preemptor's search for victims; called before each search, after `KeptPods.begin`."""
        if self._kinds is not self._kept.kinds:
            self._nominated.clear()
            self._kinds = self._kept.kinds

    def on(self, node: NodeInfo, preemptor: PodInfo, now: float) -> NodePods | None:
        """Return the nominated pods on a node to which the preemptor must leave room; None if there are none."""
        name, priority, uid = node.name, preemptor.priority, preemptor.uid
        pods = [other for other in self._nominations.on(name) if other.priority >= priority and other.uid != uid]
        if not pods:
            return None
        known = self._nominated.get(name)
        if known is None or known[0] != pods:
            # Their order does not matter, so it never becomes out of date.
            known = self._nominated[name] = pods, self._kept.read(pods, now)
        return known[1]


def _holds_after(starts: list[float], now: float) -> float:
    """Return the time after which pods with these start times keep the order that they have now.

    -inf stands for a pod that has not been started, which counts as started at the current time.
    """
    if -math.inf not in starts:
        return -math.inf
    latest = max(starts)
    return latest if latest < now else math.inf
