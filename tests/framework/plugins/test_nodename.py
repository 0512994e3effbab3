from __future__ import annotations

from kscheduler.framework.plugins.nodename import NodeName
from kscheduler.framework.status import Code
from kscheduler.testing import make_pod
from tests.support.framework_bench import Bench


def bench() -> Bench:
    made = Bench.of(lambda handle: NodeName())
    made.nodes("n1", "n2", "n3")
    return made


def test_a_pod_that_names_its_node_goes_there() -> None:
    assert bench().feasible(make_pod("p").node("n2")) == ["n2"]


def test_a_pod_that_names_none_may_go_anywhere() -> None:
    assert bench().feasible(make_pod("p")) == ["n1", "n2", "n3"]


def test_a_pod_that_names_an_absent_node_fits_nowhere_whatever_is_removed() -> None:
    rejection = bench().reject(make_pod("p").node("n9"))
    assert rejection.message == "0/3 nodes are available: 3 node(s) didn't match the requested node name."
    assert {status.code for status in rejection.diagnosis.node_statuses().values()} == {
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    }
