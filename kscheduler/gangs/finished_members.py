"""Finds out which members have succeeded: they count as placed, so that a replacement of another member is still tried.

The scheduler watches unfinished pods only, and for such a watch a pod that finishes is deleted, in its last version
before. A pod that was deleted by somebody has a deletion timestamp by then, as a rule. So the apiserver is asked once
about each bound member that leaves without one. What finished before this program was started is not known. Once no
member is left, what has succeeded does not count any more: further pods of that name are another run of the gang.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from kscheduler.api.objects import Pod
from kscheduler.client.protocol import Client
from kscheduler.errors import APIError, NotFound
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.tracked_gang import TrackedGang

log = logging.getLogger(__name__)

SUCCEEDED = "Succeeded"
PAUSE_S = 1.0  # before a failed request is repeated
TRIES = 3
MOST_ASKED = 10_000  # pods that are to be asked about; further ones count as failed


class PodHandler(Protocol):
    """The handler of an informer of pods."""

    def on_add(self, pod: Pod) -> None: ...

    def on_update(self, old: Pod, new: Pod) -> None: ...

    def on_delete(self, pod: Pod) -> None: ...


class FinishedMembers:
    """`run` is a task. `changed(key)` is called for each gang of which a member has succeeded."""

    def __init__(self, client: Client, registry: Registry, changed: Callable[[GangKey], None]) -> None:
        self._client = client
        self._registry = registry
        self._changed = changed
        self._left: deque[tuple[TrackedGang, int, Pod]] = deque()  # each with its gang, and the run it was part of
        self._some = asyncio.Event()

    def around(self, handler: PodHandler) -> PodHandler:
        """Return a handler of pods that calls the given one, and notices members that leave."""
        return _Noticing(handler, self._notice)

    def _notice(self, pod: Pod, on_delete: Callable[[Pod], None]) -> None:
        member = self._registry.members.get(pod.metadata.uid)
        run = 0 if member is None else member.tracked.run
        on_delete(pod)
        is_finished = pod.spec.node_name and pod.metadata.deletion_timestamp is None
        if member is not None and is_finished and len(self._left) < MOST_ASKED:
            self._left.append((member.tracked, run, pod))
            self._some.set()

    async def run(self) -> None:
        while True:
            await self._some.wait()
            while self._left:
                self.answer(await self._has_succeeded(self._left[0][2]))
            self._some.clear()

    def answer(self, has_succeeded: bool) -> None:
        """Take the answer about the member that left first of those that are asked about; nothing if there is none."""
        if not self._left:
            return
        tracked, run, _ = self._left.popleft()
        if has_succeeded and self._registry.add_success(tracked, run):
            self._changed(tracked.key)

    async def _has_succeeded(self, pod: Pod) -> bool:
        metadata = pod.metadata
        for _ in range(TRIES):
            try:
                current = await self._client.get_pod(metadata.namespace, metadata.name)
            except NotFound:
                return False
            except APIError as error:
                log.info("it is not known yet how a pod of a gang ended", extra={"pod": pod.key, "err": str(error)})
                await asyncio.sleep(PAUSE_S)
            else:
                return current.metadata.uid == metadata.uid and current.status.phase == SUCCEEDED
        return False


class _Noticing:
    def __init__(self, handler: PodHandler, notice: Callable[[Pod, Callable[[Pod], None]], None]) -> None:
        self.on_add = handler.on_add
        self.on_update = handler.on_update
        self._on_delete = handler.on_delete
        self._notice = notice

    def on_delete(self, pod: Pod) -> None:
        self._notice(pod, self._on_delete)
