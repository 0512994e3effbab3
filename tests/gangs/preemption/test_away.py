"""Pods that are away on trial are back afterwards, in their order, whatever happens."""

from __future__ import annotations

import pytest

from kscheduler.gangs.planner import Plan
from kscheduler.gangs.preemption.away import Away
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from tests.gangs.preemption.bench import Cluster, low
from tests.support.checks import check_cache


def cluster_of_three() -> tuple[Cluster, list[PodInfo]]:
    cluster = Cluster(1, 8)
    for name in ("a", "b", "c"):
        cluster.place(low(name), "n0")
    return cluster, list(node(cluster).pods.values())


def node(cluster: Cluster) -> NodeInfo:
    found = cluster.cache.table.get("n0")
    assert found is not None
    return found


def names(cluster: Cluster) -> list[str]:
    return [pod.pod.metadata.name for pod in node(cluster).pods.values()]


def test_pods_that_are_away_take_no_room_and_return_in_their_order() -> None:
    cluster, (a, b, c) = cluster_of_three()
    with Away(cluster.cache) as away:
        away.take([a, b])
        away.take([a])  # already
        assert (names(cluster), node(cluster).requested.cpu_milli) == (["c"], 2000)
        assert away.uids == {a.uid, b.uid}
        away.put_back([a, c])
        with away.without(c, "n0"):
            assert names(cluster) == ["a"]
    assert names(cluster) == ["a", "b", "c"]
    check_cache(cluster.cache)


def test_an_error_brings_them_back() -> None:
    cluster, pods = cluster_of_three()

    def fail() -> None:
        with Away(cluster.cache) as away:
            away.take(pods)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(cluster) == ["a", "b", "c"]
    check_cache(cluster.cache)


def test_a_fault_of_the_node_table_makes_the_cache_count_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, pods = cluster_of_three()
    table = cluster.cache.table
    remove = table.remove_pod

    def fail_at_the_second(info: NodeInfo, pod: PodInfo) -> None:
        if pod is pods[1]:
            raise ZeroDivisionError
        remove(info, pod)

    monkeypatch.setattr(table, "remove_pod", fail_at_the_second)
    with pytest.raises(ZeroDivisionError), Away(cluster.cache) as away:
        away.take(pods)
    assert away.is_torn
    assert sorted(names(cluster)) == ["a", "b", "c"]
    check_cache(cluster.cache)


def test_a_search_that_fails_leaves_everybody_where_he_was(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, _ = cluster_of_three()
    cluster.place(low("d"), "n0")
    cluster.set_gang("train", 2)
    members = cluster.members(2)
    plan = cluster.planner.plan(members, 2)

    def fail(*_: object, **__: object) -> Plan:
        raise ZeroDivisionError

    monkeypatch.setattr(cluster.planner, "plan", fail)
    face = members[0].pod_info
    with pytest.raises(ZeroDivisionError):
        cluster.preemption.look(cluster.tracked(), face, members, plan, 2)
    assert names(cluster) == ["a", "b", "c", "d"]
    assert cluster.executor.victims == ()
    check_cache(cluster.cache)
