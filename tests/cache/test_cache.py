"""The cache's states, in the orders in which a cluster can bring them about."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from kscheduler.api.objects import ContainerStatus, Pod, PodStatus
from kscheduler.cache.cache import Cache
from kscheduler.cache.comparer import compare_nodes, compare_pods, dump_nodes
from kscheduler.errors import DecodeError, InternalError
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.support.checks import check_cache


def cpu_requested(cache: Cache, node: str) -> int:
    info = cache.table.get(node)
    assert info is not None
    return info.requested.cpu_milli


def pod(name: str = "a", node: str = "", cpu: str = "1") -> Pod:
    return make_pod(name).uid(f"uid-{name}").req(cpu=cpu).node(node).obj()


@pytest.fixture
def cache() -> Cache:
    cache = Cache()
    for name in ("n1", "n2"):
        cache.set_node(make_node(name).capacity(cpu="4", memory="8Gi", pods=10).obj())
    return cache


def test_an_assumed_pod_takes_room_at_once(cache: Cache) -> None:
    cache.assume(PodInfo(pod()), "n1")
    assert cpu_requested(cache, "n1") == 1000
    assert cache.is_assumed("uid-a")
    check_cache(cache)


def test_pods_that_the_columns_count_already_are_assumed_together(cache: Cache) -> None:
    table = cache.table
    pods = [PodInfo(pod("a")), PodInfo(pod("b"))]
    for each in pods:
        table.columns.add_pod(0, table.request_of(each))
    cache.assume_counted(pods, [0, 0], ["n1", "n1"])
    assert cpu_requested(cache, "n1") == 2000
    assert cache.sizes()["assumed_pods"] == 2
    check_cache(cache)


def test_forgetting_an_assumed_pod_gives_its_room_back(cache: Cache) -> None:
    cache.assume(PodInfo(pod()), "n1")
    assert cache.forget("uid-a")
    assert cpu_requested(cache, "n1") == 0
    assert not cache.forget("uid-a")
    check_cache(cache)


def test_assuming_a_pod_twice_is_a_bug(cache: Cache) -> None:
    cache.assume(PodInfo(pod()), "n1")
    with pytest.raises(InternalError, match="already"):
        cache.assume(PodInfo(pod()), "n2")


def test_the_watch_confirms_an_assumed_pod_and_it_can_no_longer_be_forgotten(cache: Cache) -> None:
    cache.assume(PodInfo(pod()), "n1")
    cache.set_pod(PodInfo(pod(node="n1")))
    assert not cache.is_assumed("uid-a")
    assert not cache.forget("uid-a")
    assert cpu_requested(cache, "n1") == 1000
    assert cache.sizes() == {"nodes": 2, "pods": 1, "assumed_pods": 0}
    check_cache(cache)


def bound(pending: Pod, node: str = "n1") -> Pod:
    """The version with its node, which shares all parts with the one before: as the watch's reader has them."""
    spec = structs.replace(pending.spec, node_name=node)
    return structs.replace(pending, metadata=structs.replace(pending.metadata, resource_version="2"), spec=spec)


def test_a_written_binding_is_confirmed_without_another_pod_info(cache: Cache) -> None:
    info = PodInfo(pod())
    cache.assume(info, "n1")
    cache.finish_binding("uid-a", now=0.0)
    confirmed = bound(info.pod)
    assert cache.confirm(confirmed)
    state, node = cache.get("uid-a"), cache.table.get("n1")
    assert state is not None
    assert node is not None
    assert state.pod is info
    assert node.pods["uid-a"] is info
    assert info.pod is confirmed
    assert cache.sizes()["assumed_pods"] == 0
    assert not cache.forget("uid-a")
    assert not cache.confirm(confirmed), "it is confirmed already"
    check_cache(cache)


def test_a_binding_is_confirmed_before_its_answer_and_what_is_in_flight_keeps_its_version(cache: Cache) -> None:
    info = PodInfo(pod())
    before = info.pod
    cache.assume(info, "n1")
    assert cache.confirm_unanswered(bound(before))
    state, node = cache.get("uid-a"), cache.table.get("n1")
    assert state is not None
    assert node is not None
    assert node.pods["uid-a"] is state.pod
    assert (state.pod.pod, state.pod.resources) == (bound(before), info.resources)
    assert info.pod is before
    assert cache.sizes()["assumed_pods"] == 0
    cache.finish_binding("uid-a", now=0.0)
    assert not cache.forget("uid-a")
    assert not cache.confirm_unanswered(bound(before)), "it is confirmed already"
    check_cache(cache)


OTHER_PARTS: dict[str, Callable[[Pod], Pod]] = {
    "another node": lambda pod: bound(pod, "n2"),
    "labels": lambda pod: structs.replace(pod, metadata=structs.replace(pod.metadata, labels={"a": "b"})),
    "its deletion": lambda pod: structs.replace(
        pod, metadata=structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    ),
    "containers": lambda pod: structs.replace(
        pod, spec=structs.replace(pod.spec, containers=make_pod("a").req(cpu="2").obj().spec.containers)
    ),
    "priority": lambda pod: structs.replace(pod, spec=structs.replace(pod.spec, priority=7)),
    "a resize": lambda pod: structs.replace(
        pod, status=PodStatus(container_statuses=[ContainerStatus(name="c", allocated_resources={"cpu": "2"})])
    ),
}


