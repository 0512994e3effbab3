"""Keeps the status of Coscheduling's PodGroups, as long as scheduler-plugins' own controller does not.

That controller is there if its Lease is held; then nothing is written. For the phases of pods all are watched that name
a group and are not Pending, finished ones as well, which the scheduler itself does not see; so no pod is read twice
while it waits and is bound. That the others exist says the registry: a pod that waits for another scheduler is not
among them. Only the replica that may write begins with this.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable
from typing import Any

from msgspec import to_builtins

from kscheduler.api.objects import LeaseSpec, ObjectMeta
from kscheduler.api.pod_groups import (
    COSCHEDULING_GROUP,
    POD_GROUP_LABEL,
    CoschedulingPodGroup,
    CoschedulingPodGroupStatus,
    GroupPod,
    GroupPodStatus,
)
from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.informer import Informer
from kscheduler.client.outages import Outages
from kscheduler.client.pod_group_kinds import COSCHEDULING_POD_GROUPS, GROUP_PODS
from kscheduler.client.protocol import Client, always
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.client.write_permission import WritePermission
from kscheduler.clock import Clock
from kscheduler.errors import APIError, Conflict, Forbidden, NotFound
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.phases import status_of
from kscheduler.gangs.registry import Registry

log = logging.getLogger(__name__)

GATHER_S = 1.0  # changes of so long are written together
PAUSE_S = 5.0  # before a failed write is repeated, or the permission to write is asked for again
REFUSED_PAUSE_S = 60.0  # the same where a right is missing
LEASE_NAMESPACE, LEASE_NAME = "kube-system", "sched-plugins-controllers"
LEASE_KNOWN_S = 10.0  # how long an answer about the Lease counts
LEASE_DURATION_S = 15  # of a Lease that does not say it

NOT_PENDING = "status.phase!=Pending"

GroupName = tuple[str, str]  # namespace and name of a PodGroup


class ControllerLease:
    """Tells whether scheduler-plugins' controller holds its Lease: by what changes, since clocks of machines differ."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._asked_at = -math.inf
        self._seen: LeaseSpec | None = None
        self._seen_at = -math.inf  # when it was first seen as it is
        self._is_held = False

    async def is_held(self) -> bool:
        """Return whether it is held; at first, also if it may have been abandoned. Raises APIError."""
        now = self._clock.now()
        if now - self._asked_at < LEASE_KNOWN_S:
            return self._is_held
        try:
            spec = (await self._client.get_lease(LEASE_NAMESPACE, LEASE_NAME)).spec
        except NotFound:
            spec = LeaseSpec()
        if spec != self._seen:
            self._seen, self._seen_at = spec, now
        duration = spec.lease_duration_seconds or LEASE_DURATION_S
        self._is_held = bool(spec.holder_identity) and now - self._seen_at <= duration
        self._asked_at = now
        return self._is_held


