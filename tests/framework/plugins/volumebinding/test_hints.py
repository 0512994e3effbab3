"""Which changes wake a pod that waits for its volumes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import CSIVolumeSource, Pod, Volume
from kscheduler.api.storage import CSIStorageCapacity
from kscheduler.framework import claim_hints
from kscheduler.framework.plugins.volumebinding import hints
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from tests.framework.plugins.volumebinding.objects import (
    make_capacity,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_volume,
    pod_with,
)

WAITING = pod_with("c", ephemeral=["e"]).obj()
ELSEWHERE = make_pod("p", "elsewhere").obj()
ELSEWHERE = replace(ELSEWHERE, spec=WAITING.spec)


@pytest.mark.parametrize(
    ("waiting", "claim", "helps"),
    [
        (WAITING, make_claim("c"), True),
        (WAITING, make_claim("p-e"), True),
        (WAITING, make_claim("d"), False),
        (ELSEWHERE, make_claim("c"), False),
        (make_pod("p").obj(), make_claim("c"), False),
    ],
)
def test_a_claim_wakes_the_pods_that_have_it(waiting: Pod, claim: object, helps: bool) -> None:
    assert claim_hints.after_claim(waiting, None, claim) is helps
    assert claim_hints.after_claim(waiting, claim, claim) is helps


def test_a_class_wakes_when_it_comes_or_allows_other_nodes() -> None:
    anywhere, zone = make_class(), make_class("wait", "x", "WaitForFirstConsumer", {"zone": ["a"]})
    assert hints.after_storage_class(WAITING, None, anywhere)
    assert hints.after_storage_class(WAITING, anywhere, zone)
    assert not hints.after_storage_class(WAITING, anywhere, make_class("wait", "other"))
    assert not hints.after_storage_class(WAITING, anywhere, replace(anywhere, allowed_topologies=[]))


def test_a_csi_node_wakes_when_it_comes_or_has_migrated_others() -> None:
    before, after = make_csi_node("n"), make_csi_node("n", "kubernetes.io/aws-ebs")
    assert hints.after_csi_node(WAITING, None, before)
    assert hints.after_csi_node(WAITING, before, after)
    assert not hints.after_csi_node(WAITING, after, after)


def test_a_driver_wakes_when_it_stops_reporting_capacity() -> None:
    counting, silent = make_driver("d"), make_driver("d", None)
    assert hints.after_csi_driver(WAITING, counting, silent)
    assert hints.after_csi_driver(WAITING, counting, make_driver("d", False))
    assert not hints.after_csi_driver(WAITING, silent, counting)
    assert not hints.after_csi_driver(WAITING, counting, counting)
    assert not hints.after_csi_driver(make_pod("p").obj(), counting, silent)
    pod = make_pod("p").obj()
    inline = replace(pod, spec=replace(pod.spec, volumes=[Volume("v", csi=CSIVolumeSource("d"))]))
    assert hints.after_csi_driver(inline, counting, silent)
    assert not hints.after_csi_driver(inline, make_driver("other"), make_driver("other", None))


@pytest.mark.parametrize(
    ("before", "after", "helps"),
    [
        (None, make_capacity("k"), True),
        (make_capacity("k", capacity="1Gi"), make_capacity("k", capacity="2Gi"), True),
        (make_capacity("k", capacity="2Gi"), make_capacity("k", capacity="1Gi"), False),
        (make_capacity("k", capacity=None), make_capacity("k", capacity="1"), True),
        (make_capacity("k", capacity="1Gi"), make_capacity("k", capacity=None), False),
        (make_capacity("k", maximum="1Gi"), make_capacity("k", capacity="1Ti", maximum="1Gi"), False),
    ],
)
def test_capacity_wakes_when_larger_volumes_can_be_made(
    before: CSIStorageCapacity | None, after: CSIStorageCapacity, helps: bool
) -> None:
    assert hints.after_capacity(WAITING, before, after) is helps


def test_what_is_not_understood_wakes() -> None:
    others = (claim_hints.after_claim, hints.after_storage_class, hints.after_csi_node, hints.after_csi_driver)
    for hint in (*others, hints.after_capacity):
        assert hint(WAITING, make_volume("v"), make_volume("v"))


def test_pods_of_one_key_get_one_answer_and_the_index_finds_those_that_have_the_claim() -> None:
    pods = [
        PodInfo(each) for each in (WAITING, ELSEWHERE, pod_with("c", name="q").obj(), pod_with("c", name="r").obj())
    ]
    keys = [claim_hints.BY_CLAIMS.key(pod) for pod in pods]
    assert keys[2] == keys[3]
    assert claim_hints.BY_CLAIMS.index is not None
    index = claim_hints.BY_CLAIMS.index()
    for key in set(keys):
        index.add(key)
    for claim in (make_claim("c"), make_claim("p-e"), make_claim("d")):
        helped = {key for key, pod in zip(keys, pods, strict=True) if claim_hints.after_claim(pod.pod, None, claim)}
        assert set(index.find(None, claim)) == helped
    assert set(index.find(None, make_volume("v"))) == set(keys)
    index.remove(keys[2])
    assert set(index.find(None, make_claim("c"))) == {keys[0]}
    assert hints.BY_DRIVERS.key(pods[0]) == hints.BY_DRIVERS.key(pods[1])
