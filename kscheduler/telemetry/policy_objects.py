"""Follows the policy objects of a cluster with informers, and passes them to a PolicyBook.

Their CRDs may be missing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from kscheduler.client.concurrency import run_together, wait_event
from kscheduler.client.informer import Informer, KeepNewest
from kscheduler.client.kinds import METRIC_POLICIES, TAS_POLICIES, Resource
from kscheduler.client.outages import Outages
from kscheduler.client.protocol import Client
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.client.write_permission import WritePermission
from kscheduler.clock import Clock
from kscheduler.config.types import Profile
from kscheduler.telemetry.policy_book import PolicyBook
from kscheduler.telemetry.policy_reports import PolicyReports, Records

FIRST_LISTS_S = 5.0  # a start waits this long for policies; without the right to list them they never come


class PolicyObjects:
    """The informers of policy objects. Their PolicyBook is complete once `wait_for_sync` returns.

    A kind is listed and watched only if a profile enables it.
    """

    def __init__(
        self,
        client: Client,
        profiles: Sequence[Profile],
        *,
        clock: Clock,
        rng: random.Random,
        recorder: Records,
        permission: WritePermission,
        pauses: RetryPauses | None = None,
        outages: Outages | None = None,
    ) -> None:
        """Build the informers, which share `pauses` and `outages` with others of the same apiserver."""
        self._clock = clock
        self._reports = PolicyReports(client, recorder, clock, permission)
        self.book = PolicyBook(profiles, self._reports.add)
        wanted: list[Resource[Any]] = []
        if self.book.follows_metric_policies:
            wanted.append(METRIC_POLICIES)
        if self.book.follows_tas_policies:
            wanted.append(TAS_POLICIES)
        keep: KeepNewest[Any] = KeepNewest(self.book.put, self.book.remove)
        outages = outages or Outages(clock)
        self.informers: tuple[Informer[Any], ...] = tuple(
            Informer(client, resource, keep, clock=clock, rng=rng, may_be_unknown=True, pauses=pauses, outages=outages)
            for resource in wanted
        )
        self._listed = asyncio.Event()  # set once all kinds are listed, or FIRST_LISTS_S have passed
        if self.informers:
            self.book.hold()  # the first lists count as one change
        else:
            self._listed.set()

    async def run(self) -> None:
        """Run the informers, and the task that writes objects' status, until cancelled."""
        if self.informers:
            listening = (informer.run() for informer in self.informers)
            await run_together(self._reports.run(), self._open_book(), *listening)

    async def wait_for_sync(self) -> None:
        """Wait until the objects are listed, a few seconds at most; a pod that names a policy waits for it anyway."""
        # The book is opened after FIRST_LISTS_S at the latest; a limit of the same length could end just before.
        await wait_event(self._listed, 2 * FIRST_LISTS_S)

    async def _open_book(self) -> None:
        until = self._clock.now() + FIRST_LISTS_S
        for informer in self.informers:
            await wait_event(informer.synced, max(until - self._clock.now(), 0.0))
        self.book.release()
        self._listed.set()
