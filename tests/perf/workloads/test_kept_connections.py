"""Requests that are sent at once: over how many connections, and what becomes of an error."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

import pytest

from perf.workloads.kept_connections import MOST, KeptConnections
from perf.workloads.site import Connection


class FakeConnection:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def opened() -> list[FakeConnection]:
    return []


@pytest.fixture
def connect(opened: list[FakeConnection]) -> Callable[[], Connection]:
    def open_one() -> Connection:
        opened.append(FakeConnection())
        return cast(Connection, opened[-1])

    return open_one


def test_requests_are_under_way_together_and_later_ones_use_the_same_connections(
    connect: Callable[[], Connection], opened: list[FakeConnection]
) -> None:
    all_there = threading.Barrier(MOST)  # which each request can pass only when all have been sent
    with KeptConnections(connect) as connections:
        for _ in range(3):
            connections.send([lambda connection: all_there.wait()] * MOST)
        assert len(opened) == MOST
        assert not any(connection.is_closed for connection in opened)
    assert all(connection.is_closed for connection in opened)


def test_more_requests_than_connections_wait_for_one(
    connect: Callable[[], Connection], opened: list[FakeConnection]
) -> None:
    sent: list[object] = []
    with KeptConnections(connect) as connections:
        connections.send([sent.append] * (3 * MOST))
    assert len(sent) == 3 * MOST
    assert len(opened) <= MOST


def test_an_error_is_raised_once_all_are_answered(
    connect: Callable[[], Connection], opened: list[FakeConnection]
) -> None:
    sent: list[object] = []

    def fail(connection: Connection) -> None:
        raise LookupError("gone")

    with KeptConnections(connect) as connections:
        with pytest.raises(LookupError, match="gone"):
            connections.send([fail, *[sent.append] * MOST])
        assert len(sent) == MOST
