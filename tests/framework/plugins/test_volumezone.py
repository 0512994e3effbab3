from __future__ import annotations

import pytest

from kscheduler.api.objects import ObjectMeta, PersistentVolumeClaimSpec
from kscheduler.api.storage import BETA_STORAGE_CLASS, PersistentVolumeClaim
from kscheduler.api.topology_labels import BETA_REGION, BETA_ZONE, REGION, ZONE
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import Registration
from kscheduler.framework.plugins.volumezone import REASON, VolumeZone
from kscheduler.framework.status import SKIP, Code, Status
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.support.framework_bench import Bench
from tests.support.storage import (
    claim,
    ephemeral,
    labelled_volume,
    storage_class,
    with_claims,
    with_volumes,
)


def bench(*volume_labels: str) -> Bench:
    """With claim c bound to a volume that has these labels."""
    made = Bench.of(VolumeZone)
    made.handle.volumes.set_claim(claim("c", "v"))
    made.handle.volumes.set_volume(labelled_volume("v", *volume_labels))
    return made


def feasible(volume_labels: tuple[str, ...], *nodes: tuple[str, ...]) -> list[int]:
    """Which of the nodes, each given as its labels, the volume can be used on."""
    made = bench(*volume_labels)
    for index, labels in enumerate(nodes):
        made.node(make_node(f"{index}").label(*labels))
    return [int(name) for name in made.feasible(with_claims(make_pod("p"), "c"))]


@pytest.mark.parametrize("label", [BETA_ZONE, BETA_REGION, ZONE, REGION])
def test_a_volume_is_used_where_its_label_says(label: str) -> None:
    assert feasible((label, "a"), (label, "a"), (label, "b")) == [0]


def test_nodes_without_any_zone_or_region_take_every_volume() -> None:
    assert feasible((ZONE, "a"), (), ("other", "a"), (REGION, "a")) == [0, 1]


def test_a_volume_may_be_in_several_zones() -> None:
    assert feasible((ZONE, "a__b"), (ZONE, "a"), (ZONE, "b"), (ZONE, "c"), (ZONE, "a__b")) == [0, 1]


def test_every_label_of_a_volume_must_be_met() -> None:
    labels = (ZONE, "a", REGION, "r")
    assert feasible(labels, (ZONE, "a", REGION, "r"), (ZONE, "a"), (ZONE, "b", REGION, "r")) == [0]


def test_beta_labels_of_volumes_meet_the_labels_that_took_their_place_and_not_the_other_way_round() -> None:
    assert feasible((BETA_ZONE, "a"), (ZONE, "a"), (ZONE, "b"), (BETA_ZONE, "b", ZONE, "a")) == [0]
    assert feasible((BETA_REGION, "r"), (REGION, "r"), (ZONE, "r")) == [0]
    assert feasible((ZONE, "a"), (BETA_ZONE, "a"), (ZONE, "a")) == [1]


def test_a_label_with_an_empty_zone_says_nothing() -> None:
    assert feasible((ZONE, "a__"), (ZONE, "b")) == [0]
    assert feasible((ZONE, ""), (ZONE, "b")) == [0]
    assert feasible((ZONE, "a__", REGION, "r"), (ZONE, "b", REGION, "r"), (ZONE, "b")) == [0]


