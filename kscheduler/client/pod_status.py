"""The lane on which pods' PodScheduled conditions are written: after bindings, before Events, the newest only.

A condition is advice to people; losing one is no fault, since the next attempt writes it again. So the lane keeps at
most one patch a pod, gives each a few tries, and never makes anybody wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict

from kscheduler.api.objects import Pod, PodCondition
from kscheduler.client.protocol import Client, PodStatusPatch
from kscheduler.errors import APIError, Conflict, NotFound

log = logging.getLogger(__name__)

TRIES = 3
PAUSE_S = 1.0
WORKERS = 4
MAX_WAITING = 100_000  # patches; beyond it the oldest is dropped, and written at the pod's next attempt


class PodStatusLane:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: OrderedDict[str, tuple[Pod, PodStatusPatch]] = OrderedDict()  # pod uid -> newest patch
        self._writing: dict[str, PodStatusPatch] = {}  # pod uid -> patch a worker is trying to write
        self._written: dict[str, tuple[str, str]] = {}  # pod uid -> (reason, message) last written by us
        self._work = asyncio.Event()

    def patch(self, pod: Pod, condition: PodCondition) -> None:
        """Write the condition soon, unless the pod says so already. Never blocks."""
        said = (condition.reason, condition.message)
        if self._written.get(pod.metadata.uid) == said or _says(pod, condition):
            return
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popitem(last=False)
        self._waiting[pod.metadata.uid] = (pod, PodStatusPatch(condition=condition))
        self._work.set()

    def forget(self, uid: str) -> None:
        """The pod is bound or gone: nothing more to say about it."""
        self._waiting.pop(uid, None)
        self._writing.pop(uid, None)
        self._written.pop(uid, None)

    async def run(self) -> None:
        await asyncio.gather(*(self._write_forever() for _ in range(WORKERS)))

    async def _write_forever(self) -> None:
        while True:
            while self._waiting:
                uid, (pod, patch) = self._waiting.popitem(last=False)
                await self._write(uid, pod, patch)
            self._work.clear()
            await self._work.wait()

    async def _write(self, uid: str, pod: Pod, patch: PodStatusPatch) -> None:
        self._writing[uid] = patch
        try:
            await self._try(uid, pod, patch)
        finally:
            if self._writing.get(uid) is patch:
                del self._writing[uid]

    async def _try(self, uid: str, pod: Pod, patch: PodStatusPatch) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                await self._client.patch_pod_status(pod, patch)
            except (NotFound, Conflict):
                return  # gone, or a later pod of the same name
            except APIError as error:
                if attempt == TRIES:
                    log.warning("pod condition not written", extra={"pod": pod.key, "err": str(error)})
                    return
                await asyncio.sleep(error.retry_after_s or PAUSE_S * attempt)
            else:
                if patch.condition is not None and self._is_wanted(uid, patch):
                    self._written[uid] = (patch.condition.reason, patch.condition.message)
                return
            if not self._is_wanted(uid, patch):
                return

    def _is_wanted(self, uid: str, patch: PodStatusPatch) -> bool:
        """Was the pod neither bound nor deleted meanwhile, and is there nothing newer to say about it?"""
        return self._writing.get(uid) is patch and uid not in self._waiting


def _says(pod: Pod, condition: PodCondition) -> bool:
    return any(
        (old.type, old.status, old.reason, old.message)
        == (condition.type, condition.status, condition.reason, condition.message)
        for old in pod.status.conditions or ()
    )
