"""Writes the condition of a PodGroup of scheduling.k8s.io that says whether it is scheduled.

Only the newest condition of a group is written, and in the background. As in kube-scheduler, a group that was scheduled
once stays so: later pods that do not fit do not change that. The objects of Coscheduling have no conditions but phases:
see `phase_writer.py`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from kscheduler.api.pod_groups import GroupCondition, PodGroup
from kscheduler.client.kinds import Resource
from kscheduler.client.protocol import Client
from kscheduler.client.status_write import Written, write_status, write_when_set
from kscheduler.client.times import rfc3339
from kscheduler.client.write_permission import WritePermission
from kscheduler.clock import Clock
from kscheduler.gangs.gang import Gang

log = logging.getLogger(__name__)

PAUSE_S = 5.0  # before a failed write is repeated, or the permission to write is asked for again
SCHEDULED, UNSCHEDULABLE, SCHEDULER_ERROR = "Scheduled", "Unschedulable", "SchedulerError"  # reasons
MAX_MESSAGE = 32_768  # characters, the API's limit


class Shown(NamedTuple):
    """What a condition says, or is to say."""

    status: str  # "True" or "False"
    reason: str
    message: str
    generation: int | None = None  # of the object, when that was found


class GroupStatuses:
    """`run` is a task. `resource` and `condition`: the kind of the release, and the type of its condition."""

    def __init__(
        self,
        client: Client,
        resource: Resource[PodGroup],
        condition: str,
        permission: WritePermission,
        clock: Clock,
    ) -> None:
        self.api = resource.group_version.partition("/")[0]
        self._client = client
        self._resource = resource
        self._type = condition
        self._permission = permission
        self._clock = clock
        self._shown: dict[str, Shown] = {}  # uid of a group -> what its condition says, as far as we know
        self._wanted: dict[str, tuple[Gang, Shown]] = {}  # uid -> what is to be written
        self._work = asyncio.Event()

    # --- what objects show ---

    def seen(self, group: PodGroup) -> None:
        """Take a new or changed object."""
        for condition in group.status.conditions or ():
            if condition.type == self._type:
                self._shown[group.metadata.uid] = Shown(
                    condition.status, condition.reason, condition.message, condition.observed_generation
                )

    def gone(self, group: PodGroup) -> None:
        self._shown.pop(group.metadata.uid, None)
        self._wanted.pop(group.metadata.uid, None)

    # --- what is to be shown ---

    def want(self, gang: Gang, reason: str, message: str) -> None:
        """Have the condition of a gang's object written soon, unless it says the same, or that it was scheduled."""
        status = "True" if reason == SCHEDULED else "False"
        wanted = Shown(status, reason, message[:MAX_MESSAGE], gang.generation)
        if self._is_settled(gang.uid, wanted):
            self._wanted.pop(gang.uid, None)
            return
        before = self._wanted.get(gang.uid)
        if before is not None and before[1].status == "True" and status == "False":
            return
        self._wanted[gang.uid] = gang, wanted
        self._work.set()

    async def run(self) -> None:
        await write_when_set(self._work, self._write_all, pause_s=PAUSE_S)

    async def _write_all(self) -> bool:
        """Write what is wanted, and return whether all of it was written."""
        while self._wanted:
            if not self._permission.may_write():
                return False
            uid = next(iter(self._wanted))
            # It stays in the dict while it is written, so that what is wanted meanwhile is compared with it.
            entry = self._wanted[uid]
            if not self._is_settled(uid, entry[1]) and not await self._write(*entry):
                return False
            if self._wanted.get(uid) is entry:
                del self._wanted[uid]
        return True

    def _is_settled(self, uid: str, wanted: Shown) -> bool:
        """Return whether a group's condition says this already, or that the group was scheduled, which stays so."""
        shown = self._shown.get(uid)
        return shown is not None and (shown == wanted or (shown.status == "True" and wanted.status == "False"))

    async def _write(self, gang: Gang, wanted: Shown) -> bool:
        """Write a condition, and return False if it must be written again."""
        shown = self._shown.get(gang.uid)
        condition = GroupCondition(
            type=self._type,
            status=wanted.status,
            reason=wanted.reason,
            message=wanted.message,
            last_transition_time=(
                rfc3339(self._clock.wall()) if shown is None or shown.status != wanted.status else None
            ),
            observed_generation=gang.generation,
        )
        key = gang.key
        write = self._client.patch_condition(self._resource, key.namespace, key.name, gang.uid, condition)
        written = await write_status(write, "condition of a gang", log, gang=str(key))
        if written is Written.DONE:
            self._shown[gang.uid] = wanted
        return written is not Written.AGAIN
