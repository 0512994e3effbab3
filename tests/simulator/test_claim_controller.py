"""Claims are made from templates, released and deleted as kube-controller-manager's controller does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.devices import (
    FINALIZER,
    POD_CLAIM_NAME,
    AllocationResult,
    DeviceObject,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from kscheduler.api.objects import ObjectMeta, OwnerReference, Pod
from kscheduler.api.pod_groups import PodGroup, PodGroupResourceClaim, PodGroupSpec
from kscheduler.client.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from kscheduler.client.pod_group_kinds import pod_groups
from kscheduler.config.releases import RELEASE_1_37
from kscheduler.errors import Conflict, NotFound
from kscheduler.simulator.claim_controller import ClaimController
from kscheduler.simulator.claims_at_start import claims_at_start
from kscheduler.simulator.cluster import Cluster
from kscheduler.testing import make_pod
from tests.devices.building import request
from tests.support.changes import set_pod_phase
from tests.support.clocks import ManualClock
from tests.support.devices import TEMPLATE, gpu_pod, named_claim, template


class Bench:
    """A cluster whose controller looks when `settle` is called."""

    def __init__(self) -> None:
        self.cluster = Cluster(ManualClock())
        self.deferred: list[Callable[[], None]] = []
        ClaimController(self.cluster, self.deferred.append)

    def settle(self) -> None:
        while self.deferred:
            self.deferred.pop(0)()

    @property
    def claims(self) -> dict[str, ResourceClaim]:
        return self.cluster.store(RESOURCE_CLAIMS).objects

    def only_claim(self) -> ResourceClaim:
        [claim] = self.claims.values()
        return claim

    def add(self, *pods: Any) -> Pod:
        for pod in pods:
            created = self.cluster.create_pod(pod.obj())
        self.settle()
        return created

    def named_in(self, pod: str) -> dict[str, str | None]:
        statuses = self.cluster.pods[f"default/{pod}"].status.resource_claim_statuses or ()
        return {each.name: each.resource_claim_name for each in statuses}

    def reserve(self, claim: ResourceClaim, *pods: Pod) -> None:
        """What the scheduler writes for pods that use the claim."""
        reserved = [
            ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
            for pod in pods
        ]
        status = replace(claim.status, allocation=AllocationResult(), reserved_for=reserved)
        metadata = replace(claim.metadata, finalizers=[FINALIZER])
        self.cluster.update_object(replace(claim, metadata=metadata, status=status))
        self.settle()


@pytest.fixture
def bench() -> Bench:
    found = Bench()
    found.cluster.create_object(template(TEMPLATE, request("req", 0)))
    return found


def owned(name: str, pod: Pod, entry: str) -> ResourceClaim:
    claim = named_claim(name)
    owner = OwnerReference("v1", "Pod", pod.metadata.name, pod.metadata.uid, controller=True)
    metadata = replace(claim.metadata, owner_references=[owner], annotations={POD_CLAIM_NAME: entry})
    return replace(claim, metadata=metadata)


def test_a_claim_is_made_for_each_entry_with_a_template_and_named_in_the_pods_status(bench: Bench) -> None:
    bench.cluster.create_object(template("other", request()))
    pod = bench.add(gpu_pod("p", "by-name", templates=(TEMPLATE, "other")))
    assert [key.rpartition("-")[0] for key in bench.claims] == [f"default/p-from-{TEMPLATE}", "default/p-from-other"]
    made = {claim.metadata.name: claim for claim in bench.claims.values()}
    assert list(bench.named_in("p").values()) == list(made)
    for entry, name in bench.named_in("p").items():
        assert name is not None
        metadata = made[name].metadata
        assert metadata.annotations == {POD_CLAIM_NAME: entry}
        assert [(each.uid, each.controller) for each in metadata.owner_references or ()] == [(pod.metadata.uid, True)]
        # With the apiserver's defaults.
        exactly = (made[name].spec.devices.requests or [])[0].exactly
        assert exactly is not None
        assert (exactly.allocation_mode, exactly.count) == ("ExactCount", 1)


def test_a_pod_waits_for_a_template_that_comes_later(bench: Bench) -> None:
    bench.add(gpu_pod("p", templates=("late",)))
    assert (bench.claims, bench.named_in("p")) == ({}, {})
    bench.cluster.create_object(template("late", request()))
    bench.settle()
    assert list(bench.named_in("p")) == ["from-late"]


def test_a_claim_that_exists_for_the_pod_is_named_and_not_made_again(bench: Bench) -> None:
    pod = bench.add(gpu_pod("p", templates=("recorded",)))
    bench.cluster.create_object(owned("p-recorded-x7", pod, "from-recorded"))
    bench.settle()
    assert bench.named_in("p") == {"from-recorded": "p-recorded-x7"}
    assert len(bench.claims) == 1


def test_a_claim_that_a_status_names_and_that_is_gone_is_made_again(bench: Bench) -> None:
    bench.add(gpu_pod("p"))
    before = bench.named_in("p")
    waiting = bench.cluster.pods["default/p"]
    bench.cluster.delete_pod("default/p")
    bench.settle()
    bench.cluster.create_pod(replace(waiting, metadata=replace(waiting.metadata, uid="", resource_version="")))
    bench.settle()
    assert bench.named_in("p") != before
    assert [bench.only_claim().metadata.name] == list(bench.named_in("p").values())


@pytest.mark.parametrize("end", ["deleted", "finished"])
def test_a_claim_made_for_a_pod_is_deallocated_and_deleted_when_the_pod_ends(bench: Bench, end: str) -> None:
    pod = bench.add(gpu_pod("p"))
    bench.reserve(bench.only_claim(), pod)
    if end == "deleted":
        bench.cluster.delete_pod("default/p")
    else:
        set_pod_phase(bench.cluster, "default/p", "Succeeded")
    bench.settle()
    assert bench.claims == {}


def test_a_claim_that_is_being_deleted_goes_with_its_last_finalizer(bench: Bench) -> None:
    pod = bench.add(gpu_pod("p"))
    bench.reserve(bench.only_claim(), pod)
    bench.cluster.delete_claim(bench.only_claim().key)
    assert bench.only_claim().metadata.deletion_timestamp is not None
    bench.cluster.delete_pod("default/p")
    bench.settle()
    assert bench.claims == {}


def test_a_shared_claim_is_deallocated_when_nobody_is_left(bench: Bench) -> None:
    bench.cluster.create_object(named_claim("shared"))
    first, second = bench.add(gpu_pod("a", "shared")), bench.add(gpu_pod("b", "shared"))
    bench.reserve(bench.only_claim(), first, second)
    bench.cluster.delete_pod("default/a")
    bench.settle()
    status = bench.only_claim().status
    assert [each.name for each in status.reserved_for or ()] == ["b"]
    assert status.allocation is not None
    bench.cluster.delete_pod("default/b")
    bench.settle()
    claim = bench.only_claim()
    assert (claim.status.allocation, claim.status.reserved_for, claim.metadata.finalizers) == (None, None, None)


def test_a_claim_that_is_deallocated_keeps_the_finalizers_of_others(bench: Bench) -> None:
    bench.cluster.create_object(named_claim("shared"))
    bench.reserve(bench.only_claim(), bench.add(gpu_pod("a", "shared")))
    claim = bench.only_claim()
    finalizers = ["example.com/backup", *(claim.metadata.finalizers or ())]
    bench.cluster.update_object(replace(claim, metadata=replace(claim.metadata, finalizers=finalizers)))
    bench.cluster.delete_pod("default/a")
    bench.settle()
    claim = bench.only_claim()
    assert (claim.status.allocation, claim.metadata.finalizers) == (None, ["example.com/backup"])


def test_an_allocated_claim_that_was_never_reserved_stays_allocated(bench: Bench) -> None:
    claim = named_claim("kept")
    bench.cluster.create_object(replace(claim, status=replace(claim.status, allocation=AllocationResult())))
    bench.add(gpu_pod("p"))
    bench.cluster.delete_pod("default/p")
    bench.settle()
    assert bench.only_claim().status.allocation is not None


def test_nothing_follows_pods_before_there_is_a_claim_or_a_template(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    calls: list[object] = []
    monkeypatch.setattr(ClaimController, "_pod_changed", lambda *change: calls.append(change))
    for index in range(10):
        bench.cluster.create_pod(make_pod(f"p{index}").obj())
    bench.cluster.delete_pod("default/p0")
    assert (calls, bench.deferred) == ([], [])
    bench.cluster.create_object(template(TEMPLATE, request()))
    assert len(calls) == 9  # what is there by then
    assert len(bench.cluster.store(RESOURCE_CLAIM_TEMPLATES).objects) == 1
    assert len(bench.cluster.store(PODS).objects) == 9


# --- lists ---


def reserved_by(claim: ResourceClaim, *uids: str) -> ResourceClaim:
    reserved = [ResourceClaimConsumerReference(resource="pods", name=uid, uid=uid) for uid in uids]
    return replace(claim, status=replace(claim.status, allocation=AllocationResult(), reserved_for=reserved))


def test_claims_at_the_start_hold_nothing_for_pods_that_are_not_there() -> None:
    here = replace(make_pod("p").obj(), metadata=replace(make_pod("p").obj().metadata, uid="1"))
    gone = replace(here, metadata=replace(here.metadata, name="q", uid="2"))
    given: list[DeviceObject] = [
        template(TEMPLATE, request()),
        reserved_by(owned("mine", here, "gpu"), "1"),
        reserved_by(owned("theirs", gone, "gpu"), "2"),
        reserved_by(named_claim("both"), "1", "2"),
        reserved_by(named_claim("released"), "2"),
    ]
    found = claims_at_start(given, [here])
    assert [item.metadata.name for item in found] == [TEMPLATE, "mine", "both", "released"]
    assert found[:2] == given[:2]
    both, released = found[2:]
    assert isinstance(both, ResourceClaim)
    assert isinstance(released, ResourceClaim)
    assert both == reserved_by(named_claim("both"), "1")
    assert released == named_claim("released")


# --- the apiserver ------------------------------------------------------------------------------------------------


def test_a_claim_with_finalizers_stays_until_the_last_is_taken_away(bench: Bench) -> None:
    cluster = bench.cluster
    claim = cluster.create_object(named_claim("c"))
    cluster.patch_object(
        RESOURCE_CLAIMS, claim.key, claim.metadata.resource_version, {"metadata": {"finalizers": [FINALIZER]}}
    )
    cluster.delete_claim(claim.key)
    left = bench.claims[claim.key]
    assert left.metadata.deletion_timestamp is not None
    cluster.delete_claim(claim.key)
    assert bench.claims[claim.key] == left
    cluster.patch_object(RESOURCE_CLAIMS, claim.key, left.metadata.resource_version, {"metadata": {"finalizers": None}})
    assert not bench.claims
    with pytest.raises(NotFound):
        cluster.delete_claim(claim.key)


def test_a_reservation_is_released_by_uid(bench: Bench) -> None:
    bench.cluster.create_object(named_claim("c"))
    first, second = bench.add(gpu_pod("first", "c")), bench.add(gpu_pod("second", "c"))
    bench.reserve(bench.only_claim(), first, second)
    claim = bench.claims["default/c"]
    with pytest.raises(Conflict, match="UID in precondition: other"):
        bench.cluster.release_claim(claim.key, "other", first.metadata.uid)
    released = bench.cluster.release_claim(claim.key, claim.metadata.uid, first.metadata.uid)
    assert [each.uid for each in released.status.reserved_for or ()] == [second.metadata.uid]
    again = bench.cluster.release_claim(claim.key, claim.metadata.uid, first.metadata.uid)
    assert again == released


ENTRY = f"from-{TEMPLATE}"  # the name of the claim in pods' specs


class GroupBench(Bench):
    """A cluster of 1.37 with the feature gate for claims of PodGroups."""

    def __init__(self) -> None:
        gates = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
        self.cluster = Cluster(ManualClock(), release=RELEASE_1_37.with_gates(gates))
        self.deferred = []
        ClaimController(self.cluster, self.deferred.append)
        self.cluster.create_object(template(TEMPLATE, request()))

    def group(self, template: str | None) -> PodGroup:
        """Create the group `train`, whose entry has this template; None: a group without entries."""
        claims = None if template is None else [PodGroupResourceClaim(ENTRY, resource_claim_template_name=template)]
        spec = PodGroupSpec(resource_claims=claims)
        made: PodGroup = self.cluster.create_object(PodGroup(ObjectMeta(name="train", namespace="default"), spec))
        self.settle()
        return made


def test_the_pods_of_a_group_share_the_claim_that_is_made_for_it() -> None:
    bench = GroupBench()
    bench.add(gpu_pod("first").scheduling_group("train"))
    assert not bench.claims, "the group is not there yet"
    group = bench.group(TEMPLATE)
    bench.add(gpu_pod("second").scheduling_group("train"))
    claim = bench.only_claim()
    owners = [(each.kind, each.name, each.uid) for each in claim.metadata.owner_references or ()]
    assert owners == [("PodGroup", "train", group.metadata.uid)]
    assert bench.named_in("first") == bench.named_in("second") == {ENTRY: claim.metadata.name}
    kept: PodGroup = bench.cluster.store(pod_groups(RELEASE_1_37)).objects["default/train"]
    assert [each.resource_claim_name for each in kept.status.resource_claim_statuses or ()] == [claim.metadata.name]
    # It is the group's until that is deleted.
    bench.cluster.delete_pod("default/first")
    bench.settle()
    assert bench.only_claim() == claim
    bench.cluster.delete_object(pod_groups(RELEASE_1_37), "default/train")
    bench.settle()
    assert not bench.claims


@pytest.mark.parametrize("of_group", ["another", None])
def test_a_pod_gets_a_claim_of_its_own_for_an_entry_that_its_group_does_not_have(of_group: str | None) -> None:
    bench = GroupBench()
    bench.group(of_group)
    bench.add(gpu_pod("first").scheduling_group("train"))
    owners = bench.only_claim().metadata.owner_references or ()
    assert [(each.kind, each.name) for each in owners] == [("Pod", "first")]


@pytest.mark.parametrize("is_allocated", [False, True])
def test_a_claim_that_is_deleted_while_nobody_uses_it_is_let_go(is_allocated: bool) -> None:
    """As one is to which a scheduler gave its finalizer, and then no allocation."""
    bench = Bench()
    bench.cluster.create_object(named_claim("c"))
    claim = bench.only_claim()
    status = replace(claim.status, allocation=AllocationResult() if is_allocated else None)
    bench.cluster.update_object(replace(claim, metadata=replace(claim.metadata, finalizers=[FINALIZER]), status=status))
    bench.settle()
    assert bench.only_claim().metadata.finalizers == [FINALIZER]
    bench.cluster.delete_claim("default/c")
    bench.settle()
    assert not bench.claims
