from __future__ import annotations

from kscheduler.framework.plugins.nodeports import NodePorts
from kscheduler.framework.status import Code
from kscheduler.testing import make_pod
from tests.support.framework_bench import Bench


def bench() -> Bench:
    made = Bench.of(NodePorts)
    made.nodes("n1", "n2")
    made.place(make_pod("web").host_port(80), "n1")
    return made


def test_a_port_that_is_taken_on_a_node_keeps_the_pod_off_it() -> None:
    assert bench().feasible(make_pod("p").host_port(80)) == ["n2"]
    assert bench().feasible(make_pod("p").host_port(80, "UDP")) == ["n1", "n2"]
    assert bench().feasible(make_pod("p").host_port(8080).host_port(80, host_ip="10.0.0.1")) == ["n2"]


def test_a_port_is_free_again_when_its_pod_is_gone() -> None:
    made = bench()
    made.cache.remove_pod("uid-default-web")
    assert made.feasible(make_pod("p").host_port(80)) == ["n1", "n2"]


def test_a_pod_without_host_ports_is_not_looked_at() -> None:
    made = bench()
    made.schedule(make_pod("p"))
    assert made.state.skip_filter == {"NodePorts"}


def test_a_clash_may_be_resolved_by_removing_pods() -> None:
    made = bench()
    made.place(make_pod("other").host_port(80), "n2")
    rejection = made.reject(make_pod("p").host_port(80))
    assert rejection.message == (
        "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."
    )
    assert {status.code for status in rejection.diagnosis.node_statuses().values()} == {Code.UNSCHEDULABLE}
