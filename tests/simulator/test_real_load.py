"""Real load follows pods and nodes as they come, start, finish and go."""

from __future__ import annotations

import pytest

from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.real_load import RealLoad
from kscheduler.simulator.usage import USAGE_CPU
from kscheduler.testing import make_node
from tests.simulator.loads import CPU, MEMORY, two_nodes, using
from tests.support.changes import set_pod_phase
from tests.support.clocks import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(100.0)


@pytest.fixture
def cluster(clock: ManualClock) -> Cluster:
    return two_nodes(clock)


def shares(load: RealLoad, resource: int = CPU) -> list[float]:
    return [node.loads[resource].share(load.clock.now()) for node in load.nodes]


def test_a_pod_uses_a_node_from_its_binding_until_it_is_gone(cluster: Cluster, clock: ManualClock) -> None:
    load = RealLoad(cluster)
    cluster.create_pod(using("a", "2", "4Gi").obj())
    assert shares(load) == [0.0, 0.25]
    cluster.create_pod(using("b", "2", "4Gi").node("n0").obj())
    assert (shares(load), shares(load, MEMORY)) == ([0.5, 0.25], [0.5, 0.0])
    clock.advance(10.0)
    cluster.delete_pod("default/b")
    assert shares(load) == [0.0, 0.25]
    assert load.nodes[0].loads[CPU].integral_until(clock.now()) == 2000 * 10


def test_a_pod_that_has_finished_uses_nothing(cluster: Cluster) -> None:
    load = RealLoad(cluster)
    cluster.create_pod(using("a", "2").node("n0").obj())
    set_pod_phase(cluster, "default/a", "Running")
    assert shares(load)[0] == 0.5
    set_pod_phase(cluster, "default/a", "Succeeded")
    cluster.delete_pod("default/a")
    assert shares(load)[0] == 0.0


def test_a_starting_pod_that_is_gone_early_leaves_no_trace(cluster: Cluster, clock: ManualClock) -> None:
    load = RealLoad(cluster)
    cluster.create_pod(using("a", "4", ramp="100").node("n0").obj())
    clock.advance(50.0)
    assert shares(load)[0] == 0.5
    cluster.delete_pod("default/a")
    clock.advance(100.0)
    assert shares(load)[0] == 0.0


def test_it_may_be_attached_to_a_cluster_that_is_in_use(cluster: Cluster) -> None:
    cluster.create_pod(using("a", "2").node("n0").obj())
    load = RealLoad(cluster)
    assert shares(load) == [0.5, 0.25]
    cluster.delete_pod("default/a")
    assert shares(load) == [0.0, 0.25]


def test_a_node_may_change_what_it_has_and_uses(cluster: Cluster, clock: ManualClock) -> None:
    load = RealLoad(cluster)
    node = cluster.nodes["n1"]
    clock.advance(1.0)
    cluster.update_node(make_node("n1").uid(node.metadata.uid).capacity(cpu=8).annotation(USAGE_CPU, "6").obj())
    assert shares(load) == [0.0, 0.75]
    cluster.delete_node("n1")
    assert load.nodes[1].gone
    assert [each.at(clock.now()) for each in load.nodes[1].loads] == [0, 0]


def test_a_pod_on_a_node_that_nobody_knows_is_left_out(cluster: Cluster) -> None:
    load = RealLoad(cluster)
    cluster.create_pod(using("a", "2").node("elsewhere").obj())
    cluster.delete_pod("default/a")
    assert shares(load) == [0.0, 0.25]
