"""Writes pods' conditions and nominations: after bindings, before Events, and only the newest for each pod.

A condition is information for people, and losing one does no harm, since the next scheduling attempt writes it again.
So at most one patch per pod waits, each is tried a few times, and no caller waits for it.

A request whose answer is overdue (the client decides when) does not block its worker: the patch queues behind the
others for its next try, and the late answer still counts. A patch names the pod's uid and holds all that it changes, so
writing it twice does no harm. As soon as something newer is to be written for the pod, the late request is given up.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from functools import partial
from typing import NamedTuple

from kscheduler.api.objects import Pod, PodCondition
from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.protocol import Client, PodStatusPatch
from kscheduler.errors import APIError, Conflict, NotFound, Unreachable

log = logging.getLogger(__name__)

TRIES = 3
PAUSE_S = 1.0
WORKERS = 4
MAX_WAITING = 100_000  # patches; beyond it the oldest is dropped, and written at the pod's next attempt


class _Waiting(NamedTuple):
    pod: Pod
    patch: PodStatusPatch
    tries: int = 0  # requests sent so far, all of them overdue


class PodStatusLane:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()  # pod uid -> newest patch
        self._writing: dict[str, PodStatusPatch] = {}  # pod uid -> patch a worker is trying to write
        self._late: dict[str, set[asyncio.Task[None]]] = {}  # pod uid -> overdue requests
        self._complaints: set[str] = set()  # causes of failures that were logged since a patch was written
        self._written: dict[str, tuple[str, str]] = {}  # pod uid -> (reason, message) last written by us
        self._nominated: dict[str, str] = {}  # pod uid -> nominated node we last wanted written
        self.known: set[str] = set()  # uids of pods with a written or wanted status; changed here only
        self._work = asyncio.Event()

    def patch(self, pod: Pod, condition: PodCondition, nomination: str | None = None) -> None:
        """Write this condition and nomination soon, as far as the pod's status does not have them yet. Never blocks.

        `nomination` is the node that the pod is nominated to, "" for none, or None to leave the status as it is.
        """
        uid = pod.metadata.uid
        text = (condition.reason, condition.message)
        is_written = self._written.get(uid) == text or _has(pod, condition)
        if nomination is not None and self._knows_nomination(pod, nomination):
            nomination = None
        if is_written and nomination is None:
            return
        self._wait(pod, PodStatusPatch(None if is_written else condition, nomination))

    async def nominate(self, pod: Pod, node_name: str) -> None:
        """Write now to which node a pod is about to be bound.

        A failure or a late answer is logged, and binding continues.
        """
        uid = pod.metadata.uid
        if self._knows_nomination(pod, node_name):
            return
        self._nominated[uid] = node_name
        self.known.add(uid)
        # No older patch of the nomination may be written after this one.
        self._writing.pop(uid, None)
        if self._late:
            self._give_up_late(uid)
        if uid in self._waiting:
            older = self._waiting.pop(uid).patch
            if older.condition is not None:
                self._wait(pod, PodStatusPatch(older.condition))
        request = await self._request(pod, PodStatusPatch(nominated_node_name=node_name))
        try:
            if not request.done():
                await cancel_and_wait(request)
                raise Unreachable("no answer for much longer than usual")
            request.result()
        except NotFound:
            log.debug("pod is gone before it was nominated", extra={"pod": pod.key, "node": node_name})
        except APIError as error:
            log.warning("nominated node not written", extra={"pod": pod.key, "node": node_name, "err": str(error)})

    def _knows_nomination(self, pod: Pod, node_name: str) -> bool:
        """Return True if the pod's status has this nomination already and no other one is being written."""
        return pod.status.nominated_node_name == node_name == self._nominated.get(pod.metadata.uid, node_name)

    def _wait(self, pod: Pod, patch: PodStatusPatch) -> None:
        uid = pod.metadata.uid
        if uid in self._waiting:
            older = self._waiting[uid].patch
            patch = PodStatusPatch(
                patch.condition or older.condition,
                older.nominated_node_name if patch.nominated_node_name is None else patch.nominated_node_name,
            )
        elif len(self._waiting) >= MAX_WAITING:
            self._waiting.popitem(last=False)
        if patch.nominated_node_name is not None:
            self._nominated[uid] = patch.nominated_node_name
        self._waiting[uid] = _Waiting(pod, patch)
        self.known.add(uid)
        self._work.set()

    def withdraw(self, uid: str) -> None:
        """Drop the unwritten patches of a pod that is about to be bound, so that none is written after the binding.

        Its nomination would be refused then, and its condition would claim that a bound pod is unschedulable.
        """
        self._waiting.pop(uid, None)
        self._writing.pop(uid, None)
        if self._late:
            self._give_up_late(uid)

    def forget(self, uid: str) -> None:
        """Drop all state of a pod that is bound or deleted."""
        if uid not in self.known:
            return
        self.withdraw(uid)
        self._written.pop(uid, None)
        self._nominated.pop(uid, None)
        self.known.discard(uid)

    async def run(self) -> None:
        try:
            await asyncio.gather(*(self._write_forever() for _ in range(WORKERS)))
        finally:
            await cancel_and_wait(*(request for late in self._late.values() for request in late))

    async def _write_forever(self) -> None:
        while True:
            while self._waiting:
                uid, waiting = self._waiting.popitem(last=False)
                await self._write(uid, waiting)
            self._work.clear()
            await self._work.wait()

    async def _write(self, uid: str, waiting: _Waiting) -> None:
        patch = waiting.patch
        if not waiting.tries:
            self._give_up_late(uid)
        self._writing[uid] = patch
        try:
            await self._try(uid, waiting)
        finally:
            if self._writing.get(uid) is patch:
                del self._writing[uid]

    async def _try(self, uid: str, waiting: _Waiting) -> None:
        pod, patch = waiting.pod, waiting.patch
        for attempt in range(waiting.tries + 1, TRIES + 1):
            request = await self._request(pod, patch)
            if not request.done():
                if not self._is_wanted(uid, patch):
                    await cancel_and_wait(request)
                    return
                self._note_late(uid, pod, patch, request)
                if attempt < TRIES:
                    self._waiting[uid] = _Waiting(pod, patch, attempt)
                    self._work.set()
                return
            error = request.exception()
            if error is None or isinstance(error, (NotFound, Conflict)):  # gone, or a later pod of the same name
                if self._is_wanted(uid, patch):
                    self._give_up_late(uid)
                    self._note_written(uid, patch, error)
                return
            if not isinstance(error, APIError):  # as of a text that cannot be encoded: other pods' are written
                log.error("pod condition cannot be sent", exc_info=error, extra={"pod": pod.key})
                return
            if attempt == TRIES or not error.is_transient:
                # Where a binding has overtaken it, a nomination is refused; nobody needs it then.
                self._complain(pod, error, is_wanted=self._is_wanted(uid, patch))
                return
            await asyncio.sleep(error.retry_after_s or PAUSE_S * attempt)
            if not self._is_wanted(uid, patch):
                return

    async def _request(self, pod: Pod, patch: PodStatusPatch) -> asyncio.Task[None]:
        """Send a patch, and return the request once it has ended or its answer is overdue."""
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] = loop.create_future()

        def note(_: object = None) -> None:
            if not news.done():
                news.set_result(None)

        request = loop.create_task(self._client.patch_pod_status(pod, patch, note))
        request.add_done_callback(note)
        try:
            await news
        except asyncio.CancelledError:
            await cancel_and_wait(request)
            raise
        return request

    # --- overdue requests ---------------------------------------------------------------------------------------

    def _note_late(self, uid: str, pod: Pod, patch: PodStatusPatch, request: asyncio.Task[None]) -> None:
        self._late.setdefault(uid, set()).add(request)
        request.add_done_callback(partial(self._late_ended, uid, pod, patch))

    def _late_ended(self, uid: str, pod: Pod, patch: PodStatusPatch, request: asyncio.Task[None]) -> None:
        late = self._late.get(uid, set())
        if request not in late:  # given up
            return
        late.discard(request)
        if not late:
            del self._late[uid]
        if request.cancelled():  # the program ends
            return
        error = request.exception()
        repeat = self._waiting.get(uid)
        is_superseded = repeat.patch is not patch if repeat else self._writing.get(uid, patch) is not patch
        if is_superseded:
            return
        is_answered = error is None or (isinstance(error, APIError) and not error.is_transient)
        if is_answered:  # no repeat is needed
            self._waiting.pop(uid, None)
            self._writing.pop(uid, None)
            self._give_up_late(uid)
            self._note_written(uid, patch, error)
        is_last = repeat is None and uid not in self._writing and uid not in self._late
        if is_last and error is not None and not isinstance(error, (NotFound, Conflict)):
            self._complain(pod, error)

    def _complain(self, pod: Pod, error: BaseException, *, is_wanted: bool = True) -> None:
        """Log that a patch is given up: as a warning if it is wanted, and the first of its cause since one was written.

        Where the credentials have expired, or a right is missing, the patches of all pods fail for the same reason.
        """
        cause = f"{type(error).__name__} {error.status}" if isinstance(error, APIError) else type(error).__name__
        is_news = is_wanted and cause not in self._complaints
        if is_news:
            self._complaints.add(cause)
        extra = {"pod": pod.key, "err": str(error)}
        log.log(logging.WARNING if is_news else logging.DEBUG, "pod condition not written", extra=extra)

    def _give_up_late(self, uid: str) -> None:
        for request in self._late.pop(uid, ()):
            request.cancel()

    def _note_written(self, uid: str, patch: PodStatusPatch, error: BaseException | None) -> None:
        if error is None:
            self._complaints.clear()
        if error is None and patch.condition is not None:
            self._written[uid] = (patch.condition.reason, patch.condition.message)
            self.known.add(uid)

    def _is_wanted(self, uid: str, patch: PodStatusPatch) -> bool:
        """Return True unless the pod was bound or deleted meanwhile, or a newer patch of it waits."""
        return self._writing.get(uid) is patch and uid not in self._waiting


def _has(pod: Pod, condition: PodCondition) -> bool:
    return any(
        (old.type, old.status, old.reason, old.message)
        == (condition.type, condition.status, condition.reason, condition.message)
        for old in pod.status.conditions or ()
    )
