"""The lane on which pods' conditions and nominations are written: after bindings, before Events, the newest only.

A condition is advice to people; losing one is no fault, since the next attempt writes it again. So the lane keeps at
most one patch a pod, gives each a few tries, and never makes anybody wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict

from kscheduler.api.objects import Pod, PodCondition
from kscheduler.client.protocol import Client, PodStatusPatch
from kscheduler.errors import APIError, Conflict, NotFound, TooManyRequests

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
        self._nominated: dict[str, str] = {}  # pod uid -> nominated node we last wanted written
        self._work = asyncio.Event()

    def patch(self, pod: Pod, condition: PodCondition, nomination: str | None = None) -> None:
        """Write what the pod does not say yet, soon. Never blocks.

        `nomination`: the node the pod is nominated to, "" for none, None to leave what is written there.
        """
        uid = pod.metadata.uid
        said = (condition.reason, condition.message)
        is_told = self._written.get(uid) == said or _says(pod, condition)
        if nomination is not None and self._knows_nomination(pod, nomination):
            nomination = None
        if is_told and nomination is None:
            return
        self._wait(pod, PodStatusPatch(None if is_told else condition, nomination))

    async def nominate(self, pod: Pod, node_name: str) -> None:
        """Write now where a pod is about to be bound; a failure is logged, and binding goes on."""
        uid = pod.metadata.uid
        if self._knows_nomination(pod, node_name):
            return
        self._nominated[uid] = node_name
        # No older word on the nomination may come after this one.
        self._writing.pop(uid, None)
        if uid in self._waiting:
            older = self._waiting.pop(uid)[1]
            if older.condition is not None:
                self._wait(pod, PodStatusPatch(older.condition))
        try:
            await self._client.patch_pod_status(pod, PodStatusPatch(nominated_node_name=node_name))
        except NotFound:
            log.debug("pod is gone before it was nominated", extra={"pod": pod.key, "node": node_name})
        except APIError as error:
            log.warning("nominated node not written", extra={"pod": pod.key, "node": node_name, "err": str(error)})

    def _knows_nomination(self, pod: Pod, node_name: str) -> bool:
        """Does the pod as we know it say so, and have we not asked for anything else meanwhile?"""
        return pod.status.nominated_node_name == node_name == self._nominated.get(pod.metadata.uid, node_name)

    def _wait(self, pod: Pod, patch: PodStatusPatch) -> None:
        uid = pod.metadata.uid
        if uid in self._waiting:
            older = self._waiting[uid][1]
            patch = PodStatusPatch(
                patch.condition or older.condition,
                older.nominated_node_name if patch.nominated_node_name is None else patch.nominated_node_name,
            )
        elif len(self._waiting) >= MAX_WAITING:
            self._waiting.popitem(last=False)
        if patch.nominated_node_name is not None:
            self._nominated[uid] = patch.nominated_node_name
        self._waiting[uid] = (pod, patch)
        self._work.set()

    def withdraw(self, uid: str) -> None:
        """The pod is about to be bound: what is still to be written about its waiting would come after that.

        A nomination is then refused, and a condition would say of a bound pod that it fits nowhere.
        """
        self._waiting.pop(uid, None)
        self._writing.pop(uid, None)

    def forget(self, uid: str) -> None:
        """The pod is bound or gone: nothing more to say about it."""
        self.withdraw(uid)
        self._written.pop(uid, None)
        self._nominated.pop(uid, None)

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
                if attempt == TRIES or _is_certain(error):
                    # Where a binding has overtaken it, a nomination is refused; nobody needs it then.
                    level = logging.WARNING if self._is_wanted(uid, patch) else logging.DEBUG
                    log.log(level, "pod condition not written", extra={"pod": pod.key, "err": str(error)})
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


def _is_certain(error: APIError) -> bool:
    """Would the apiserver say the same again?"""
    return 400 <= error.status < 500 and not isinstance(error, TooManyRequests)
