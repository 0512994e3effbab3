"""Claims and volumes find each other as kube-controller-manager and provisioners would have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.objects import (
    EphemeralVolumeSource,
    Labels,
    LabelSelector,
    ObjectMeta,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    Pod,
    ResourceRequirements,
    Volume,
)
from kscheduler.api.storage import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    IMMEDIATE,
    PROVISIONED_BY,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
    TopologySelectorRequirement,
    TopologySelectorTerm,
    is_made_for,
)
from kscheduler.client.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.volume_controller import VolumeController
from kscheduler.testing import make_node, make_pod
from tests.support.clocks import ManualClock

DRIVER = "disk.example.com"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class Bench:
    """A cluster whose controller looks when `settle` is called."""

    def __init__(self) -> None:
        self.cluster = Cluster(ManualClock())
        self.deferred: list[Callable[[], None]] = []
        self.controller = VolumeController(self.cluster, self.deferred.append)

    def settle(self) -> None:
        while self.deferred:
            self.deferred.pop(0)()

    def add(self, item: Any) -> None:
        self.cluster.create_object(item)
        self.settle()

    def volume(self, name: str) -> PersistentVolume:
        found: PersistentVolume = self.cluster.store(PERSISTENT_VOLUMES).objects[name]
        return found

    def claim(self, name: str) -> PersistentVolumeClaim:
        found: PersistentVolumeClaim = self.cluster.store(PERSISTENT_VOLUME_CLAIMS).objects[f"default/{name}"]
        return found

    @property
    def volumes(self) -> dict[str, PersistentVolume]:
        return self.cluster.store(PERSISTENT_VOLUMES).objects

    def delete_claim(self, name: str) -> None:
        self.cluster.delete_object(PERSISTENT_VOLUME_CLAIMS, f"default/{name}")
        self.settle()

    def annotate(self, name: str, **annotations: str) -> None:
        claim = self.claim(name)
        patch: dict[str, object] = {"metadata": {"annotations": annotations}}
        self.cluster.patch_object(PERSISTENT_VOLUME_CLAIMS, claim.key, claim.metadata.resource_version, patch)
        self.settle()

    def select_node(self, name: str, node_name: str) -> None:
        """What the scheduler does."""
        self.annotate(name, **{SELECTED_NODE: node_name})

    def promise(self, volume_name: str, claim_name: str) -> None:
        """What the scheduler does."""
        claim, volume = self.claim(claim_name), self.volume(volume_name)
        reference = {"namespace": "default", "name": claim_name, "uid": claim.metadata.uid}
        patch: dict[str, object] = {"spec": {"claimRef": reference}}
        self.cluster.patch_object(PERSISTENT_VOLUMES, volume_name, volume.metadata.resource_version, patch)
        self.settle()

    def check(self) -> None:
        """Whatever is bound is bound from both sides, and one to one."""
        for volume in self.volumes.values():
            if volume.status.phase == "Bound":
                assert volume.spec.claim_ref is not None
                claim = self.claim(volume.spec.claim_ref.name)
                assert (claim.metadata.uid, claim.spec.volume_name) == (volume.spec.claim_ref.uid, volume.key)
        for claim in self.cluster.store(PERSISTENT_VOLUME_CLAIMS).objects.values():
            if claim.status.phase == "Bound":
                assert self.volume(claim.spec.volume_name).status.phase == "Bound"
                assert BIND_COMPLETED in claim.metadata.annotations


@pytest.fixture
def bench() -> Bench:
    return Bench()


def a_class(name: str, mode: str = IMMEDIATE, provisioner: str = NO_PROVISIONER) -> StorageClass:
    return StorageClass(ObjectMeta(name=name), provisioner, mode)


def volume(name: str, size: str = "1Gi", of_class: str = "", labels: Labels | None = None, **spec: Any) -> Any:
    spec = {"access_modes": ["ReadWriteOnce"], **spec}
    return PersistentVolume(
        ObjectMeta(name=name, labels=labels),
        PersistentVolumeSpec(capacity={"storage": size}, storage_class_name=of_class, **spec),
    )


def claim(name: str, size: str = "1Gi", of_class: str = "", **spec: Any) -> PersistentVolumeClaim:
    spec = {"access_modes": ["ReadWriteOnce"], **spec}
    resources = ResourceRequirements(requests={"storage": size})
    return PersistentVolumeClaim(
        ObjectMeta(name=name, namespace="default"),
        PersistentVolumeClaimSpec(resources=resources, storage_class_name=of_class, **spec),
    )


# --- claims that are bound at once --------------------------------------------------------------------------------


def test_a_new_volume_is_available(bench: Bench) -> None:
    bench.add(volume("pv"))
    assert bench.volume("pv").status.phase == "Available"


def test_a_claim_and_a_volume_that_will_do_are_bound_from_both_sides(bench: Bench) -> None:
    bench.add(volume("pv", "2Gi"))
    bench.add(claim("data", "1Gi"))
    bound, taken = bench.claim("data"), bench.volume("pv")
    assert (bound.status.phase, bound.spec.volume_name, bound.status.capacity) == ("Bound", "pv", {"storage": "2Gi"})
    assert bound.metadata.annotations == {BOUND_BY_CONTROLLER: "yes", BIND_COMPLETED: "yes"}
    assert taken.status.phase == "Bound"
    assert taken.spec.claim_ref is not None
    assert taken.spec.claim_ref.uid == bound.metadata.uid
    assert taken.metadata.annotations == {BOUND_BY_CONTROLLER: "yes"}


def test_whichever_comes_first_waits_for_the_other(bench: Bench) -> None:
    bench.add(claim("data"))
    assert bench.claim("data").status.phase == "Pending"
    bench.add(volume("pv"))
    assert bench.claim("data").spec.volume_name == "pv"


def test_the_smallest_volume_that_will_do_is_taken_and_of_equals_the_first_by_name(bench: Bench) -> None:
    for name, size in (("large", "9Gi"), ("b", "2Gi"), ("a", "2048Mi"), ("small", "500Mi")):
        bench.add(volume(name, size))
    bench.add(claim("data", "1Gi"))
    assert bench.claim("data").spec.volume_name == "a"


UNFIT: dict[str, Any] = {
    "too small": volume("pv", "1023Mi"),
    "of another class": volume("pv", of_class="fast"),
    "another access mode": volume("pv", access_modes=["ReadOnlyMany"]),
    "another volume mode": volume("pv", volume_mode="Block"),
    "other labels": volume("pv", labels={"tier": "slow"}),
    "promised to another": volume("pv", claim_ref=ObjectReference(namespace="default", name="other")),
    "promised to a namesake": volume("pv", claim_ref=ObjectReference(namespace="default", name="data", uid="old")),
}


@pytest.mark.parametrize("unfit", UNFIT.values(), ids=UNFIT)
def test_a_volume_that_will_not_do_is_left_alone(bench: Bench, unfit: PersistentVolume) -> None:
    bench.add(unfit)
    bench.add(claim("data", selector=LabelSelector({"tier": "fast"}) if unfit.metadata.labels else None))
    assert bench.claim("data").status.phase == "Pending"
    assert bench.claim("data").spec.volume_name == ""


def test_a_volume_a_user_promised_is_taken_though_a_smaller_one_is_free(bench: Bench) -> None:
    bench.add(volume("small"))
    bench.add(volume("mine", "9Gi", claim_ref=ObjectReference(namespace="default", name="data")))
    assert bench.volume("mine").status.phase == "Available"
    bench.add(claim("data"))
    assert bench.claim("data").spec.volume_name == "mine"
    assert bench.volume("mine").spec.claim_ref is not None
    assert bench.volume("mine").spec.claim_ref.uid == bench.claim("data").metadata.uid  # type: ignore[union-attr]
    assert bench.volume("mine").metadata.annotations is None, "the user chose it"


def test_a_claim_that_names_its_volume_gets_that_one(bench: Bench) -> None:
    bench.add(claim("data", volume_name="mine"))
    bench.add(volume("other"))
    assert bench.claim("data").status.phase == "Pending"
    bench.add(volume("mine", "9Gi"))
    assert bench.claim("data").status.phase == "Bound"
    assert bench.volume("other").status.phase == "Available"


# --- claims that wait for their pod -------------------------------------------------------------------------------


def test_a_claim_of_a_waiting_class_is_left_to_the_scheduler(bench: Bench) -> None:
    bench.add(a_class("local", WAIT_FOR_FIRST_CONSUMER))
    bench.add(volume("pv", of_class="local"))
    bench.add(claim("data", of_class="local"))
    assert bench.claim("data").status.phase == "Pending"
    assert bench.volume("pv").status.phase == "Available"


def test_the_schedulers_promise_is_completed(bench: Bench) -> None:
    bench.add(a_class("local", WAIT_FOR_FIRST_CONSUMER))
    bench.add(volume("pv", of_class="local"))
    bench.add(claim("data", of_class="local"))
    bench.promise("pv", "data")
    assert (bench.claim("data").status.phase, bench.claim("data").spec.volume_name) == ("Bound", "pv")
    assert bench.volume("pv").status.phase == "Bound"


def test_a_volume_is_made_when_the_scheduler_has_chosen_a_node(bench: Bench) -> None:
    bench.cluster.create_node(make_node("n1").label("zone", "a").obj())
    bench.add(a_class("disks", WAIT_FOR_FIRST_CONSUMER, DRIVER))
    bench.add(CSINode(ObjectMeta(name="n1"), CSINodeSpec([CSINodeDriver(DRIVER, topology_keys=["zone"])])))
    bench.add(claim("data", "3Gi", of_class="disks"))
    assert not bench.volumes
    bench.select_node("data", "n1")
    (made,) = bench.volumes.values()
    assert bench.claim("data").spec.volume_name == made.key
    assert made.spec.capacity == {"storage": "3Gi"}
    assert made.metadata.annotations == {PROVISIONED_BY: DRIVER}
    assert made.spec.csi is not None
    assert made.spec.csi.driver == DRIVER
    assert made.spec.node_affinity is not None
    assert made.spec.node_affinity.required is not None
    (term,) = made.spec.node_affinity.required.node_selector_terms
    assert [(each.key, each.values) for each in term.match_expressions or ()] == [("zone", ["a"])]
    bench.check()


def test_a_driver_that_reports_no_topology_reaches_every_node(bench: Bench) -> None:
    bench.cluster.create_node(make_node("n1").obj())
    bench.add(a_class("disks", WAIT_FOR_FIRST_CONSUMER, DRIVER))
    bench.add(claim("data", of_class="disks"))
    bench.select_node("data", "n1")
    (made,) = bench.volumes.values()
    assert made.spec.node_affinity is None


def test_a_chosen_node_that_has_gone_is_given_back_to_the_scheduler(bench: Bench) -> None:
    bench.add(a_class("disks", WAIT_FOR_FIRST_CONSUMER, DRIVER))
    bench.add(claim("data", of_class="disks"))
    bench.select_node("data", "gone")
    assert SELECTED_NODE not in (bench.claim("data").metadata.annotations or {})
    assert not bench.volumes


def test_an_immediate_class_makes_volumes_within_its_own_topology(bench: Bench) -> None:
    term = TopologySelectorTerm([TopologySelectorRequirement("zone", ["a", "b"])])
    bench.add(replace(a_class("disks", IMMEDIATE, DRIVER), allowed_topologies=[term]))
    bench.add(claim("data", of_class="disks"))
    (made,) = bench.volumes.values()
    assert bench.claim("data").status.phase == "Bound"
    assert made.spec.node_affinity is not None
    assert made.spec.node_affinity.required is not None
    (found,) = made.spec.node_affinity.required.node_selector_terms
    assert [(each.key, each.values) for each in found.match_expressions or ()] == [("zone", ["a", "b"])]


def test_a_class_that_comes_late_serves_the_claims_that_wait_for_it(bench: Bench) -> None:
    bench.add(claim("data", of_class="disks"))
    assert not bench.volumes
    bench.add(a_class("disks", IMMEDIATE, DRIVER))
    assert bench.claim("data").status.phase == "Bound"


def test_a_free_volume_is_taken_before_one_is_made(bench: Bench) -> None:
    bench.add(a_class("disks", IMMEDIATE, DRIVER))
    bench.add(volume("pv", of_class="disks"))
    bench.add(claim("data", of_class="disks"))
    assert bench.claim("data").spec.volume_name == "pv"
    assert set(bench.volumes) == {"pv"}


# --- the end of things --------------------------------------------------------------------------------------------


def test_a_volume_outlives_its_claim_but_takes_no_other(bench: Bench) -> None:
    bench.add(volume("pv"))
    bench.add(claim("data"))
    bench.delete_claim("data")
    assert bench.volume("pv").status.phase == "Released"
    bench.add(claim("data"))
    assert bench.claim("data").status.phase == "Pending"


def test_a_volume_that_was_made_goes_with_its_claim(bench: Bench) -> None:
    bench.add(a_class("disks", IMMEDIATE, DRIVER))
    bench.add(claim("data", of_class="disks"))
    assert bench.volumes
    bench.delete_claim("data")
    assert not bench.volumes


def test_a_promise_to_a_claim_that_goes_before_it_is_kept_ends(bench: Bench) -> None:
    bench.add(a_class("local", WAIT_FOR_FIRST_CONSUMER))
    bench.add(volume("pv", of_class="local"))
    bench.add(claim("data", of_class="local"))
    bench.cluster.delete_object(PERSISTENT_VOLUME_CLAIMS, "default/data")
    reference = {"namespace": "default", "name": "data", "uid": "of the one that went"}
    bench.cluster.patch_object(
        PERSISTENT_VOLUMES, "pv", bench.volume("pv").metadata.resource_version, {"spec": {"claimRef": reference}}
    )
    bench.settle()
    assert bench.volume("pv").status.phase == "Released"


def test_a_claim_whose_volume_has_gone_is_lost(bench: Bench) -> None:
    bench.add(volume("pv"))
    bench.add(claim("data"))
    bench.cluster.delete_object(PERSISTENT_VOLUMES, "pv")
    bench.settle()
    assert bench.claim("data").status.phase == "Lost"


def test_a_second_volume_promised_to_a_bound_claim_is_free_again(bench: Bench) -> None:
    bench.add(volume("pv"))
    bench.add(claim("data"))
    bench.add(volume("second"))
    bench.promise("second", "data")
    assert bench.volume("second").status.phase == "Available"
    assert bench.claim("data").spec.volume_name == "pv"
    bench.check()


# --- generic ephemeral volumes ------------------------------------------------------------------------------------


def pod_with_ephemeral(name: str = "web") -> Pod:
    template = PersistentVolumeClaimTemplate(ObjectMeta(labels={"a": "b"}), claim("", of_class="").spec)
    made = make_pod(name).obj()
    return replace(made, spec=replace(made.spec, volumes=[Volume("v", ephemeral=EphemeralVolumeSource(template))]))


def test_a_pod_gets_the_claims_of_its_ephemeral_volumes(bench: Bench) -> None:
    bench.add(volume("pv"))
    pod = bench.cluster.create_pod(pod_with_ephemeral())
    bench.settle()
    made = bench.claim("web-v")
    assert is_made_for(made, pod)
    assert made.metadata.labels == {"a": "b"}
    assert made.spec.volume_name == "pv"


def test_they_go_with_the_pod(bench: Bench) -> None:
    bench.add(volume("pv"))
    bench.cluster.create_pod(pod_with_ephemeral())
    bench.settle()
    bench.cluster.delete_pod("default/web")
    bench.settle()
    assert not bench.cluster.store(PERSISTENT_VOLUME_CLAIMS).objects
    assert bench.volume("pv").status.phase == "Released"


def test_a_claim_that_is_in_the_way_is_left_alone(bench: Bench) -> None:
    bench.add(claim("web-v"))
    before = bench.claim("web-v")
    bench.cluster.create_pod(pod_with_ephemeral())
    bench.settle()
    assert bench.claim("web-v") == before
    bench.cluster.delete_pod("default/web")
    bench.settle()
    assert bench.claim("web-v") == before


# --- whatever happens ---------------------------------------------------------------------------------------------

_steps = st.lists(
    st.tuples(
        st.sampled_from(["volume", "claim", "promise", "select", "no volume", "no claim"]),
        st.integers(0, 3),
        st.sampled_from(["", "local", "disks"]),
    ),
    max_size=25,
)


@given(_steps)
def test_bonds_are_mutual_and_nothing_goes_on_for_ever(steps: list[tuple[str, int, str]]) -> None:
    bench = Bench()
    bench.cluster.create_node(make_node("n1").obj())
    bench.add(a_class("local", WAIT_FOR_FIRST_CONSUMER))
    bench.add(a_class("disks", WAIT_FOR_FIRST_CONSUMER, DRIVER))
    claims = bench.cluster.store(PERSISTENT_VOLUME_CLAIMS).objects
    for action, number, of_class in steps:
        volume_name, claim_name = f"pv-{number}", f"data-{number}"
        if action == "volume" and volume_name not in bench.volumes:
            bench.add(volume(volume_name, of_class=of_class))
        elif action == "claim" and f"default/{claim_name}" not in claims:
            bench.add(claim(claim_name, of_class=of_class))
        elif action == "promise" and volume_name in bench.volumes and claims:
            bench.promise(volume_name, sorted(claims)[number % len(claims)].partition("/")[2])
        elif action == "select" and f"default/{claim_name}" in claims:
            bench.select_node(claim_name, "n1" if number else "gone")
        elif action == "no volume" and volume_name in bench.volumes:
            bench.cluster.delete_object(PERSISTENT_VOLUMES, volume_name)
            bench.settle()
        elif action == "no claim" and f"default/{claim_name}" in claims:
            bench.delete_claim(claim_name)
        bench.check()
