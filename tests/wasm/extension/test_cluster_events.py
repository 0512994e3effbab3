"""Events as guests register them."""

from __future__ import annotations

import struct

import pytest

from kscheduler.framework.events import Action, ClusterEvent, EventResource
from kscheduler.wasm.extension.cluster_events import DEFAULT_EVENTS, read_action, read_events

_NODE_UPDATES = (
    Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT | Action.UPDATE_NODE_CONDITION
)


@pytest.mark.parametrize(
    ("bits", "action"),
    [
        (1, Action.ADD),
        (2, Action.DELETE),
        (3, Action.ADD | Action.DELETE),
        (28, _NODE_UPDATES & ~Action.UPDATE_NODE_CONDITION),
        (60, Action.UPDATE),
        (62, Action.UPDATE | Action.DELETE),
        (63, Action.ALL),
        (8191, Action.ALL),
        (64, Action.UPDATE_NODE_ANNOTATION),
        (128, Action.UPDATE_POD_LABEL),
        (4096, Action.UPDATE_POD_OTHER),
        (1 << 31, Action(0)),
    ],
)
def test_bits_are_those_of_kubernetes_1_33_and_old_sdks_get_all_updates(bits: int, action: Action) -> None:
    assert read_action(bits) == action


def test_each_record_is_a_resource_and_an_action() -> None:
    data = struct.pack("<4I", 1, 63, 9, 1) + b"tail"
    assert read_events(data, "guest") == (
        ClusterEvent(EventResource.NODE, Action.ALL),
        ClusterEvent(EventResource.CSI_STORAGE_CAPACITY, Action.ADD),
    )


def test_without_a_whole_record_the_default_holds() -> None:
    assert read_events(b"", "guest") is DEFAULT_EVENTS
    assert read_events(b"1234567", "guest") is DEFAULT_EVENTS


def test_resources_and_actions_that_nobody_knows_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert read_events(struct.pack("<4I", 11, 1, 1, 1 << 20), "guest") == ()
    assert [record.message for record in caplog.records] == ["guest registers for an unknown event"] * 2
