"""Follows the policy objects of a cluster: informers on kinds that may not be installed, and the book they fill."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from kscheduler.api.metric_policies import PolicyObject
from kscheduler.client.concurrency import run_together, wait_event
from kscheduler.client.informer import Informer
from kscheduler.client.protocol import METRIC_POLICIES, TAS_POLICIES, Client, Resource
from kscheduler.clock import Clock
from kscheduler.config.types import Profile
from kscheduler.telemetry.policy_book import PolicyBook
from kscheduler.telemetry.policy_reports import PolicyReports, Records

FIRST_LISTS_S = 5.0  # so long a start waits for policies; without the right to list them they never come


class PolicyObjects:
    """`book` is complete once `wait_for_sync` is over. Nothing is asked of the cluster unless a profile wants it."""

    def __init__(
        self,
        client: Client,
        profiles: Sequence[Profile],
        *,
        clock: Clock,
        rng: random.Random,
        recorder: Callable[[], Records],
        may_write: Callable[[], bool],
    ) -> None:
        """`recorder` is asked for only when there is something to record."""
        self._clock = clock
        self._reports = PolicyReports(client, recorder, clock, may_write)
        self.book = PolicyBook(profiles, self._reports.tell)
        wanted: list[Resource[Any]] = []
        if self.book.follows_metric_policies:
            wanted.append(METRIC_POLICIES)
        if self.book.follows_tas_policies:
            wanted.append(TAS_POLICIES)
        self.informers: tuple[Informer[Any], ...] = tuple(
            Informer(client, resource, _Entries(self.book), clock=clock, rng=rng, may_be_unknown=True)
            for resource in wanted
        )
        self._listed = asyncio.Event()  # all are, or the time for it is over
        if self.informers:
            self.book.hold()  # many objects at once are one change
        else:
            self._listed.set()

    async def run(self) -> None:
        """Until cancelled."""
        if self.informers:
            listening = (informer.run() for informer in self.informers)
            await run_together(self._reports.run(), self._open_book(), *listening)

    async def wait_for_sync(self) -> None:
        """Until the objects are listed, but not long: pods that name a policy wait for it anyway."""
        # The book is opened after FIRST_LISTS_S at the latest; a limit of the same length could end just before.
        await wait_event(self._listed, 2 * FIRST_LISTS_S)

    async def _open_book(self) -> None:
        until = self._clock.now() + FIRST_LISTS_S
        for informer in self.informers:
            await wait_event(informer.synced, max(until - self._clock.now(), 0.0))
        self.book.release()
        self._listed.set()


class _Entries:
    """An informer's handler."""

    def __init__(self, book: PolicyBook) -> None:
        self._book = book

    def on_add(self, obj: PolicyObject) -> None:
        self._book.put(obj)

    def on_update(self, old: PolicyObject, new: PolicyObject) -> None:
        self._book.put(new)

    def on_delete(self, obj: PolicyObject) -> None:
        self._book.remove(obj)
