"""Field selectors select what the apiserver's do, and watches ask them without a call."""

from __future__ import annotations

import pytest

from kscheduler.api.objects import Pod
from kscheduler.client.kinds import NODES, PODS
from kscheduler.errors import APIError
from kscheduler.simulator.field_selectors import parse_field_selector
from kscheduler.testing import make_node, make_pod

PENDING, BOUND, DONE = make_pod("a").obj(), make_pod("b").node("n").obj(), make_pod("c").phase("Succeeded").obj()


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("status.phase!=Succeeded,status.phase!=Failed", [PENDING, BOUND]),
        ("spec.nodeName=n", [BOUND]),
        ("spec.nodeName!=n,metadata.name!=a", [DONE]),
    ],
)
def test_pods_are_selected_that_meet_all_terms(text: str, selected: list[Pod]) -> None:
    selector = parse_field_selector(PODS, text)
    assert selector is not None
    assert [pod for pod in (PENDING, BOUND, DONE) if selector(pod)] == selected


def test_nodes_are_selected_by_whether_they_are_cordoned() -> None:
    selector = parse_field_selector(NODES, "spec.unschedulable=true")
    assert selector is not None
    assert [selector(node) for node in (make_node("a").obj(), make_node("b").unschedulable().obj())] == [False, True]


def test_no_terms_select_everything() -> None:
    assert parse_field_selector(PODS, "") is None


def test_a_field_that_the_apiserver_does_not_support_is_refused() -> None:
    with pytest.raises(APIError, match="field label not supported"):
        parse_field_selector(PODS, "spec.hostname=x")
