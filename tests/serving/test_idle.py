"""Connections that ask nothing are closed; those that wait for an answer are not."""

from __future__ import annotations

from kscheduler.serving.idle import IdleConnections


class Socket:
    def __init__(self) -> None:
        self.closed = False

    def force_close(self) -> None:
        self.closed = True


def test_a_connection_is_closed_when_it_asked_nothing_for_the_limit() -> None:
    silent = Socket()
    idle = IdleConnections(lambda: [silent], limit_s=30.0)
    assert idle.sweep(100.0) == 0  # seen for the first time
    assert idle.sweep(129.0) == 0
    assert idle.sweep(130.0) == 1
    assert silent.closed


def test_a_connection_being_answered_stays_however_long_that_takes() -> None:
    waiting = Socket()
    idle = IdleConnections(lambda: [waiting], limit_s=30.0)
    idle.begin(waiting)
    idle.begin(waiting)
    idle.end(waiting, 1.0)
    idle.sweep(0.0)
    assert idle.sweep(1e6) == 0
    idle.end(waiting, 1e6)
    assert idle.sweep(1e6 + 29.0) == 0
    assert idle.sweep(1e6 + 30.0) == 1


def test_a_connection_that_is_gone_is_forgotten() -> None:
    sockets = [Socket()]
    idle = IdleConnections(lambda: sockets, limit_s=30.0)
    idle.sweep(0.0)
    sockets.clear()
    assert idle.sweep(100.0) == 0
    assert idle._last_use == {}
