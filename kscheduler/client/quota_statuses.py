"""Writes what the running pods of a namespace use to the status of its ElasticQuota.

As scheduler-plugins' controller does, but at most once a second for each quota. Only the replica that may write does
so, and only what has changed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.objects import RawQuantity
from kscheduler.client.kinds import ELASTIC_QUOTAS
from kscheduler.client.protocol import Client, Regarding
from kscheduler.client.status_write import Written, write_status, write_when_set
from kscheduler.client.write_permission import WritePermission
from kscheduler.errors import DecodeError
from kscheduler.quotas.elastic import ElasticQuotas
from kscheduler.quotas.running import parse_used, quantity_of

log = logging.getLogger(__name__)

GATHER_S = 1.0  # changes of so long are written together
MAX_ANNOUNCED = 10_000  # quotas that are known to have had their Event
PAUSE_S = 5.0  # before a failed write is repeated, or the permission to write is asked for again


class Records(Protocol):
    def record(self, regarding: Regarding, *, type: str, reason: str, action: str, note: str) -> None: ...


class QuotaStatuses:
    """Follows `ElasticQuotas`. `run` is a task."""

    def __init__(self, client: Client, quotas: ElasticQuotas, recorder: Records, permission: WritePermission) -> None:
        self._client = client
        self._quotas = quotas
        self._recorder = recorder
        self._permission = permission
        self._announced: set[str] = set()  # uids of quotas that have had their Event
        self._work = asyncio.Event()
        quotas.on_stale = self._work.set

    async def run(self) -> None:
        await write_when_set(self._work, self._write_all, pause_s=PAUSE_S, gather_s=GATHER_S)

    async def _write_all(self) -> bool:
        """Write the statuses that are out of date, and return whether all of them were written."""
        for namespace in sorted(self._quotas.stale):
            if not self._permission.may_write():
                return False
            self._quotas.stale.discard(namespace)
            if not await self._write(namespace):
                self._quotas.stale.add(namespace)
                return False
        return True

    async def _write(self, namespace: str) -> bool:
        """Write the status of a namespace's quota, and return False if it must be written again."""
        quota = self._quotas.of(namespace)
        if quota is None:
            return True
        used = self._quotas.running.of(quota)
        if used == _reported(quota):
            return True
        write = self._client.patch_quota_status(quota, {"used": _changes(quota, used)})
        written = await write_status(write, "status of an elastic quota", log, quota=quota.key)
        if written is Written.DONE:
            self._announce(quota)
        return written is not Written.AGAIN

    def _announce(self, quota: ElasticQuota) -> None:
        """Record the controller's Event, but once for each quota: it says nothing new the second time."""
        uid = quota.metadata.uid
        if uid not in self._announced:
            if len(self._announced) >= MAX_ANNOUNCED:
                self._announced.clear()
            self._announced.add(uid)
            meta, kind = quota.metadata, ELASTIC_QUOTAS
            regarding = Regarding(
                kind.kind, kind.group_version, meta.namespace, meta.name, meta.uid, meta.resource_version
            )
            note = f"Elastic Quota {quota.key} synced successfully"
            self._recorder.record(regarding, type="Normal", reason="Synced", action="Syncing", note=note)


def _reported(quota: ElasticQuota) -> dict[str, int] | None:
    """Return what the status says is used; None if that cannot be read."""
    try:
        return parse_used(quota.status.used)
    except DecodeError:
        return None


def _changes(quota: ElasticQuota, used: dict[str, int]) -> dict[str, RawQuantity | None]:
    """Return a merge patch of `status.used`, in which null removes what is not there any more."""
    gone: dict[str, RawQuantity | None] = dict.fromkeys(quota.status.used or (), None)
    return gone | {name: quantity_of(name, amount) for name, amount in used.items()}
