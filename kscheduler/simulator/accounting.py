"""Records the life of every pod and the use of every node in a simulation, from the changes of the cluster's objects.

It knows nothing of the scheduler but its names, because it only subscribes to the cluster's stores. At each binding of
one of its pods it checks that no node holds more than its capacity; a violation is recorded and makes the run fail.
Pods that others put on a node, as a record has them, may be too many there: the simulation may have used the room
otherwise. Amounts are integers, so sums are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import dataclass

import msgspec

from kscheduler._fast import UseOverTime
from kscheduler.api.objects import Node, Pod, PodExtendedResourceClaimStatus, PodSpec
from kscheduler.api.resources import PODS
from kscheduler.client.kinds import NODES
from kscheduler.client.kinds import PODS as POD_RESOURCE
from kscheduler.simulator.amounts import Amounts, node_amounts, pod_amounts
from kscheduler.simulator.cluster import FINISHED, Cluster
from kscheduler.simulator.timeline import Sample, Timeline

MAX_VIOLATIONS = 100  # kept in full; more are only counted
MAX_SPECS = 4096  # whose demands are known at once
# A binding may be under way for so long when its node goes, or becomes smaller.
UNDER_WAY_S = 30.0
# A new busiest moment must be this much busier than the last one.
BUSIER = 1.02


class Demand:
    """The amounts of pods with equal specs, which share it."""

    __slots__ = ("amounts", "parts")

    def __init__(self, amounts: Amounts) -> None:
        self.amounts = amounts
        self.parts: tuple[tuple[int, int], ...] = ()  # (resource index, amount); empty until one of them is placed


class PodRecord(msgspec.Struct, eq=False, gc=False):
    """Records when one pod was created, was bound and left, on which node, and what it requested.

    Times are virtual seconds.
    """

    uid: str
    priority: int
    demand: Demand
    created_s: float
    existing: bool  # created with a node, so no scheduler placed it
    last_seen: Pod  # if the pod left without a node: its last version, whose condition gives the reason
    bound_s: float | None = None
    left_s: float | None = None
    row: int = -1  # row of its node, -1 while it has none

    @property
    def key(self) -> str:
        return self.last_seen.key


@dataclass(slots=True)
class NodeRow:
    """Holds one node's capacity and use by resource index, of as many resources as the cluster has."""

    name: str
    capacity: list[int]
    use: UseOverTime
    pods: int = 0
    ever_used: bool = False
    gone: bool = False
    shrank_s: float = -math.inf  # when its capacity last became smaller


@dataclass(frozen=True, slots=True)
class Moment:
    """A snapshot of what is used on all nodes at one time."""

    at_s: float
    used: list[list[int]]  # node row -> resource index -> amount
    pods: list[int]  # node row -> pods


