"""A node with pods of its own choosing."""

from __future__ import annotations

import pytest

from kscheduler.cache.cache import Cache
from kscheduler.snapshot.node_copy import NodeCopy
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.support.checks import check_cache


def info(pod: PodBuilder) -> PodInfo:
    return PodInfo(pod.obj())


BIG = info(make_pod("big").uid("big").node("n1").req(cpu="3", memory="1Gi", **{"example.com/gpu": "2"}))
SMALL = info(make_pod("small").uid("small").node("n1").req(cpu="1"))


def cluster() -> Cache:
    cache = Cache()
    cache.set_node(make_node("n0").capacity().obj())
    cache.set_node(make_node("n1").capacity(cpu="4", memory="8Gi", **{"example.com/gpu": "4"}).obj())
    cache.set_pod(BIG)
    return cache


def copy_of(cache: Cache) -> NodeCopy:
    node = cache.table.get("n1")
    assert node is not None
    return NodeCopy(node, cache.table.request_of)


def test_pods_move_on_the_copy_and_nowhere_else() -> None:
    cache = cluster()
    copy = copy_of(cache)
    copy.remove(BIG)
    copy.add(SMALL)
    assert list(copy.pods) == ["small"]
    assert (copy.requested.cpu_milli, copy.requested.memory, dict(copy.requested.scalars)) == (1000, 0, {})
    assert (copy.free(0), copy.free(1)) == (3000, 8 << 30)
    assert copy.non_zero_requested == (1000, 200 << 20)
    node = cache.table.get("n1")
    assert node is not None
    assert (list(node.pods), node.requested.cpu_milli, node.free(0)) == (["big"], 3000, 1000)
    check_cache(cache)


def test_there_and_back_is_as_if_nothing_had_happened() -> None:
    cache = cluster()
    copy = copy_of(cache)
    before = copy.requested, copy.non_zero_requested, dict(copy.pods)
    copy.add(SMALL)
    copy.remove(BIG)
    copy.add(BIG)
    copy.remove(SMALL)
    assert (copy.requested, copy.non_zero_requested, copy.pods) == before


def test_a_copy_of_a_copy_goes_its_own_way() -> None:
    first = copy_of(cluster())
    first.remove(BIG)
    second = NodeCopy(first, cluster().table.request_of)
    assert second.requested.cpu_milli == 0
    second.add(SMALL)
    assert (first.requested.cpu_milli, second.requested.cpu_milli) == (0, 1000)
    assert second.non_zero_requested == (1000, 200 << 20)


def test_a_pod_that_is_added_again_counts_once() -> None:
    copy = copy_of(cluster())
    copy.add(BIG)
    assert copy.requested.cpu_milli == 3000


def test_a_pod_that_is_not_there_cannot_leave() -> None:
    with pytest.raises(KeyError):
        copy_of(cluster()).remove(SMALL)


def test_all_else_is_that_of_the_node() -> None:
    cache = cluster()
    node, copy = cache.table.get("n1"), copy_of(cache)
    assert node is not None
    assert (copy.name, copy.row, copy.node_class, copy.allocatable, copy.labels) == (
        node.name,
        node.row,
        node.node_class,
        node.allocatable,
        node.labels,
    )