def test_a_volume_elsewhere_is_nothing_that_removing_pods_can_help() -> None:
    made = bench(ZONE, "a")
    made.node(make_node("n1").label(ZONE, "b"))
    rejection = made.reject(with_claims(make_pod("p"), "c"))
    assert rejection.message == f"0/1 nodes are available: 1 {REASON}."
    assert rejection.diagnosis.node_statuses()["n1"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_relabelling_a_volume_or_a_node_counts_at_once() -> None:
    made = bench(ZONE, "a")
    made.node(make_node("n1").label(ZONE, "b"))
    pod = with_claims(make_pod("p"), "c")
    assert made.feasible(pod) == []
    made.node(make_node("n1").label(ZONE, "a"))
    assert made.feasible(pod) == ["n1"]
    made.handle.volumes.set_volume(labelled_volume("v", ZONE, "b"))
    assert made.feasible(pod) == []


# --- PreFilter ----------------------------------------------------------------------------------------------------


def pre_filter(made: Bench, *names: str) -> Status | None:
    plugin = made._plugins["preFilter"][0]
    status: Status | None = plugin.pre_filter(CycleState(), PodInfo(with_claims(make_pod("p"), *names).obj()))[1]
    return status


def test_pods_without_labelled_volumes_are_not_looked_at() -> None:
    assert pre_filter(bench()) == SKIP
    assert pre_filter(bench("other", "x"), "c") == SKIP
    assert pre_filter(bench(ZONE, "a"), "c") is None


def test_claims_made_for_the_pod_alone_are_left_out() -> None:
    made = bench()
    made.nodes("n1")
    made.schedule(with_volumes(make_pod("p"), ephemeral("scratch")))
    assert made.state.skip_filter == {"VolumeZone"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "PersistentVolumeClaim had no name"),
        ("missing", 'persistentvolumeclaim "missing" not found'),
        ("lost", 'persistentvolume "gone" not found'),
        ("plain", "PersistentVolumeClaim had no pv name and storageClass name"),
        ("none", "PersistentVolumeClaim had no pv name and storageClass name"),
        ("unknown", 'storageclass.storage.k8s.io "x" not found'),
        ("modeless", 'VolumeBindingMode not set for StorageClass "modeless"'),
        ("immediate", "PersistentVolume had no name"),
    ],
)
def test_a_claim_that_is_not_bound_and_will_not_be_by_placing_the_pod_ends_the_cycle(name: str, reason: str) -> None:
    made = bench()
    volumes = made.handle.volumes
    volumes.set_storage_class(storage_class("modeless", mode=None))
    volumes.set_storage_class(storage_class("immediate", mode="Immediate"))
    volumes.set_storage_class(storage_class("waiting"))
    for made_claim in (
        claim("lost", "gone"),
        claim("plain"),
        claim("none", of_class=""),
        claim("unknown", of_class="x"),
        claim("modeless", of_class="modeless"),
        claim("immediate", of_class="immediate"),
        claim("waiting", of_class="waiting"),
    ):
        volumes.set_claim(made_claim)
    assert pre_filter(made, "waiting") == SKIP
    assert pre_filter(made, "waiting", name, "missing") == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))


def test_the_annotation_for_the_class_is_stronger_than_the_field() -> None:
    made = bench()
    made.handle.volumes.set_storage_class(storage_class("waiting"))
    metadata = ObjectMeta(name="old", namespace="default", annotations={BETA_STORAGE_CLASS: "waiting"})
    made.handle.volumes.set_claim(PersistentVolumeClaim(metadata, PersistentVolumeClaimSpec(storage_class_name="x")))
    assert pre_filter(made, "old") == SKIP


# --- hints --------------------------------------------------------------------------------------------------------


def hint(event: str, old: object, new: object) -> bool:
    plugin: VolumeZone = bench()._plugins["filter"][0]
    registered = {
        registration.event.label: registration.hint
        for registration in plugin.events_to_register()
        if isinstance(registration, Registration) and registration.hint is not None
    }
    (found,) = (hint for label, hint in registered.items() if label.startswith(event))
    return found(with_claims(make_pod("waiting"), "c").obj(), old, new)


def test_a_class_wakes_pods_if_its_claims_wait_for_them() -> None:
    assert hint("storage.k8s.io/StorageClass", None, storage_class("x"))
    assert not hint("storage.k8s.io/StorageClass", None, storage_class("x", mode="Immediate"))
    assert not hint("storage.k8s.io/StorageClass", None, storage_class("x", mode=None))


def test_a_claim_that_is_new_or_changed_wakes_the_pods_that_name_it() -> None:
    event = "PersistentVolumeClaim"
    assert hint(event, None, claim("c"))
    assert hint(event, claim("c"), claim("c", "v"))
    assert not hint(event, None, claim("other"))
    assert not hint(event, None, claim("c", namespace="elsewhere"))


def test_a_volume_wakes_pods_if_it_is_new_or_has_moved() -> None:
    event = "PersistentVolumeAdd"
    here = labelled_volume("v", ZONE, "a")
    assert hint(event, None, here)
    assert hint(event, here, labelled_volume("v", ZONE, "b"))
    assert hint(event, here, labelled_volume("v"))
    assert not hint(event, here, labelled_volume("v", ZONE, "a", "other", "x"))
    assert not hint(event, labelled_volume("v", ZONE, "a__b"), labelled_volume("v", ZONE, "b__a"))


def test_what_is_no_such_object_wakes() -> None:
    for event in ("storage.k8s.io/StorageClass", "PersistentVolumeClaim", "PersistentVolumeAdd"):
        assert hint(event, None, None)
