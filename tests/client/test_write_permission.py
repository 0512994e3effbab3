"""Writes depend on the Lease, or on nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kscheduler.client.credentials import Credentials, Endpoint
from kscheduler.client.kube import KubeClient
from kscheduler.client.protocol import BindTry
from kscheduler.client.write_permission import WritePermission
from kscheduler.errors import APIError, NotLeading
from tests.client.fake_apiserver import BINDING, FakeAPIServer
from tests.support.clocks import CLOCK
from tests.support.election import Follower, Leader


def test_without_leader_election_a_replica_may_write() -> None:
    permission = WritePermission()
    assert permission.may_write()
    permission.check("not bound")


def test_with_leader_election_only_the_leader_may_write() -> None:
    permission = WritePermission(Leader())
    assert permission.may_write()
    permission.check("not bound")
    permission.depend_on(Follower())
    assert not permission.may_write()
    with pytest.raises(NotLeading, match=r"^not bound: this replica does not hold the lease$"):
        permission.check("not bound")
    with pytest.raises(NotLeading, match=r"^claim ns/c is not written: this replica does not hold the lease$"):
        permission.check("claim %s/%s is not written", "ns", "c")


class Ending:
    """A Lease that runs out while something is waited for: it is held at the first question only."""

    def __init__(self) -> None:
        self.questions = 0

    @property
    def is_leader(self) -> bool:
        self.questions += 1
        return self.questions == 1


class Request:
    """A binding to be written by callbacks, and its outcome."""

    binding = BINDING

    def __init__(self, elected: Ending) -> None:
        self._permission = WritePermission(elected)
        self.may_write = self._permission.may_write
        self.outcome: asyncio.Future[APIError | None] = asyncio.get_running_loop().create_future()

    def may_give_up(self, give_up: Callable[[], None]) -> None: ...

    def on_overdue(self) -> None: ...

    def on_answer(self, error: APIError | None) -> None:
        self.outcome.set_result(error)


async def test_a_binding_is_not_sent_if_the_lease_runs_out_while_a_connection_is_opened_for_it() -> None:
    async with FakeAPIServer().running() as server:
        client = KubeClient(Credentials(Endpoint(server.url, None), CLOCK), CLOCK, qps=-1)
        with pytest.raises(NotLeading, match="not bound: this replica does not hold the lease"):
            await client.bind(BINDING, BindTry(may_write=WritePermission(Ending()).may_write))
        request = Request(Ending())
        assert client.direct_binds(10).write(request)
        assert isinstance(await request.outcome, NotLeading)
        assert server.requests == []
        await client.bind(BINDING)
        assert len(server.requests) == 1
        await client.close()
