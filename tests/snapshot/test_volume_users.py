from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.objects import RBD, AWSElasticBlockStore, Cinder, GCEPersistentDisk, Volume
from kscheduler.cache.cache import Cache
from kscheduler.errors import InternalError
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.volume_users import Mount, VolumeUsers, conflict, mounts_of
from kscheduler.testing import make_node, make_pod
from tests.support.checks import check_cache, check_volume_users
from tests.support.storage import ephemeral, of_claim, with_volumes

VOLUMES = (
    of_claim("a"),
    of_claim("b"),
    ephemeral("scratch"),
    Volume(gce_persistent_disk=GCEPersistentDisk("disk")),
    Volume(gce_persistent_disk=GCEPersistentDisk("disk", read_only=True)),
    Volume(aws_elastic_block_store=AWSElasticBlockStore("vol-1", read_only=True)),
    Volume(rbd=RBD(["m1", "m2"], "image", "pool")),
    Volume(rbd=RBD(["m2", "m3"], "image", "pool", read_only=True)),
    Volume(cinder=Cinder("c")),
    Volume(name="config"),
)


def pod(name: str, *volumes: Volume) -> PodInfo:
    return PodInfo(with_volumes(make_pod(name), *volumes).obj())


def test_a_claim_is_in_use_while_a_pod_on_a_node_names_it() -> None:
    users = VolumeUsers()
    one, two = pod("one", of_claim("c"), of_claim("c")), pod("two", of_claim("c"))
    users.add(0, one)
    users.add(5, two)
    assert users.is_claim_in_use("default", "c")
    assert not users.is_claim_in_use("elsewhere", "c")
    users.remove(0, one)
    assert users.is_claim_in_use("default", "c")
    users.remove(5, two)
    assert not users.is_claim_in_use("default", "c")


def test_a_claim_made_for_one_pod_is_nobody_elses() -> None:
    users = VolumeUsers()
    users.add(0, pod("one", ephemeral("scratch")))
    assert not users.is_claim_in_use("default", "one-scratch")
    assert [info.key for info in users.pods_on(0)] == ["default/one"]


def test_pods_without_claims_and_in_tree_volumes_leave_no_trace() -> None:
    users = VolumeUsers()
    reported: list[int] = []
    users.watch(reported.append)
    users.add(0, pod("plain"))
    users.add(0, pod("config", Volume()))
    users.remove(0, pod("plain"))
    assert not list(users.pods_on(0))
    assert reported == []


def test_watchers_are_notified_of_rows_whose_users_or_nodes_change() -> None:
    cache = Cache()
    reported: list[int] = []
    cache.table.volume_users.watch(reported.append)
    for name in ("n0", "n1"):
        cache.set_node(make_node(name).obj())
    assert reported == [0, 1]
    cache.set_pod(PodInfo(with_volumes(make_pod("p"), of_claim("c")).node("n1").obj()))
    cache.set_node(make_node("n1").label(a="b").obj())
    assert reported == [0, 1, 1]
    cache.remove_node("n1")
    assert set(reported[3:]) == {1}
    assert not cache.table.volume_users.is_claim_in_use("default", "c")
    cache.set_node(make_node("n1").obj())
    assert cache.table.volume_users.is_claim_in_use("default", "c")
    check_cache(cache)


def test_the_check_finds_what_does_not_agree() -> None:
    users = VolumeUsers()
    users.add(0, pod("one", of_claim("c")))
    check_volume_users(users, [(0, pod("one", of_claim("c")))])
    with pytest.raises(InternalError, match="claims in use: expected"):
        check_volume_users(users, [])
    with pytest.raises(InternalError, match="claims in use"):
        check_volume_users(users, [(1, pod("one", of_claim("c")))])
    with pytest.raises(InternalError, match="pods with volumes"):
        check_volume_users(users, [(0, pod("two", of_claim("c")))])
    with pytest.raises(InternalError, match="disks in use"):
        check_volume_users(users, [(0, pod("one", of_claim("c"), VOLUMES[3]))])


def _clash(one: Mount, other: Mount) -> bool:
    return one.disk == other.disk and not (one.read_only and other.read_only)


kinds = st.lists(st.sampled_from(VOLUMES), max_size=3)


@given(st.lists(st.tuples(st.integers(0, 2), kinds), max_size=8), kinds, st.data())
def test_rows_in_conflict_are_those_of_the_pods_in_conflict(
    placed: list[tuple[int, list[Volume]]], wanted: list[Volume], data: st.DataObject
) -> None:
    users = VolumeUsers()
    pods = [(row, pod(f"p{i}", *volumes)) for i, (row, volumes) in enumerate(placed)]
    for row, info in pods:
        users.add(row, info)
    gone = data.draw(st.integers(0, len(pods)))
    for row, info in pods[:gone]:
        users.remove(row, info)
    check_volume_users(users, pods[gone:])
    mounts = mounts_of(pod("new", *wanted).pod)
    in_conflict = set()
    for row, info in pods[gone:]:
        there = mounts_of(info.pod)
        clash = any(_clash(one, other) for one in mounts for other in there)
        assert conflict(mounts, there) == clash
        if clash:
            in_conflict.add(row)
    assert users.rows_in_conflict(mounts) == sorted(in_conflict)