@pytest.mark.parametrize("what", OTHER_PARTS)
def test_a_bound_pod_with_other_parts_than_assumed_is_not_confirmed_at_a_glance(cache: Cache, what: str) -> None:
    info = PodInfo(pod())
    before = info.pod
    cache.assume(info, "n1")
    cache.finish_binding("uid-a", now=0.0)
    assert not cache.confirm(OTHER_PARTS[what](bound(before)))
    assert not cache.confirm_unanswered(OTHER_PARTS[what](bound(before)))
    assert cache.is_assumed("uid-a")
    assert info.pod is before
    check_cache(cache)


def test_a_pod_whose_binding_is_under_way_or_that_is_unknown_is_not_confirmed_at_a_glance(cache: Cache) -> None:
    info = PodInfo(pod())
    assert not cache.confirm(bound(info.pod))
    cache.assume(info, "n1")
    assert not cache.confirm(bound(info.pod))
    assert cache.is_assumed("uid-a")


def test_a_pod_bound_elsewhere_than_assumed_moves_there(cache: Cache) -> None:
    cache.assume(PodInfo(pod()), "n1")
    cache.set_pod(PodInfo(pod(node="n2")))
    assert cpu_requested(cache, "n1") == 0
    assert cpu_requested(cache, "n2") == 1000
    check_cache(cache)


def test_a_resized_pod_changes_what_is_requested(cache: Cache) -> None:
    cache.set_pod(PodInfo(pod(node="n1", cpu="1")))
    cache.set_pod(PodInfo(pod(node="n1", cpu="3")))
    assert cpu_requested(cache, "n1") == 3000
    check_cache(cache)


def test_an_assumed_pod_that_is_deleted_gives_its_room_back(cache: Cache) -> None:
    cache.assume(PodInfo(pod()), "n1")
    assert cache.remove_pod("uid-a") is not None
    assert cache.remove_pod("uid-a") is None
    assert cpu_requested(cache, "n1") == 0
    check_cache(cache)


def test_a_pod_seen_before_its_node_counts_when_the_node_appears(cache: Cache) -> None:
    cache.set_pod(PodInfo(pod(node="n3")))
    check_cache(cache)
    cache.set_node(make_node("n3").capacity(cpu="4", memory="8Gi", pods=10).obj())
    assert cpu_requested(cache, "n3") == 1000
    check_cache(cache)


def test_pods_of_a_removed_node_count_again_when_it_returns(cache: Cache) -> None:
    cache.set_pod(PodInfo(pod(node="n1")))
    assert cache.remove_node("n1")
    assert not cache.remove_node("n1")
    check_cache(cache)
    cache.set_node(make_node("n1").capacity(cpu="4", memory="8Gi", pods=10).obj())
    assert cpu_requested(cache, "n1") == 1000
    check_cache(cache)


def test_a_pod_on_a_removed_node_can_be_removed(cache: Cache) -> None:
    cache.set_pod(PodInfo(pod(node="n1")))
    cache.remove_node("n1")
    cache.remove_pod("uid-a")
    check_cache(cache)
    assert cache.sizes()["pods"] == 0


def test_without_a_time_limit_an_assumed_pod_never_expires(cache: Cache) -> None:
    cache.assume(PodInfo(pod()), "n1")
    cache.finish_binding("uid-a", now=0.0)
    assert cache.expire(now=1e9) == []


def test_with_a_time_limit_an_unconfirmed_binding_expires() -> None:
    cache = Cache(assumed_ttl_s=30.0)
    cache.set_node(make_node("n1").capacity(cpu="4", memory="8Gi", pods=10).obj())
    cache.assume(PodInfo(pod()), "n1")
    assert cache.expire(now=1e9) == [], "its binding is not written yet"
    cache.finish_binding("uid-a", now=100.0)
    assert cache.expire(now=129.0) == []
    assert [info.key for info in cache.expire(now=130.0)] == ["default/a"]
    assert cpu_requested(cache, "n1") == 0


def test_a_node_that_cannot_be_read_changes_nothing(cache: Cache) -> None:
    bad = make_node("n1").capacity(cpu="-4", memory="8Gi", pods=10).obj()
    with pytest.raises(DecodeError, match="cpu"):
        cache.set_node(bad)
    info = cache.table.get("n1")
    assert info is not None
    assert info.allocatable.resources.cpu_milli == 4000


def test_the_comparer_names_what_is_missing_and_what_is_too_much(cache: Cache) -> None:
    seen = pod("seen", node="n1")
    cache.set_pod(PodInfo(seen))
    cache.assume(PodInfo(pod("assumed")), "n1")
    cache.set_pod(PodInfo(pod("stale", node="n2")))
    nodes = compare_nodes(cache, [make_node("n1").obj(), make_node("n9").obj()])
    assert (nodes.missing, nodes.redundant) == (["n9"], ["n2"])
    pods = compare_pods(cache, [seen, pod("assumed"), pod("unseen", node="n1"), pod("pending")])
    assert (pods.missing, pods.redundant) == (["uid-unseen"], ["uid-stale"])


def test_missing_objects_alone_and_redundant_ones_alone_are_a_difference(cache: Cache) -> None:
    both = [make_node("n1").obj(), make_node("n2").obj()]
    assert not compare_nodes(cache, both)
    assert compare_nodes(cache, [*both, make_node("n3").obj()])
    assert compare_nodes(cache, both[:1])


def test_the_dump_says_what_is_on_each_node(cache: Cache) -> None:
    cache.set_pod(PodInfo(pod(node="n1")))
    lines = list(dump_nodes(cache))
    assert lines[0].startswith("node n1: cpu 1000m of 4000m")
    assert "[default/a]" in lines[0]
