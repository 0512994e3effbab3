"""Writes how queues with shares stand to the status of our Queue objects, and why one cannot be used.

Only the replica that may write does so, only what has changed, and at most once in some seconds for each queue. The
status of KAI-Scheduler's objects is left to its own controller. Every replica reports in its log why a queue cannot be
used, once for each reason, and after those seconds, since at the start a queue may be seen before the one above it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from msgspec import to_builtins

from kscheduler.api.objects import QuantityMap
from kscheduler.api.share_queues import QueueObject, QueueStatus
from kscheduler.client.kinds import SHARE_QUEUES
from kscheduler.client.protocol import Client
from kscheduler.client.status_write import Written, write_status
from kscheduler.client.write_permission import WritePermission
from kscheduler.observability.measurements import Measurements
from kscheduler.quotas.running import quantity_of
from kscheduler.quotas.share_queues import ShareQueues

log = logging.getLogger(__name__)

GATHER_S = 5.0  # changes of so long are written together
MAPS = ("used", "requested", "fairShare")


class ShareQueueStatuses:
    """Follows `ShareQueues`. `run` is a task."""

    def __init__(
        self, client: Client, queues: ShareQueues, permission: WritePermission, measurements: Measurements
    ) -> None:
        self._client = client
        self._queues = queues
        self._permission = permission
        self._measure = measurements
        self._reported: dict[str, str] = {}  # queue -> why it cannot be used, as it was reported
        self._work = asyncio.Event()
        self._work.set()  # queues of a file are there already
        queues.on_change = self._work.set

    async def run(self) -> None:
        while True:
            await self._work.wait()
            await asyncio.sleep(GATHER_S)
            self._work.clear()
            self._report()
            if not await self._write_all():
                self._work.set()

    def _report(self) -> None:
        faults = self._queues.tree.faults
        for name, fault in faults.items():
            if self._reported.get(name) != fault:
                log.error("a queue cannot be used", extra={"queue": name, "err": fault})
                self._measure.bad_object(SHARE_QUEUES.plural)
        self._reported = dict(faults)

    async def _write_all(self) -> bool:
        """Write the statuses that are out of date. Returns False if some are left for later."""
        is_done = True
        for item in list(self._queues.objects()):
            if not self._permission.may_write():
                return False
            if isinstance(item, QueueObject):
                status = status_of(self._queues, item.metadata.name)
                if status != item.status:
                    is_done = await self._write(item, status) and is_done
        return is_done

    async def _write(self, item: QueueObject, status: QueueStatus) -> bool:
        """Write a status, and return False if it must be written again."""
        write = self._client.patch_queue_status(item, _changes(item.status, status))
        written = await write_status(write, "status of a queue", log, queue=item.metadata.name)
        return written is not Written.AGAIN


def status_of(queues: ShareQueues, name: str) -> QueueStatus:
    """Return what the status of the Queue of this name is to say."""
    queues.refresh()
    queue = queues.get(name)
    if queue is None:
        return QueueStatus(message=queues.tree.faults.get(name, ""))
    used: QuantityMap = {}
    requested: QuantityMap = {}
    fair: QuantityMap = {}
    for resource, share in queue.shares.items():
        used[resource] = quantity_of(resource, share.allocated)
        requested[resource] = quantity_of(resource, share.request)
        fair[resource] = quantity_of(resource, share.fair)
    return QueueStatus("", used or None, requested or None, fair or None)


def _changes(old: QueueStatus, new: QueueStatus) -> dict[str, object]:
    """Return a merge patch that makes one status of the other; null removes what is not there any more."""
    before: dict[str, Any] = to_builtins(old)
    after: dict[str, Any] = to_builtins(new)
    changes: dict[str, object] = {"message": new.message or None}
    for name in MAPS:
        amounts = after.get(name) or {}
        changes[name] = dict.fromkeys(before.get(name) or (), None) | amounts if amounts else None
    return changes
