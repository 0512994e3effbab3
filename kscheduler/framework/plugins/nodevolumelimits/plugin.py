"""NodeVolumeLimits: no node gets more volumes of a CSI driver than the driver can attach to it.

CSINodes state the limits. Attached are the volumes of the pods on the node, and those that VolumeAttachments name.
In-tree volumes that CSI drivers have taken over count as volumes of those drivers. Which of a new pod's volumes count
depends on the node in one way only: whether it has a CSINode. With the feature gate VolumeLimitScaling, a node without
the driver of a new volume is rejected if the CSIDriver asks for that (preventPodSchedulingIfMissing).
"""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler._fast import FEASIBLE, Verdicts
from kscheduler.framework.claim_hints import BY_CLAIMS, after_claim
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    ONE_GROUP,
    Action,
    ClusterEvent,
    EventResource,
    Registration,
)
from kscheduler.framework.faults import CycleFault, running
from kscheduler.framework.interface import Handle, PreFilterResult
from kscheduler.framework.plugins.nodevolumelimits import hints
from kscheduler.framework.plugins.nodevolumelimits.attached import AttachedVolumes, is_installed, read_node
from kscheduler.framework.plugins.nodevolumelimits.counting import Counted, Counting, may_count
from kscheduler.framework.status import SKIP, Status, unschedulable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "NodeVolumeLimits"
REASON = "node(s) exceed max volume count"
_REFUSAL = "NodeVolumeLimits/refusal"

_MISSING = "NodeVolumeLimits/missing"

# Reason numbers (details): the node is full, or one of the pod's claims is missing. From _NO_DRIVER on: that of the
# drivers in the cycle state is not installed on the node.
_NO_ROOM, _REFUSED, _NO_DRIVER = 1, 2, 3


class NodeVolumeLimits:
    name = NAME
    signs_metadata = False

    def __init__(self, handle: Handle) -> None:
        self._volumes = handle.volumes
        self._attached = AttachedVolumes(handle.table, handle.volumes)
        self._needs_drivers = handle.release.has("VolumeLimitScaling")

    # --- filter ---

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        return None, None if any(map(may_count, pod.pod.spec.volumes or ())) else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        csi_node = self._volumes.csi_node(node.name)
        new = self._new_volumes(pod, migrates=csi_node is not None)
        if isinstance(new, Status):
            return new
        if not new:
            return None
        for driver in self._required_drivers(new):
            if not is_installed(driver, csi_node):
                return _not_installed(driver)
        there = read_node(Counting(self._volumes), self._volumes, node.name, node.pods.values())
        if there is None or there.fault is not None:
            return None if there is None else there.fault
        return None if there.takes(new) else unschedulable(REASON)

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        self._attached.refresh()
        # 1. Nodes without a CSINode have no limits, but the pod's claims must be there.
        new = self._new_volumes(pod, migrates=False)
        if isinstance(new, Status):
            rows = [row for row in verdicts.feasible_rows() if row not in self._attached.with_csi_node]
            self._refuse(state, rows, verdicts, code, new)
        elif required := self._required_drivers(new):
            rows = [row for row in verdicts.feasible_rows() if row not in self._attached.with_csi_node]
            self._lack_drivers(state, rows, verdicts, code, required)
        # 2. Nodes with one, where in-tree volumes count too.
        new = self._new_volumes(pod, migrates=True)
        if isinstance(new, Status):
            rows = [row for row in verdicts.feasible_rows() if row in self._attached.with_csi_node]
            self._refuse(state, rows, verdicts, code, new)
        elif new:
            if required := self._required_drivers(new):
                rows = [row for row in verdicts.feasible_rows() if row in self._attached.with_csi_node]
                self._lack_drivers(state, rows, verdicts, code, required)
            self._raise_faults(verdicts)
            verdicts.reject_rows(self._attached.rows_without_room(new), code, _NO_ROOM)

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        if detail == _NO_ROOM:
            return unschedulable(REASON)
        if detail == _REFUSED:
            return state.read(_REFUSAL, Status)
        return _not_installed(state.read(_MISSING, list)[detail - _NO_DRIVER])

    def _new_volumes(self, pod: PodInfo, *, migrates: bool) -> Counted | Status:
        return Counting(self._volumes).attachable(pod.pod, migrates=migrates, is_new=True)

    def _required_drivers(self, new: Counted) -> list[str]:
        """Return the drivers of new volumes that must be installed on the pod's node, in the order of the volumes."""
        if not self._needs_drivers:
            return []
        return [driver for driver in dict.fromkeys(new.values()) if self._is_required(driver)]

    def _is_required(self, driver: str) -> bool:
        found = self._volumes.csi_driver(driver)
        return found is not None and bool(found.spec.prevent_pod_scheduling_if_missing)

    def _lack_drivers(
        self, state: CycleState, rows: Sequence[int], verdicts: Verdicts, code: int, required: Sequence[str]
    ) -> None:
        """Reject those of the rows (nodes) on which a required driver is not installed, for the first such driver."""
        known: list[str] = state.get(_MISSING, list) or []
        state.write(_MISSING, known)
        for driver in required:
            if driver not in known:
                known.append(driver)
            there = self._attached.with_driver(driver)
            missing = [row for row in rows if row not in there]
            verdicts.reject_rows(missing, code, _NO_DRIVER + known.index(driver))
            rows = [row for row in rows if row in there]

    def _raise_faults(self, verdicts: Verdicts) -> None:
        for row in sorted(self._attached.faulty):
            there = self._attached.of(row)
            if there is not None and there.fault is not None and verdicts.code(row) == FEASIBLE:
                raise CycleFault(running("Filter", self, there.fault))

    def _refuse(self, state: CycleState, rows: Sequence[int], verdicts: Verdicts, code: int, status: Status) -> None:
        """Reject the rows (nodes) because of the pod's volumes alone, or end the pod's cycle if the status is an error.

        Does nothing without rows. A cycle has one such status at most: the first missing claim does not depend on
        CSINodes.
        """
        if not rows:
            return
        if not status.is_rejected:
            raise CycleFault(running("Filter", self, status))
        state.write(_REFUSAL, status)
        verdicts.reject_rows(rows, code, _REFUSED)

    # --- the compiled lane: for pods without such volumes ---

    def sign_pod(self, pod: PodInfo) -> bool | None:
        return None if any(map(may_count, pod.pod.spec.volumes or ())) else True

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        return True

    # --- queue ---

    def events_to_register(self) -> Sequence[ClusterEvent | Registration]:
        return (
            ClusterEvent(EventResource.CSI_NODE, Action.ADD),
            Registration(ClusterEvent(EventResource.CSI_NODE, Action.UPDATE), hints.after_csi_node_updated, ONE_GROUP),
            Registration(ASSIGNED_POD_DELETE, hints.after_pod_deleted, ONE_GROUP),
            Registration(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, Action.ADD),
                after_claim,
                BY_CLAIMS,
            ),
            Registration(
                ClusterEvent(EventResource.VOLUME_ATTACHMENT, Action.DELETE),
                hints.after_attachment_deleted,
                hints.BY_DRIVERS,
            ),
        )


def _not_installed(driver: str) -> Status:
    return unschedulable(f"{driver} CSI driver is not installed on the node")
