"""A gang waits for as little as possible: the room that is free counts, and the pods that are to end first."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from kscheduler.api.objects import Pod
from kscheduler.gangs.domains import DomainIndex
from kscheduler.gangs.room_to_come import RoomSearch, RoomToCome
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.quotas.uncounted import Uncounted
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import PodBuilder, make_pod
from tests.gangs.planning import nodes_of, workers
from tests.gangs.preemption.bench import Cluster

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
LANES = pytest.mark.parametrize("has_lane", [True, False], ids=["by kernels", "one by one"])


class Searched(Cluster):
    """Nodes with 4 CPUs each."""

    def put(self, node: str, *cpus: int, builder: PodBuilder | None = None) -> None:
        for cpu in cpus:
            number = len(self.cache.table) + sum(len(each.pods) for each in self.cache.table)
            made = (builder or make_pod("x")).req(cpu=cpu).node(node).obj()
            name = f"old-{number}"
            made = replace(made, metadata=replace(made.metadata, name=name, uid=f"uid-{name}"))
            self.cache.set_pod(PodInfo(made))

    def find(
        self, members: list[QueuedPodInfo], missing: int, *keys: str, has_queues: bool = False
    ) -> RoomToCome | None:
        before = {node.name: (list(node.pods), node.requested) for node in self.cache.table}
        domains = DomainIndex(self.cache.table).domains(keys).each if keys else ()
        uncounted = (lambda: Uncounted(ShareQueues())) if has_queues else None
        found = RoomSearch(self.cache, self.planner).find(
            members, missing, list(self.cache.table), domains, frozenset(), NOW, uncounted
        )
        assert {node.name: (list(node.pods), node.requested) for node in self.cache.table} == before
        return found


def on_nodes(found: RoomToCome | None) -> list[str]:
    assert found is not None
    return sorted(found.nodes.values())


@LANES
def test_fewer_pods_that_must_end_are_better(has_lane: bool) -> None:
    cluster = Searched(3, has_lane=has_lane)
    cluster.put("n0", 1, 1, 1, 1)
    cluster.put("n1", 2, 1, 1)
    cluster.put("n2", 4)
    found = cluster.find(workers(2, make_pod("x").req(cpu=4)), 2)
    assert on_nodes(found) == ["n1", "n2"]
    assert found is not None
    assert found.awaited == 4
    assert found.until is None


@LANES
def test_free_room_is_used_and_no_node_is_emptied_for_nothing(has_lane: bool) -> None:
    cluster = Searched(3, has_lane=has_lane)
    cluster.put("n0", 1, 1, 1, 1)
    cluster.put("n1", 3)
    cluster.put("n2", 2)
    found = cluster.find(workers(2), 2)
    assert set(on_nodes(found)) <= {"n1", "n2"}
    assert found is not None
    assert found.awaited == 1


def test_pods_that_are_about_to_end_are_waited_for_before_others() -> None:
    cluster = Searched(3)
    cluster.put("n0", 4)
    cluster.put("n1", 2, 2, builder=make_pod("x").terminating("2026-01-01T00:00:30Z"))
    cluster.put("n2", 4, builder=make_pod("x").terminating("2026-01-01T00:00:20Z"))
    found = cluster.find(workers(1, make_pod("x").req(cpu=4)), 1)
    assert on_nodes(found) == ["n2"]
    found = cluster.find(workers(2, make_pod("x").req(cpu=4)), 2)
    assert found is not None
    assert (on_nodes(found), found.awaited, found.until) == (["n1", "n2"], 3, NOW + 30)


def test_when_all_have_ended_is_known_only_if_it_is_known_of_each() -> None:
    cluster = Searched(1)
    cluster.put("n0", 2, builder=make_pod("x").terminating("2026-01-01T00:00:30Z"))
    cluster.put("n0", 2, builder=finite(make_pod("x")))
    found = cluster.find(workers(1, make_pod("x").req(cpu=4)), 1)
    assert found is not None
    assert (found.awaited, found.until) == (2, None)


def test_pods_are_waited_for_where_a_node_takes_no_more_of_them() -> None:
    cluster = Searched(1, pods=3)
    cluster.put("n0", 1)
    cluster.put("n0", 1)
    found = cluster.find(workers(3, make_pod("x")), 3)
    assert found is not None
    assert found.awaited == 2
    assert cluster.find(workers(4, make_pod("x")), 4) is None


def test_pods_that_end_by_themselves_are_waited_for_before_those_that_last() -> None:
    cluster = Searched(2)
    cluster.put("n0", 4)
    cluster.put("n1", 2, 2, builder=finite(make_pod("x")))
    assert on_nodes(cluster.find(workers(1, make_pod("x").req(cpu=4)), 1)) == ["n1"]


def test_pods_of_daemon_sets_stay() -> None:
    cluster = Searched(2)
    cluster.put("n0", 1, builder=make_pod("x").owner("DaemonSet", "agent"))
    cluster.put("n1", 4)
    assert on_nodes(cluster.find(workers(1, make_pod("x").req(cpu=4)), 1)) == ["n1"]
    assert cluster.find(workers(2, make_pod("x").req(cpu=4)), 2) is None


def test_where_plugins_reject_members_nothing_is_waited_for() -> None:
    cluster = Searched(3)
    for node in ("n0", "n1", "n2"):
        cluster.put(node, 4)
    members = workers(2, make_pod("x").req(cpu=2).node_affinity_in("kubernetes.io/hostname", ["n2"]))
    assert on_nodes(cluster.find(members, 2)) == ["n2", "n2"]


def test_members_of_different_kinds_have_room_as_well() -> None:
    cluster = Searched(3)
    for node in ("n0", "n1", "n2"):
        cluster.put(node, 2, 2)
    members = [*workers(1, make_pod("x").req(cpu=4)), *workers(2, name="small")]
    assert len(on_nodes(cluster.find(members, 3))) == 3


def test_a_gang_of_one_domain_waits_where_the_last_node_is_free_first() -> None:
    cluster = Searched(4)  # n0 and n2 are in zone z0, n1 and n3 in z1
    cluster.put("n0", 1)
    cluster.put("n2", 1, 1, 1)
    cluster.put("n1", 2, 1)
    cluster.put("n3", 2, 1)
    assert on_nodes(cluster.find(workers(2, make_pod("x").req(cpu=4)), 2, "zone")) == ["n1", "n3"]


def test_a_domain_where_plugins_reject_members_is_passed_over() -> None:
    cluster = Searched(4)  # n0 and n2 are in zone z0, n1 and n3 in z1
    for node, cpus in (("n0", [1]), ("n2", [1]), ("n1", [2, 1]), ("n3", [2, 1])):
        cluster.put(node, *cpus)
    members = workers(2, make_pod("x").req(cpu=4).node_affinity_in("zone", ["z1"]))
    assert on_nodes(cluster.find(members, 2, "zone")) == ["n1", "n3"]


def test_it_waits_beside_nominated_pods_of_its_priority() -> None:
    cluster = Searched(2)
    for node in ("n0", "n1"):
        cluster.put(node, 4)
    other = PodInfo(named(make_pod("other").req(cpu=4), "other"))
    cluster.nominations.nominate(other, "n0")
    assert on_nodes(cluster.find(workers(1, make_pod("x").req(cpu=4)), 1)) == ["n1"]
    assert cluster.find(workers(2, make_pod("x").req(cpu=4)), 2) is None


@pytest.mark.parametrize(("has_queues", "node"), [(False, "n0"), (True, "n1")])
def test_it_waits_beside_less_important_nominated_pods_only_where_they_may_be_of_other_queues(
    has_queues: bool, node: str
) -> None:
    cluster = Searched(2)
    for each in ("n0", "n1"):
        cluster.put(each, 4)
    cluster.nominations.nominate(PodInfo(named(make_pod("other").req(cpu=4), "other")), "n0")
    members = workers(1, make_pod("x").req(cpu=4).priority(10))
    assert on_nodes(cluster.find(members, 1, has_queues=has_queues)) == [node]


@settings(max_examples=60, deadline=None)
@given(
    nodes=st.lists(st.lists(st.integers(1, 2), max_size=3), min_size=1, max_size=5),
    members=st.integers(1, 6),
    cpu=st.integers(1, 4),
)
def test_whatever_is_waited_for_the_members_fit_afterwards(nodes: list[list[int]], members: int, cpu: int) -> None:
    cluster = Searched(len(nodes))
    for i, cpus in enumerate(nodes):
        cluster.put(f"n{i}", *cpus)
    gang = workers(members, make_pod("x").req(cpu=cpu))
    found = cluster.find(gang, members)
    assert (found is None) is (members > len(nodes) * (4 // cpu)), "any pod may end"
    if found is None:
        return
    for node in cluster.cache.table:
        if node.name in found.nodes.values():
            for pod in list(node.pods.values()):
                cluster.cache.remove_pod(pod.uid)
    for queued in gang:
        cluster.nominations.nominate(queued.pod_info, found.nodes[queued.uid])
    plan = cluster.planner.plan(gang, members)
    assert len(nodes_of(plan)) == members


def finite(builder: PodBuilder) -> PodBuilder:
    made = builder.obj()
    return PodBuilder(replace(made, spec=replace(made.spec, restart_policy="Never")))


def named(builder: PodBuilder, name: str) -> Pod:
    made = builder.obj()
    return replace(made, metadata=replace(made.metadata, name=name, uid=f"uid-{name}"))
