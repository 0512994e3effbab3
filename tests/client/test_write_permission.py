"""Writes depend on the Lease, or on nothing."""

from __future__ import annotations

import pytest

from kscheduler.client.write_permission import WritePermission
from kscheduler.errors import NotLeading
from tests.support.election import Follower, Leader


def test_without_leader_election_a_replica_may_write() -> None:
    permission = WritePermission()
    assert permission.may_write()
    permission.check("not bound")


def test_with_leader_election_only_the_leader_may_write() -> None:
    permission = WritePermission(Leader())
    permission.check("not bound")
    permission.depend_on(Follower())
    assert not permission.may_write()
    with pytest.raises(NotLeading, match=r"^not bound: this replica does not hold the lease$"):
        permission.check("not bound")
    with pytest.raises(NotLeading, match=r"^claim ns/c is not written: this replica does not hold the lease$"):
        permission.check("claim %s/%s is not written", "ns", "c")
