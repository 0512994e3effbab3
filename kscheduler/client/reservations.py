"""Writes for which pods a ResourceClaim is reserved: those that come while one write is under way go into the next one.

Bindings of pods that share a claim would otherwise each write the same version of it, of which the apiserver takes one:
the others would read the claim again and try once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from kscheduler.api.devices import ResourceClaim, ResourceClaimConsumerReference
from kscheduler.errors import APIError, Conflict

_Waiting = tuple[ResourceClaimConsumerReference, asyncio.Future[ResourceClaim]]
# (claim in the version to be changed, all consumers that it is to have) -> the claim as it is then
Write = Callable[[ResourceClaim, list[ResourceClaimConsumerReference]], Awaitable[ResourceClaim]]


class Reservations:
    """Adds consumers to claims by `write`. `start` runs a coroutine in the background."""

    def __init__(self, write: Write, start: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._write = write
        self._start = start
        # (uid, version) of a claim that is being written -> whom its next write is for
        self._waiting: dict[tuple[str, str], list[_Waiting]] = {}

    async def add(self, claim: ResourceClaim, consumer: ResourceClaimConsumerReference) -> ResourceClaim:
        """Reserve this version of the claim for one more consumer, and return the claim. Raises the APIError family.

        Conflict if something else than other calls of this method has changed the claim.
        """
        key = claim.metadata.uid, claim.metadata.resource_version
        written: asyncio.Future[ResourceClaim] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.append((consumer, written))
        else:
            self._waiting[key] = [(consumer, written)]
            self._start(self._work(key, claim))  # which begins after the bindings that have begun together
        return await written

    async def _work(self, key: tuple[str, str], claim: ResourceClaim) -> None:
        waiting = self._waiting[key]
        together: list[_Waiting] = []
        try:
            while waiting:
                # Bindings that were broken off meanwhile are left out.
                together = [each for each in waiting if not each[1].done()]
                waiting.clear()
                if together:
                    claim = await self._add_all(claim, together)
        finally:
            del self._waiting[key]
            for _, written in (*together, *waiting):  # if this was cancelled, or met a fault
                written.cancel()

    async def _add_all(self, claim: ResourceClaim, together: list[_Waiting]) -> ResourceClaim:
        """Write these consumers. Returns the claim as it is then; the outcome is each consumer's."""
        consumers = [*(claim.status.reserved_for or ()), *(consumer for consumer, _ in together)]
        try:
            claim = await self._write(claim, consumers)
        except Exception as error:
            if len(together) > 1 and isinstance(error, APIError) and not isinstance(error, Conflict):
                # One of them may be what was refused, or one too many.
                for each in together:
                    claim = await self._add_all(claim, [each])
                return claim
            for _, written in together:
                if not written.done():
                    written.set_exception(error)
            return claim
        for _, written in together:
            if not written.done():
                written.set_result(claim)
        return claim
