"""Reservations of one version of a claim are written together, and each gets its own outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.devices import ResourceClaim, ResourceClaimConsumerReference
from kscheduler.client.reservations import Reservations
from kscheduler.errors import APIError, Conflict
from tests.framework.plugins.dynamicresources.bench import allocation, claim, reserved_for

CLAIM = claim("c", allocation=allocation())


class Apiserver:
    """Holds one claim, and answers a write after some rounds of the loop. `refusals` are raised by the next writes."""

    def __init__(self) -> None:
        self.claim = CLAIM
        self.writes: list[list[str]] = []  # of each: uids of all consumers
        self.refusals: list[Exception | None] = []
        self.refused = ""  # uid that makes the apiserver refuse a write
        self.tasks: list[asyncio.Task[None]] = []
        self.is_asked = asyncio.Event()
        self.reservations = Reservations(self._write, self._start)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    async def _write(self, old: ResourceClaim, consumers: list[ResourceClaimConsumerReference]) -> ResourceClaim:
        uids = [each.uid for each in consumers]
        self.writes.append(uids)
        self.is_asked.set()
        for _ in range(3):
            await asyncio.sleep(0)
        error = self.refusals.pop(0) if self.refusals else None
        if error is not None:
            raise error
        if self.refused in uids:
            raise APIError("422 Invalid", status=422)
        if old.metadata.resource_version != self.claim.metadata.resource_version:
            raise Conflict("the object has been modified")
        metadata = replace(old.metadata, resource_version=str(int(old.metadata.resource_version or 0) + 1))
        self.claim = replace(old, metadata=metadata, status=replace(old.status, reserved_for=consumers))
        return self.claim

    def add(self, *uids: str) -> list[asyncio.Task[ResourceClaim]]:
        return [asyncio.ensure_future(self.reservations.add(CLAIM, consumer(uid))) for uid in uids]

    def users(self) -> list[str]:
        return [each.uid for each in self.claim.status.reserved_for or ()]


def consumer(uid: str) -> ResourceClaimConsumerReference:
    (made,) = reserved_for(uid)
    return made


async def test_those_that_begin_together_are_written_at_once() -> None:
    server = Apiserver()
    written = await asyncio.gather(*server.add("a", "b", "c"))
    assert server.writes == [["a", "b", "c"]]
    assert all(each is server.claim for each in written)


async def test_those_that_come_during_a_write_go_into_the_next() -> None:
    server = Apiserver()
    first = server.add("a")
    await server.is_asked.wait()
    await asyncio.gather(*first, *server.add("b", "c"))
    assert server.writes == [["a"], ["a", "b", "c"]]
    assert not server.reservations._waiting


async def test_a_conflict_is_that_of_each() -> None:
    server = Apiserver()
    server.refusals = [Conflict("the object has been modified")]
    outcomes = await asyncio.gather(*server.add("a", "b"), return_exceptions=True)
    assert [type(each) for each in outcomes] == [Conflict, Conflict]
    assert server.writes == [["a", "b"]]


async def test_a_refusal_is_only_that_of_the_one_that_is_refused_alone() -> None:
    server = Apiserver()
    server.refused = "b"
    outcomes = await asyncio.gather(*server.add("a", "b", "c"), return_exceptions=True)
    assert [isinstance(each, APIError) for each in outcomes] == [False, True, False]
    assert server.users() == ["a", "c"]


async def test_a_binding_that_was_broken_off_is_left_out() -> None:
    server = Apiserver()
    first, second = server.add("a", "b")
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert server.users() == ["b"]
    assert first.cancelled()


async def test_a_fault_is_that_of_each_and_the_next_are_written() -> None:
    server = Apiserver()
    server.refusals = [ValueError("a bug")]
    outcomes = await asyncio.gather(*server.add("a", "b"), return_exceptions=True)
    assert [type(each) for each in outcomes] == [ValueError, ValueError]
    await asyncio.gather(*server.add("c"))
    assert server.users() == ["c"]


async def test_tasks_that_wait_are_cancelled_with_the_writes() -> None:
    server = Apiserver()
    tasks = server.add("a")
    await server.is_asked.wait()
    tasks += server.add("b")
    await asyncio.sleep(0)
    server.tasks[0].cancel()
    for task in tasks:
        with pytest.raises(asyncio.CancelledError):
            await task
