"""The example plugin, through the harness that plugin authors have."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from kscheduler.framework import Status, unresolvable
from kscheduler.framework.search_outcomes import Decision
from kscheduler.testing import NodeBuilder, PluginHarness, make_node, make_pod
from tests.plugins.documents import PLUGINS

COST = "example.com/cost-per-hour"
LIMIT = "example.com/max-cost-per-hour"
TOO_DEAR = unresolvable("node(s) cost more than the pod may spend")


def load() -> Any:
    spec = importlib.util.spec_from_file_location("cheapest_node", PLUGINS / "cheapest_node" / "cheapest_node.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CheapestNode: Any = load().CheapestNode


def node(name: str, cost: str = "", label: str = COST) -> NodeBuilder:
    made = make_node(name).capacity(cpu="4", memory="8Gi")
    return made.label(label, cost) if cost else made


NODES = [node("cheap", "0.05"), node("middling", "0.5"), node("dear", "1"), node("unknown")]


def test_the_cheaper_a_node_the_better_and_one_without_price_is_the_dearest() -> None:
    harness = PluginHarness(CheapestNode, nodes=NODES)
    assert harness.score(make_pod("p")) == {"cheap": 95, "middling": 50, "dear": 0, "unknown": 0}


def test_without_any_price_all_nodes_are_equal() -> None:
    harness = PluginHarness(CheapestNode, nodes=[node("a"), node("b")])
    assert harness.score(make_pod("p")) == {"a": 100, "b": 100}


def test_a_pod_with_a_limit_stays_within_it() -> None:
    harness = PluginHarness(CheapestNode, nodes=NODES)
    found = harness.filter(make_pod("p").annotation(LIMIT, "0.5"))
    assert found == {"cheap": None, "middling": None, "dear": TOO_DEAR, "unknown": TOO_DEAR}


@pytest.mark.parametrize("text", ["", "much", "nan", "inf", "-1"])
def test_a_limit_that_is_no_price_is_named_to_the_pods_owner(text: str) -> None:
    status: Status | None = PluginHarness(CheapestNode, nodes=NODES).filter(make_pod("p").annotation(LIMIT, text))[
        "dear"
    ]
    assert status is not None
    assert status.message == f'annotation {LIMIT}: expected a number, got "{text}"'


def test_a_pod_without_limit_goes_to_the_cheapest_node() -> None:
    harness = PluginHarness(CheapestNode, nodes=NODES)
    assert harness.schedule(make_pod("p")) == Decision("cheap", evaluated=4, feasible=4)


def test_the_labels_name_is_an_argument() -> None:
    harness = PluginHarness(CheapestNode, {"costLabel": "price"}, nodes=[node("a", "2", "price"), node("b", "1")])
    assert harness.score(make_pod("p")) == {"a": 0, "b": 0}
