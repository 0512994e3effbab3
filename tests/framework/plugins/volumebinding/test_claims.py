"""Which claims keep a pod waiting, and in which words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.storage import PersistentVolumeClaim, StorageClass
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugins.volumebinding.claims import PodClaims, find_claims
from kscheduler.framework.status import SKIP, Code, Status
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.volumes import Volumes
from kscheduler.testing import PodBuilder, make_pod
from tests.framework.plugins.volumebinding.both_forms import Judge
from tests.framework.plugins.volumebinding.objects import make_claim, make_class, pod_with

OWNER = pod_with(ephemeral=["e"], name="owner")


def known(*objects: PersistentVolumeClaim | StorageClass) -> Volumes:
    volumes = Volumes()
    for each in objects:
        if isinstance(each, StorageClass):
            volumes.set_storage_class(each)
        else:
            volumes.set_claim(each)
    return volumes


def rejected(pod: PodBuilder, volumes: Volumes) -> Status:
    found = find_claims(pod.obj(), volumes)
    assert isinstance(found, Status), found
    return found


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (None, 'persistentvolumeclaim "c" not found'),
        (
            make_claim("c", volume="v", phase="Lost"),
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        (make_claim("c", deleted=True), 'persistentvolumeclaim "c" is being deleted'),
        (make_claim("c", "now"), "pod has unbound immediate PersistentVolumeClaims"),
        (make_claim("c", "no-such-class"), "pod has unbound immediate PersistentVolumeClaims"),
        (make_claim("c", None), "pod has unbound immediate PersistentVolumeClaims"),
    ],
)
def test_a_claim_that_is_not_ready_keeps_the_pod_waiting(claim: PersistentVolumeClaim | None, words: str) -> None:
    volumes = known(make_class("now", mode="Immediate"), make_class(), *([claim] if claim else []))
    status = rejected(pod_with("c"), volumes)
    assert (status.code, status.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, words)


def test_a_claim_that_names_its_volume_waits_for_the_controller() -> None:
    claim = make_claim("c")
    claim = replace(claim, spec=replace(claim.spec, volume_name="v"))
    assert "unbound immediate" in rejected(pod_with("c"), known(make_class(), claim)).message


def test_an_ephemeral_volume_waits_for_its_claim() -> None:
    assert rejected(OWNER, known()).message == (
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "owner-e"'
    )


def test_a_claim_that_has_the_name_of_an_ephemeral_one_by_chance_is_refused() -> None:
    status = rejected(OWNER, known(make_class(), make_claim("owner-e", owner=make_pod("stranger").obj())))
    assert status.message == "PVC default/owner-e was not created for pod default/owner (pod is not owner)"


def test_the_claim_of_an_ephemeral_volume_is_one_like_others() -> None:
    claim = make_claim("owner-e", owner=OWNER.obj())
    assert find_claims(OWNER.obj(), known(make_class(), claim)) == PodClaims((), (claim,))


def test_a_class_without_a_binding_mode_is_a_fault() -> None:
    status = rejected(pod_with("c"), known(make_class(mode=None), make_claim("c")))
    assert (status.code, status.message) == (Code.ERROR, 'VolumeBindingMode not set for StorageClass "wait"')


def test_claims_are_distinguished_by_what_is_to_be_done() -> None:
    bound, open_claim = make_claim("b", volume="v"), make_claim("c")
    found = find_claims(pod_with("b", "c").obj(), known(make_class(), bound, open_claim))
    assert found == PodClaims((bound,), (open_claim,))


def test_a_missing_claim_is_reported_before_one_that_is_only_unbound() -> None:
    volumes = known(make_class("now", mode="Immediate"), make_claim("c", "now"))
    assert rejected(pod_with("c", "d"), volumes).message == 'persistentvolumeclaim "d" not found'


def test_the_old_annotation_names_the_class() -> None:
    claim = make_claim("c", "now")
    annotations = {"volume.beta.kubernetes.io/storage-class": "wait"}
    claim = replace(claim, metadata=replace(claim.metadata, annotations=annotations))
    volumes = known(make_class("now", mode="Immediate"), make_class(), claim)
    assert find_claims(pod_with("c").obj(), volumes) == PodClaims((), (claim,))


def test_pre_filter_passes_the_words_on_and_skips_pods_without_claims() -> None:
    plugin = Judge().plugin
    _, status = plugin.pre_filter(CycleState(), PodInfo(pod_with("c").obj()))
    assert status is not None
    assert status.message == 'persistentvolumeclaim "c" not found'
    assert plugin.pre_filter(CycleState(), PodInfo(make_pod("p").obj())) == (None, SKIP)


def test_a_claim_that_cannot_be_read_is_a_fault_that_names_the_field() -> None:
    judged = Judge()
    volumes = judged.volumes
    volumes.set_storage_class(make_class())
    volumes.set_claim(make_claim("c", size="much"))
    _, status = judged.plugin.pre_filter(CycleState(), PodInfo(pod_with("c").obj()))
    assert status is not None
    assert status.code is Code.ERROR
    assert "spec.resources.requests.storage" in status.message
