"""A waiting pod is woken by what may make room for its volumes."""

from __future__ import annotations

import pytest

from kscheduler.api.objects import ISCSI, AWSElasticBlockStore, GCEPersistentDisk, Volume, VsphereVolume
from kscheduler.framework.claim_hints import after_claim
from kscheduler.framework.events import ClusterEvent, Registration
from kscheduler.framework.plugins.nodevolumelimits.hints import (
    after_attachment_deleted,
    after_csi_node_updated,
    after_pod_deleted,
)
from kscheduler.framework.plugins.nodevolumelimits.plugin import NodeVolumeLimits
from kscheduler.testing import make_pod
from tests.support.framework_bench import Bench
from tests.support.storage import EBS, attachment, claim, csi_node, ephemeral, of_claim, with_volumes

WAITING = make_pod("waiting")
DISK = Volume(aws_elastic_block_store=AWSElasticBlockStore("vol-1"))


def test_only_new_csi_nodes_wake_pods_without_a_hint() -> None:
    labels = {
        (registration.event if isinstance(registration, Registration) else registration).label: isinstance(
            registration, ClusterEvent
        )
        for registration in Bench.of(NodeVolumeLimits)._plugins["filter"][0].events_to_register()
    }  # label -> does it wake every pod?
    assert labels == {
        "storage.k8s.io/CSINodeAdd": True,
        "storage.k8s.io/CSINodeUpdate": False,
        "AssignedPodDelete": False,
        "PersistentVolumeClaimAdd": False,
        "storage.k8s.io/VolumeAttachmentDelete": False,
    }


@pytest.mark.parametrize(
    ("before", "after", "wakes"),
    [
        ({EBS: 1}, {EBS: 2}, True),
        ({EBS: 2}, {EBS: 1}, False),
        ({EBS: 2}, {EBS: 2}, False),
        ({}, {EBS: 1}, True),
        ({EBS: None}, {EBS: 1}, True),
        ({EBS: 1}, {EBS: None}, False),
        ({EBS: 1}, {}, False),
        ({EBS: 2, "other": 1}, {EBS: 1, "other": 2}, True),
    ],
)
def test_a_limit_that_rises_wakes(before: dict[str, int | None], after: dict[str, int | None], wakes: bool) -> None:
    assert after_csi_node_updated(WAITING.obj(), csi_node("n", before), csi_node("n", after)) == wakes


@pytest.mark.parametrize(
    ("volumes", "wakes"),
    [
        ((of_claim("c"),), True),
        ((ephemeral("scratch"),), True),
        ((Volume(), DISK), True),
        ((Volume(iscsi=ISCSI()),), False),
        ((), False),
    ],
)
def test_a_pod_with_volumes_wakes_others_when_it_goes(volumes: tuple[Volume, ...], wakes: bool) -> None:
    gone = with_volumes(make_pod("gone").node("n"), *volumes)
    assert after_pod_deleted(WAITING.obj(), gone.obj(), None) == wakes
    assumed = with_volumes(make_pod("gone"), *volumes)
    assert after_pod_deleted(WAITING.obj(), assumed.obj(), None) == wakes


def test_a_claim_that_comes_wakes_the_pods_that_use_it() -> None:
    waiting = with_volumes(WAITING, Volume(), of_claim("c"), ephemeral("scratch")).obj()
    assert after_claim(waiting, None, claim("c"))
    assert after_claim(waiting, None, claim("waiting-scratch"))
    assert not after_claim(waiting, None, claim("scratch"))
    assert not after_claim(waiting, None, claim("c", namespace="elsewhere"))


@pytest.mark.parametrize(
    ("volumes", "driver", "wakes"),
    [
        ((of_claim("c"),), "any", True),
        ((DISK,), EBS, True),
        ((DISK,), "other", False),
        ((Volume(gce_persistent_disk=GCEPersistentDisk("d")), DISK), EBS, True),
        ((Volume(vsphere_volume=VsphereVolume("p")),), "csi.vsphere.vmware.com", True),
        ((Volume(aws_elastic_block_store=AWSElasticBlockStore("aws://zone/x")),), "other", True),
        ((ephemeral("scratch"),), EBS, False),  # as kube-scheduler has it
        ((Volume(),), EBS, False),
        ((), EBS, False),
    ],
)
def test_an_attachment_that_goes_wakes_claims_and_its_own_drivers_disks(
    volumes: tuple[Volume, ...], driver: str, wakes: bool
) -> None:
    waiting = with_volumes(WAITING, *volumes).obj()
    assert after_attachment_deleted(waiting, attachment("a", "n", "v", driver), None) == wakes


def test_what_is_no_such_object_wakes() -> None:
    waiting = WAITING.obj()
    for hint in (after_csi_node_updated, after_pod_deleted, after_claim, after_attachment_deleted):
        assert hint(waiting, None, None)
