from __future__ import annotations

import pytest

from kscheduler.telemetry.node_names import node_of


@pytest.mark.parametrize(
    ("labels", "label", "node"),
    [
        ({"node": "a", "instance": "b:9100"}, "", "a"),
        ({"instance": "b:9100"}, "", "b"),
        ({"instance": "b"}, "", "b"),
        ({"node": "", "instance": "b"}, "", "b"),
        ({"host": "c:80"}, "host", "c"),
        ({"node": "a"}, "host", ""),
        ({}, "", ""),
        ({"node": "a:b"}, "", "a:b"),
        ({"instance": "[::1]:9100"}, "", "[::1]:9100"),
        ({"instance": "::1"}, "", "::1"),
    ],
)
def test_a_node_is_named_by_a_label(labels: dict[str, str], label: str, node: str) -> None:
    assert node_of(labels, label) == node
