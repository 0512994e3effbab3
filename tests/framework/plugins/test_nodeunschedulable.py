from __future__ import annotations

import pytest

from kscheduler.framework.plugins.nodeunschedulable import NodeUnschedulable
from kscheduler.testing import make_node, make_pod
from tests.support.framework_bench import Bench

KEY = "node.kubernetes.io/unschedulable"


def bench() -> Bench:
    made = Bench.of(NodeUnschedulable)
    made.node(make_node("closed").unschedulable())
    return made


def test_a_cordoned_node_takes_no_pods() -> None:
    assert bench().reject().message == "0/1 nodes are available: 1 node(s) were unschedulable."


@pytest.mark.parametrize(
    "toleration",
    [(KEY, "Exists", "", "NoSchedule"), (KEY, "", "", ""), ("", "Exists", "", ""), (KEY, "Exists", "", "")],
)
def test_a_pod_that_tolerates_the_cordon_may_go_there(toleration: tuple[str, str, str, str]) -> None:
    assert bench().choose(make_pod("p").toleration(*toleration)) == "closed"


@pytest.mark.parametrize("toleration", [(KEY, "Exists", "", "NoExecute"), ("other", "Exists", "", "")])
def test_a_toleration_of_something_else_does_not_help(toleration: tuple[str, str, str, str]) -> None:
    assert bench().feasible(make_pod("p").toleration(*toleration)) == []


def test_an_uncordoned_node_takes_pods_again() -> None:
    made = bench()
    made.reject()
    made.node(make_node("closed"))
    assert made.choose() == "closed"
