"""Pods whose bindings the apiserver refused while it accepted no others; tried again as soon as it binds pods again.

An apiserver that has just started refuses everything with 403 until its RBAC objects are loaded; one in trouble answers
401 or 500. kube-scheduler lets each pod wait out a backoff that doubles up to 10 s, and so binds nothing for that long
after the apiserver has recovered. Here the pod that was refused first is tried half a second after any request
succeeds, and all of them once a binding succeeds. None is tried within half a second of its refusal: an apiserver that
goes on refusing gets at most two more bindings in a second.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from kscheduler.client.retry_pauses import SOONEST_S, RetryPauses
from kscheduler.clock import Clock
from kscheduler.errors import APIError, Conflict, NodeGone, NotFound, NotLeading
from kscheduler.queue.scheduling_queue import SchedulingQueue

TRY_EVERY_S = 10.0  # one pod, though nothing succeeds: no longer than kube-scheduler's longest backoff


class RefusedPods:
    """Pods to try again once bindings succeed. `on_active` is called when pods have become active again."""

    def __init__(
        self, queue: SchedulingQueue, clock: Clock, pauses: RetryPauses, on_active: Callable[[], None]
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._pauses = pauses
        self._on_active = on_active
        self.refused_at: dict[str, float] = {}  # pod uid -> monotonic time in seconds, the earliest first
        self.bound_at = float("-inf")  # when a binding was carried out last
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self.refused_at)

    def refused(self, uid: str, error: Exception | None) -> None:
        """Record a refused pod that is back in the queue.

        It is ignored if other pods were bound a moment ago, since then the refusal is about this pod.
        """
        if not isinstance(error, APIError) or isinstance(error, (Conflict, NotFound, NotLeading, NodeGone)):
            return
        now = self._clock.now()
        if now - self.bound_at > SOONEST_S:
            self.refused_at.pop(uid, None)
            self.refused_at[uid] = now
            self._some.set()

    def bound(self) -> None:
        """Record that a binding succeeded, so that the refused pods may be tried again."""
        self.bound_at = self._clock.now()
        if self.refused_at:
            self._activate(len(self.refused_at))

    async def run(self) -> None:
        """Try one refused pod from time to time until a binding is carried out. Runs until cancelled."""
        while True:
            await self._some.wait()
            while self.refused_at:
                await self._pauses.pause(TRY_EVERY_S, may_probe=False)
                self.try_one()
            self._some.clear()

    def try_one(self) -> None:
        """Make the pod active that was refused first, unless that was a moment ago."""
        self._activate(1)

    def _activate(self, most: int) -> None:
        latest = self._clock.now() - SOONEST_S
        due = itertools.takewhile(lambda item: item[1] <= latest, self.refused_at.items())
        uids = [uid for uid, _ in itertools.islice(due, most)]
        for uid in uids:
            del self.refused_at[uid]
        if self._queue.end_error_backoffs(uids, self._clock.now()):
            self._on_active()