class Accounting:
    """Keeps the records of all pods and nodes of one cluster. Must be created before the cluster has any object.

    `schedulers`: the schedulerNames of the pods whose bindings are checked; None: of all pods.
    """

    def __init__(self, cluster: Cluster, schedulers: Container[str] | None) -> None:
        self._schedulers = schedulers
        self._now = cluster.clock.now
        self.timeline = Timeline()
        self.resources: list[str] = []  # index -> name
        self._index: dict[str, int] = {}
        self.rows: list[NodeRow] = []
        self._row_of: dict[str, int] = {}  # node name -> row
        self.records: dict[str, PodRecord] = {}  # pod uid -> its life, in order of creation
        self.use = UseOverTime(0, 0.0)  # in all
        self.capacity: list[int] = []  # in all, by resource index
        self.capacity_integral: list[float] = []
        self._capacity_since_s = 0.0  # up to when capacity_integral is counted: nodes change more rarely than pods
        self._demands: dict[int, tuple[PodSpec, Demand]] = {}  # id(spec) -> that spec, kept alive, and its demand
        self.peak: list[float] = []  # greatest used / capacity
        self._peak_is_due = False  # nodes have changed
        self._most_used: list[int] = []  # greatest total since the capacity last changed
        self.pending = 0
        self.peak_pending = 0
        self.running = 0
        self.bound = 0  # bindings so far, also of pods that have left
        self.left_behind = 0  # pods that were on nodes when these went
        self.violations: list[str] = []
        self.violation_count = 0
        self._busiest_s: float | None = None
        self._busiest_load = 0.0
        self.start_s: float | None = None  # time of the first arrival
        self.now_s = self._now()  # time of the last change; integrals are complete up to then
        cluster.store(NODES).subscribe(self._node_changed)
        cluster.store(POD_RESOURCE).subscribe(self._pod_changed)

    # --- nodes ----------------------------------------------------------------------------------------------------

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        self.advance()
        if after is None:
            assert before is not None
            row = self.rows[self._row_of[before.metadata.name]]
            self._set_capacity(row, {})
            self._set_gone(row, True)
            return
        name = after.metadata.name
        if name not in self._row_of:
            self._row_of[name] = len(self.rows)
            width = len(self.resources)
            self.rows.append(NodeRow(name, [0] * width, UseOverTime(width, self.now_s)))
        row = self.rows[self._row_of[name]]
        self._set_capacity(row, node_amounts(after))
        if row.gone:
            self._set_gone(row, False)

    def _set_gone(self, row: NodeRow, gone: bool) -> None:
        """Note that a node is gone, or has come again: what runs on one that is gone uses nothing of what there is."""
        row.gone = gone
        self.left_behind += row.pods if gone else 0
        self.use.change(tuple(enumerate(row.use.amounts)), -1 if gone else 1, self.now_s, self._most_used)

    def _set_capacity(self, row: NodeRow, amounts: Amounts) -> None:
        self._settle_capacity()
        for name, amount in amounts.items():
            if amount:
                self._resource(name)
        self._most_used = [0] * len(self.resources)
        for index, name in enumerate(self.resources):
            amount = amounts.get(name, 0)
            if amount < row.capacity[index]:
                row.shrank_s = self.now_s
            self.capacity[index] += amount - row.capacity[index]
            row.capacity[index] = amount
        self._peak_is_due = True

    def _resource(self, name: str) -> int:
        index = self._index.get(name)
        if index is None:
            index = self._index[name] = len(self.resources)
            self.resources.append(name)
            self.use.add_resource()
            for totals in (self.capacity, self._most_used):
                totals.append(0)
            for floats in (self.capacity_integral, self.peak):
                floats.append(0.0)
            for row in self.rows:
                row.capacity.append(0)
                row.use.add_resource()
        return index

    # --- pods -----------------------------------------------------------------------------------------------------

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        note: Callable[[Pod], None]
        if before is None:
            assert after is not None
            note, pod = self._created, after
        elif after is None or after.status.phase in FINISHED:
            if after is not None and before.status.phase in FINISHED and before.spec.node_name == after.spec.node_name:
                return
            note, pod = self._left, before
        elif before.spec.node_name != after.spec.node_name:
            note, pod = self._placed, after
        else:  # other updates need no accounting
            return
        # As `advance`, without its calls for each change.
        now, timeline = self._now(), self.timeline
        if now > self.now_s:
            if now - timeline.last_s >= timeline.interval_s and self.start_s is not None:
                self._sample(now)
            if self._peak_is_due:
                self._note_peaks()
            self.now_s = now
        note(pod)

    def _created(self, pod: Pod) -> None:
        uid, spec = pod.metadata.uid, pod.spec
        known = self._demands.get(id(spec))
        demand = self._demand(pod) if known is None else known[1]
        is_on_node = bool(spec.node_name)
        record = self.records[uid] = PodRecord(uid, spec.priority or 0, demand, self.now_s, is_on_node, pod)
        if self.start_s is None:
            self.start_s = self._capacity_since_s = self.now_s
        self.pending += 1
        if self.pending > self.peak_pending:
            self.peak_pending = self.pending
        if record.existing:
            self._placed(pod)

    def _demand(self, pod: Pod) -> Demand:
        """Return what the pod asks for, one object for all pods of a spec, which is not known yet."""
        if len(self._demands) >= MAX_SPECS:
            self._demands.clear()
        demand = Demand(pod_amounts(pod))
        self._demands[id(pod.spec)] = pod.spec, demand
        return demand

    def _placed(self, pod: Pod) -> None:
        record = self.records[pod.metadata.uid]
        if record.bound_s is not None:
            self._violated(f"pod {record.key} was bound to {pod.spec.node_name} when it had a node already")
            return
        record.bound_s = self.now_s
        record.last_seen = pod
        if pod.status.extended_resource_claim_status is not None:
            record.demand = _without_devices(record.demand, pod.status.extended_resource_claim_status)
        self.pending -= 1
        self.running += 1
        self.bound += not record.existing
        record.row = self._row_of.get(pod.spec.node_name, -1)
        if record.row < 0:
            self._report_missing(pod.spec.node_name, record)
            return
        row, demand, now_s = self.rows[record.row], record.demand, self.now_s
        parts = demand.parts or self._parts(demand)
        is_overfull = row.use.change(parts, 1, now_s, row.capacity)
        row.pods += 1
        row.ever_used = True
        is_judged = now_s - row.shrank_s > UNDER_WAY_S
        if row.gone:
            if is_judged:
                self._report_missing(row.name, record)
            return
        if is_overfull and is_judged and self._is_checked(record):
            self._report_overfull(row, record)
        if self.use.change(parts, 1, now_s, self._most_used):
            self._note_peak(parts)

    def _report_missing(self, node: str, record: PodRecord) -> None:
        if self._is_checked(record):
            self._violated(f"pod {record.key} was bound to {node}, which does not exist")

    def _is_checked(self, record: PodRecord) -> bool:
        """Return True if the pod's node was chosen by a scheduler whose decisions are checked."""
        schedulers = self._schedulers
        return not record.existing and (schedulers is None or record.last_seen.spec.scheduler_name in schedulers)

    def _left(self, pod: Pod) -> None:
        record = self.records[pod.metadata.uid]
        if record.left_s is not None:
            return
        record.left_s = self.now_s
        record.last_seen = pod
        if record.bound_s is None:
            self.pending -= 1
            return
        self.running -= 1
        if record.row >= 0:
            row, parts, now_s = self.rows[record.row], record.demand.parts, self.now_s
            row.use.change(parts, -1, now_s, row.capacity)
            if not row.gone:
                self.use.change(parts, -1, now_s, self._most_used)
            row.pods -= 1

    def _report_overfull(self, row: NodeRow, record: PodRecord) -> None:
        for index, _ in record.demand.parts:
            on_node, capacity = row.use.amounts[index], row.capacity[index]
            if on_node > capacity:
                held = f"holds {on_node} of {self.resources[index]}, has {capacity}"
                self._violated(f"node {row.name} {held}, after pod {record.key}")

    def _note_peaks(self) -> None:
        """Note the use of all resources since nodes changed, once it has lasted."""
        self._peak_is_due = False
        self._note_peak(tuple(enumerate(self.use.amounts)))

    def _note_peak(self, parts: tuple[tuple[int, int], ...]) -> None:
        for index, _ in parts:
            in_all, capacity = self.use.amounts[index], self.capacity[index]
            if in_all > self._most_used[index]:
                self._most_used[index] = in_all
                if capacity:
                    self.peak[index] = max(self.peak[index], in_all / capacity)

    def _parts(self, demand: Demand) -> tuple[tuple[int, int], ...]:
        demand.parts = tuple((self._resource(name), amount) for name, amount in demand.amounts.items())
        return demand.parts

    def _violated(self, what: str) -> None:
        self.violation_count += 1
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(f"at {self.now_s:g} s: {what}")

    # --- time -----------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Add what was in use and available, times the seconds since the last change, to the cluster's totals.

        Must be called before each change of use or capacity, and at an end without a change.
        """
        now = self._now()
        if now <= self.now_s:
            return
        if self.start_s is not None and self.timeline.is_due(now):
            self._sample(now)
        if self._peak_is_due:
            self._note_peaks()
        self.now_s = now

    def _sample(self, now: float) -> None:
        self.timeline.add(now, self._state())
        load = self._load()
        if load > self._busiest_load * BUSIER:
            self._busiest_load = load
            self._busiest_s = self.now_s

    def _state(self) -> Sample:
        return Sample(self.now_s, self.pending, self.running, tuple(self.use.amounts), tuple(self.capacity))

    def _load(self) -> float:
        """Return used / capacity, averaged over the resources that some node has, without the number of pods."""
        shares = [
            used / capacity
            for name, used, capacity in zip(self.resources, self.use.amounts, self.capacity, strict=True)
            if capacity and name != PODS
        ]
        return sum(shares) / len(shares) if shares else 0.0

    def _settle_capacity(self) -> None:
        """Bring `capacity_integral` up to now; call before any change of `capacity`."""
        passed = self.now_s - self._capacity_since_s
        if self.start_s is None or passed <= 0:
            return
        self._capacity_since_s = self.now_s
        areas = zip(self.capacity_integral, self.capacity, strict=True)
        self.capacity_integral = [area + amount * passed for area, amount in areas]

    def close(self) -> None:
        """Complete all totals over time, and the samples, up to the last change; call it once, at the end."""
        if self._peak_is_due:
            self._note_peaks()
        for row in self.rows:
            row.use.settle(self.now_s)
        self.use.settle(self.now_s)
        self._settle_capacity()
        self.timeline.close(self._state())
        if self._load() > self._busiest_load:
            self._busiest_s = self.now_s

    def moment(self) -> Moment:
        """Return the current state of all nodes."""
        return Moment(self.now_s, [list(row.use.amounts) for row in self.rows], [row.pods for row in self.rows])

    def busiest(self) -> Moment | None:
        """Return a snapshot of the nodes at their busiest time; None if no node was ever used.

        It is computed from the pods' records.
        """
        at_s = self._busiest_s
        if at_s is None:
            return None
        used = [[0] * len(self.resources) for _ in self.rows]
        pods = [0] * len(self.rows)
        for record in self.records.values():
            bound_s, left_s, row = record.bound_s, record.left_s, record.row
            if bound_s is not None and bound_s <= at_s and row >= 0 and (left_s is None or left_s > at_s):
                pods[row] += 1
                on_node = used[row]
                for index, amount in record.demand.parts:
                    on_node[index] += amount
        return Moment(at_s, used, pods)

    @property
    def duration_s(self) -> float:
        """Return the seconds from the first arrival to the last change."""
        return self.now_s - self.start_s if self.start_s is not None else 0.0


def _without_devices(demand: Demand, claimed: PodExtendedResourceClaimStatus) -> Demand:
    """Return what a pod takes of its node: not the extended resources that it gets as devices of a claim."""
    names = {each.resource_name for each in claimed.request_mappings or ()}
    return Demand({name: amount for name, amount in demand.amounts.items() if name not in names})
