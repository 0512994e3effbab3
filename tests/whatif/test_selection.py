"""Nodes are selected by name, shape, labels or all of them, and a selection of nothing is an error."""

from __future__ import annotations

import pytest

from kscheduler.errors import ConfigError
from kscheduler.testing import make_node
from kscheduler.whatif.selection import NodeSelection

NODES = [
    make_node("n0").label("node-shape", "small").label("pool", "batch").label("rank", "1").obj(),
    make_node("n1").label("node.kubernetes.io/instance-type", "m5.large").label("pool", "web").label("rank", "2").obj(),
    make_node("n2").label("node-shape", "small").label("rank", "3").obj(),
]


def selected(text: str) -> list[str]:
    return NodeSelection.parse("--cordon", text).names(NODES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n1", ["n1"]),
        ("n2,n0", ["n0", "n2"]),
        ("small", ["n0", "n2"]),
        ("m5.large", ["n1"]),
        ("small,n1", ["n0", "n1", "n2"]),
        ("pool=batch", ["n0"]),
        ("pool!=batch", ["n1", "n2"]),
        ("!pool", ["n2"]),
        ("pool in (web,batch),rank>1", ["n1"]),
        ("node.kubernetes.io/instance-type", ["n1"]),
        ("all", ["n0", "n1", "n2"]),
        ("1:small", ["n0"]),
        ("2:all", ["n0", "n1"]),
    ],
)
def test_a_selection_selects(text: str, expected: list[str]) -> None:
    assert selected(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n9", '--cordon: "n9" is no node, shape or label of the 3 nodes'),
        ("n0,n9", '--cordon: "n9" is no node and no shape of the 3 nodes'),
        ("pool=x", '--cordon: "pool=x" is no node, shape or label of the 3 nodes'),
        ("3:small", '--cordon: expected 3 nodes "small", there are 2'),
        ("pool in (", "--cordon: expected a node, a shape, a label selector or"),
        ("rank>x", "expected an integer after >"),
        (" ", "it is empty"),
    ],
)
def test_a_selection_of_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        selected(text)
    assert message in str(raised.value)
