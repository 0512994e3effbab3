"""NodePorts: two pods on one node cannot use one host port of one IP address."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from kscheduler._fast import Verdicts
from kscheduler.api.objects import Pod
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import Demands, Tally
from kscheduler.framework.events import ASSIGNED_POD_DELETE, Action, ClusterEvent, EventResource, Grouping, Registration
from kscheduler.framework.interface import Handle, PreFilterResult
from kscheduler.framework.status import SKIP, Status, unschedulable
from kscheduler.snapshot.host_ports import clashes
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import HostPort, PodInfo, host_ports

NAME = "NodePorts"
REASON = "node(s) didn't have free ports for the requested pod ports"

_CLASH = 1  # detail of a verdict


class NodePorts:
    name = NAME
    signs_metadata = False

    def __init__(self, handle: Handle) -> None:
        self._table = handle.table
        self._taken = handle.table.ports

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        return None, None if pod.host_ports else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        taken = [port for other in node.pods.values() for port in other.host_ports]
        clash = any(clashes(port, other) for port in pod.host_ports for other in taken)
        return unschedulable(REASON) if clash else None

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        verdicts.reject_rows(self._taken.conflicting_rows(pod.host_ports), code, _CLASH)

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return unschedulable(REASON)

    def demands(self, state: CycleState, pod: PodInfo) -> Demands:
        """Return the requirement that no pod on the node has a clashing port, as a count for preemption's dry runs.

        The count is by topology domain, and each node is a domain of its own.
        """

        def weigh(other: PodInfo) -> int:
            return sum(clashes(one, taken) for taken in other.host_ports for one in pod.host_ports)

        rows = self._table.columns.rows
        counts = array("q", bytes(8 * rows))
        for row, conflicts in self._taken.conflicts(pod.host_ports).items():
            counts[row] = conflicts
        none = array("q", bytes(8 * rows))
        return Demands(limits=(Tally(array("i", range(rows)), counts, weigh, _CLASH, limits=none),))

    def sign_pod(self, pod: PodInfo) -> bool | None:
        return None if pod.host_ports else True

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        return True

    def events_to_register(self) -> Sequence[Registration]:
        return (
            Registration(ASSIGNED_POD_DELETE, is_schedulable_after_pod_deleted, Grouping(_ports_of)),
            Registration(ClusterEvent(EventResource.NODE, Action.ADD)),
        )


def is_schedulable_after_pod_deleted(waiting: Pod, old: object, new: object) -> bool:
    """Return True if the deleted pod was on a node and had a host port that the waiting pod needs."""
    if not isinstance(old, Pod):
        return True
    wanted = host_ports(waiting)
    return any(clashes(one, other) for one in host_ports(old) for other in wanted)


def _ports_of(pod: PodInfo) -> tuple[HostPort, ...]:
    return pod.host_ports