class GroupPhases:
    """Follows the PodGroups, by `seen` and `gone`, and their pods, by the registry and a watch. `run` is a task.

    `is_synced`: whether the registry knows all pods.
    """

    def __init__(
        self,
        client: Client,
        registry: Registry,
        permission: WritePermission,
        clock: Clock,
        *,
        is_synced: Callable[[], bool] = always,
        pauses: RetryPauses | None = None,
        outages: Outages | None = None,
    ) -> None:
        """Follow pods with an informer that shares `pauses` and `outages` with others of the same apiserver."""
        self._client = client
        self._registry = registry
        registry.on_members = self._has_members
        self._permission = permission
        self._is_synced = is_synced
        self._lease = ControllerLease(client, clock)
        self._groups: dict[GroupName, CoschedulingPodGroup] = {}
        # Those that are not Pending, by group and name, also where the group is missing.
        self._pods: dict[GroupName, dict[str, GroupPod]] = {}
        self._changed: dict[GroupName, None] = {}  # the status of these groups may be out of date; in this order
        self._work = asyncio.Event()
        self._is_left = False  # to the controller, which was logged
        self._lacks_right = False  # which was logged
        self._informer: Informer[GroupPod] = Informer(
            client,
            GROUP_PODS,
            self,
            clock=clock,
            rng=random.Random(0),
            field_selector=NOT_PENDING,
            keep=_what_counts,
            pauses=pauses,
            outages=outages,
        )

    # --- what is seen ---

    def seen(self, group: CoschedulingPodGroup) -> None:
        """Take a new or changed PodGroup."""
        name = (group.metadata.namespace, group.metadata.name)
        self._groups[name] = group
        self._has_changed(name)

    def gone(self, group: CoschedulingPodGroup) -> None:
        name = (group.metadata.namespace, group.metadata.name)
        self._groups.pop(name, None)
        self._changed.pop(name, None)

    def on_add(self, pod: GroupPod) -> None:
        name = _group_of(pod)
        self._pods.setdefault(name, {})[pod.metadata.name] = pod
        self._has_changed(name)

    def on_update(self, old: GroupPod, new: GroupPod) -> None:
        if _group_of(old) != _group_of(new):
            self.on_delete(old)
        self.on_add(new)

    def on_delete(self, pod: GroupPod) -> None:
        name = _group_of(pod)
        left = self._pods.get(name, {})
        left.pop(pod.metadata.name, None)
        if not left:
            self._pods.pop(name, None)
        self._has_changed(name)

    def _has_members(self, key: GangKey) -> None:
        """Take note that a gang got or lost a member."""
        if key.api == COSCHEDULING_GROUP:
            self._has_changed((key.namespace, key.name))

    def _has_changed(self, name: GroupName) -> None:
        if name in self._groups:
            self._changed[name] = None
            self._work.set()

    # --- what is written ---

    async def run(self) -> None:
        watching: asyncio.Task[None] | None = None
        try:
            while True:
                await self._work.wait()
                await asyncio.sleep(GATHER_S)
                self._work.clear()
                pause_s = await self._why_not_now()
                if not pause_s:
                    if watching is None:
                        watching = asyncio.ensure_future(self._informer.run())
                    await self._informer.synced.wait()
                    pause_s = await self._write_all()
                if pause_s:
                    await asyncio.sleep(pause_s)
                    self._work.set()
        finally:
            if watching is not None:
                await cancel_and_wait(watching)

    async def _why_not_now(self) -> float:
        """Return 0 if this replica is to write now, else the seconds until that is to be asked again."""
        if not (self._permission.may_write() and self._is_synced()):
            return PAUSE_S
        lease = f"{LEASE_NAMESPACE}/{LEASE_NAME}"
        try:
            is_held = await self._lease.is_held()
        except Forbidden as error:
            self._refused(f"the Lease {lease} may not be read, so that another writer may exist", error)
            return REFUSED_PAUSE_S
        except APIError as error:
            log.info("phases of PodGroups are not written yet", extra={"err": str(error)})
            return PAUSE_S
        if is_held is not self._is_left:
            who = "scheduler-plugins' controller" if is_held else "kscheduler, since nobody holds the Lease any more"
            log.info("who writes phases of PodGroups has changed", extra={"writer": who, "lease": lease})
            self._is_left = is_held
        return PAUSE_S if is_held else 0.0

    async def _write_all(self) -> float:
        """Write the statuses that are out of date, each once. Returns 0, or the seconds until the rest is written.

        One that cannot be written is tried after all others the next time.
        """
        rest_s = 0.0
        for name in list(self._changed):
            if not self._permission.may_write():
                return PAUSE_S
            if name not in self._changed:
                continue  # it has gone meanwhile
            del self._changed[name]
            group = self._groups[name]
            status = status_of(group, self._pods_of(name))
            if status == group.status:
                continue
            try:
                changes = _changes(group.status, status)
                await self._client.patch_group_status(COSCHEDULING_POD_GROUPS, group, changes)
                self._lacks_right = False
            except NotFound:
                pass
            except Conflict:  # its newer version is on its way
                self._has_changed(name)
                rest_s = PAUSE_S
            except Forbidden as error:
                self._has_changed(name)
                self._refused("podgroups/status of scheduling.x-k8s.io may not be patched", error)
                return REFUSED_PAUSE_S
            except APIError as error:
                self._has_changed(name)
                log.info("phase of a PodGroup not written yet", extra={"group": group.key, "err": str(error)})
                return PAUSE_S
        return rest_s

    def _pods_of(self, name: GroupName) -> dict[str, GroupPod]:
        """Return the pods of a group, by name. O(pods)."""
        tracked = self._registry.get(GangKey(COSCHEDULING_GROUP, *name))
        members = () if tracked is None else tracked.members.values()
        pending = {member.pod.metadata.name: GroupPod(member.pod.metadata) for member in members}
        return pending | self._pods.get(name, {})

    def _refused(self, why: str, error: APIError) -> None:
        if not self._lacks_right:
            self._lacks_right = True
            log.warning("phases of PodGroups are not written", extra={"reason": why, "err": str(error)})


def _group_of(pod: GroupPod) -> GroupName:
    return pod.metadata.namespace, (pod.metadata.labels or {})[POD_GROUP_LABEL]


def _what_counts(pod: GroupPod) -> GroupPod:
    """Return a pod without what the status of its group does not depend on."""
    meta = pod.metadata
    kept = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels={POD_GROUP_LABEL: (meta.labels or {})[POD_GROUP_LABEL]},
        owner_references=meta.owner_references,
    )
    return GroupPod(kept, GroupPodStatus(pod.status.phase))


def _changes(old: CoschedulingPodGroupStatus, new: CoschedulingPodGroupStatus) -> dict[str, Any]:
    """Return a merge patch that makes one status of the other. Counts of 0 are left out, as the controller does."""
    before, after = to_builtins(old), to_builtins(new)
    return {name: None for name in before if name not in after} | {
        name: value for name, value in after.items() if before.get(name) != value
    }
