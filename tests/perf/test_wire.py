from __future__ import annotations

import pytest

from kscheduler.api.objects import Node, Pod
from kscheduler.client.protocol import EventType
from kscheduler.client.wire import LineDecoder
from perf import wire, wire_events


@pytest.mark.parametrize("kind", wire_events.KINDS)
def test_each_line_is_read_as_what_it_says_it_is(kind: str) -> None:
    event = LineDecoder(wire.resource_of(kind))(wire_events.line(kind, 3, 7))
    assert event is not None
    assert event.resource_version == "7"
    if kind == wire_events.BOOKMARK:
        assert (event.type, event.object) == (EventType.BOOKMARK, None)
    else:
        assert isinstance(event.object, Node if kind == wire_events.HEARTBEAT else Pod)


def test_bindings_and_events_are_measured_over_tls(capsys: pytest.CaptureFixture[str]) -> None:
    assert wire.main(["--binds", "60", "--at-once", "5", "--events", "30"]) == 0
    printed = capsys.readouterr().out
    assert all(title in printed for title in (*wire.BINDS, *wire_events.KINDS))
