"""VolumeRestrictions: a disk for one writer is not mounted twice, nor a ReadWriteOncePod claim used twice.

Two rules. Disks that pods name in their spec (GCE, EBS, iSCSI, RBD) must not clash with those of the pods on the node.
A claim with the access mode ReadWriteOncePod must be used by no other pod anywhere; while another pod uses it, every
node is rejected, but evicting that pod helps. Missing claims and the claims' volumes are left to other plugins.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kscheduler._fast import Verdicts
from kscheduler.api.objects import Pod
from kscheduler.api.storage import PersistentVolumeClaim
from kscheduler.framework.claim_hints import claim_names
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    Action,
    ClusterEvent,
    EventResource,
    Grouping,
    Registration,
)
from kscheduler.framework.interface import Handle, PreFilterResult
from kscheduler.framework.narrowing import Narrowing, Options
from kscheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo, is_disk
from kscheduler.snapshot.volume_users import Mount, conflict, mounts_of

NAME = "VolumeRestrictions"
DISK_REASON = "node(s) had no available disk"
CLAIM_REASON = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
_NEEDS = "VolumeRestrictions/needs"

_DISK, _CLAIM = 1, 2  # detail of a verdict: which of the two rules


@dataclass(frozen=True, slots=True)
class _Needs:
    mounts: Sequence[Mount]
    exclusive_claims: frozenset[str]  # names of the pod's ReadWriteOncePod claims, which no other pod may use
    users: int  # how often pods on nodes use these claims


class VolumeRestrictions:
    name = NAME
    signs_metadata = False

    def __init__(self, handle: Handle) -> None:
        self._volumes = handle.volumes
        self._users = handle.table.volume_users

    # --- filter ---

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        has_disks = False
        exclusive = set()
        namespace = pod.pod.metadata.namespace
        for volume in pod.pod.spec.volumes or ():
            has_disks = has_disks or is_disk(volume)
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            claim = self._volumes.reported_claim(namespace, name)
            if claim is None:
                return None, unresolvable(f'persistentvolumeclaim "{name}" not found')
            if READ_WRITE_ONCE_POD in (claim.spec.access_modes or ()):
                exclusive.add(name)
        # Used at all is used once: such a claim can have one user only.
        users = sum(self._users.is_claim_in_use(namespace, name) for name in exclusive)
        if not has_disks and not users:
            return None, SKIP
        state.write(_NEEDS, _Needs(mounts_of(pod.pod), frozenset(exclusive), users))
        return None, None

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        self._count(state, other, 1)
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        self._count(state, other, -1)
        return None

    def _count(self, state: CycleState, other: PodInfo, sign: int) -> None:
        """Count the claims of another pod that a trial adds to a node (`sign` 1) or removes from it (-1).

        Claims are compared by name, whatever the namespace, as in kube-scheduler.
        """
        needs = state.read(_NEEDS, _Needs)
        uses = sum(name in needs.exclusive_claims for name in claim_names(other.pod))
        if uses:
            state.write(_NEEDS, replace(needs, users=needs.users + sign * uses))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        needs = state.read(_NEEDS, _Needs)
        if needs.mounts and any(conflict(needs.mounts, mounts_of(other.pod)) for other in node.pods.values()):
            return unschedulable(DISK_REASON)
        return unschedulable(CLAIM_REASON) if needs.users > 0 else None

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        needs = state.read(_NEEDS, _Needs)
        if needs.mounts:
            verdicts.reject_rows(self._users.rows_in_conflict(needs.mounts), code, _DISK)
        if needs.users > 0:
            verdicts.keep_only([], code, _CLAIM)

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return unschedulable(DISK_REASON if detail == _DISK else CLAIM_REASON)

    # --- the compiled lane: for pods without such volumes ---

    def sign_pod(self, pod: PodInfo) -> bool | None:
        volumes = pod.pod.spec.volumes or ()
        return None if any(v.persistent_volume_claim is not None or is_disk(v) for v in volumes) else True

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        return True

    # --- queue ---

    def events_to_register(self) -> Sequence[ClusterEvent | Registration]:
        return (
            Registration(ASSIGNED_POD_DELETE, _after_pod_deleted, _BY_VOLUMES),
            ClusterEvent(EventResource.NODE, Action.ADD),
            Registration(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, Action.ADD), _after_claim_added, _BY_VOLUMES
            ),
        )


# --- hints ---


def _after_pod_deleted(waiting: Pod, old: object, new: object) -> bool:
    """Return True if the deleted pod used a disk or claim that the waiting pod needs, whatever the access modes."""
    if not isinstance(old, Pod):
        return True
    if old.metadata.namespace != waiting.metadata.namespace:
        return False
    return conflict(mounts_of(waiting), mounts_of(old)) or not set(claim_names(waiting)).isdisjoint(claim_names(old))


def _after_claim_added(waiting: Pod, old: object, new: object) -> bool:
    if not isinstance(new, PersistentVolumeClaim):
        return True
    return new.metadata.namespace == waiting.metadata.namespace and new.metadata.name in claim_names(waiting)


class _WaitingFor(NamedTuple):
    """The properties of a waiting pod that the queueing hints read: its disks and claims."""

    namespace: str
    claims: frozenset[str]
    mounts: frozenset[Mount]


def _waiting_for(pod: PodInfo) -> Hashable:
    made = pod.pod
    return _WaitingFor(made.metadata.namespace, frozenset(claim_names(made)), frozenset(mounts_of(made)))


def _options(key: Hashable) -> Sequence[Options]:
    """Return lookup tokens: an event helps only if it concerns one of the pod's disks or claims."""
    if not isinstance(key, _WaitingFor):
        return [[]]
    return [[[*{mount.disk for mount in key.mounts}, *((key.namespace, name) for name in key.claims)]]]


def _brought(old: object, new: object) -> Sequence[Hashable] | None:
    if isinstance(new, PersistentVolumeClaim):
        return [(new.metadata.namespace, new.metadata.name)]
    if not isinstance(old, Pod):
        return None
    namespace = old.metadata.namespace
    return [*{mount.disk for mount in mounts_of(old)}, *((namespace, name) for name in set(claim_names(old)))]


_BY_VOLUMES = Grouping(_waiting_for, lambda: Narrowing(_options, _brought))
