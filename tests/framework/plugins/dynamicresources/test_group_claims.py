"""Claims of PodGroups, behind the gate DRAWorkloadResourceClaims: whose they are, and for whom they are reserved."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.devices import ResourceClaim, ResourceClaimConsumerReference
from kscheduler.api.objects import ObjectMeta, OwnerReference, PodResourceClaim, PodSchedulingGroup
from kscheduler.api.pod_groups import PodGroup, PodGroupResourceClaim, PodGroupSpec
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.framework.cycle_state import HAS_PLACED, CycleState
from kscheduler.framework.plugins.dynamicresources.claims import consumers_of, is_reserved_for
from kscheduler.framework.status import Code
from kscheduler.snapshot.pod_info import PodInfo
from tests.framework.plugins.dynamicresources.bench import Bench, allocation, claim, pod_with, reserved_for

GATES = {"GenericWorkload": True, "GangScheduling": True, "DRAWorkloadResourceClaims": True}
ON = pytest.mark.parametrize(
    "on", [RELEASE_1_36.with_gates(GATES), RELEASE_1_37.with_gates(GATES)], ids=["1.36", "1.37"]
)
OF_GROUP = ResourceClaimConsumerReference("scheduling.k8s.io", "podgroups", "train", "uid-train")


def group(*claims: PodGroupResourceClaim) -> PodGroup:
    return PodGroup(
        ObjectMeta(name="train", namespace="default", uid="uid-train"), PodGroupSpec(resource_claims=list(claims))
    )


def member(pod: PodInfo, name: str = "train") -> PodInfo:
    return PodInfo(replace(pod.pod, spec=replace(pod.pod.spec, scheduling_group=PodSchedulingGroup(name))))


def owned_by(
    made: ResourceClaim, *, kind: str = "PodGroup", name: str = "train", api: str = "scheduling.k8s.io/v1beta1"
) -> ResourceClaim:
    owner = OwnerReference(api, kind, name, "uid-of-owner", controller=True)
    return replace(made, metadata=replace(made.metadata, owner_references=[owner]))


def consumers(made: ResourceClaim) -> list[tuple[str, str, str]]:
    return [(each.api_group, each.resource, each.uid) for each in made.status.reserved_for or ()]


def test_the_gate_is_off_and_needs_that_of_groups() -> None:
    for release in (RELEASE_1_36, RELEASE_1_37):
        assert not release.has_group_claims
        assert not release.with_gates({"DRAWorkloadResourceClaims": True}).has_group_claims
        assert release.with_gates(GATES).has_group_claims


NEITHER = "ResourceClaim default/c was not created for Pod default/p (neither Pod nor PodGroup train is the owner)"
NOT_POD = "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)"


@pytest.mark.parametrize(
    ("made", "is_member", "text"),
    [
        (owned_by(claim("c")), True, ""),
        (owned_by(claim("c"), api="scheduling.k8s.io/v1alpha3"), True, ""),  # the version does not matter
        (owned_by(claim("c"), api="scheduling.k8s.io.example.com/v1"), True, NEITHER),
        (owned_by(claim("c"), kind="Workload"), True, NEITHER),
        (owned_by(claim("c"), name="other"), True, NEITHER),
        (claim("c"), True, NEITHER),
        (owned_by(claim("c")), False, NOT_POD),
        (claim("c", owner="uid-p"), True, ""),
    ],
)
@ON
def test_a_claim_made_from_a_template_may_be_that_of_the_pods_group(
    on: Release, made: ResourceClaim, is_member: bool, text: str
) -> None:
    bench = Bench(on)
    bench.add(made)
    pod = pod_with(templates=[("t", "c")])
    status = bench.plugin.pre_enqueue(member(pod) if is_member else pod)
    assert ("" if status is None else status.message) == text


def test_without_the_gate_it_may_not(release: Release) -> None:
    bench = Bench(release)
    bench.add(owned_by(claim("c")))
    status = bench.plugin.pre_enqueue(member(pod_with(templates=[("t", "c")])))
    assert status is not None
    assert status.message == NOT_POD


NAMED = PodGroupResourceClaim("c", resource_claim_name="c")


@pytest.mark.parametrize(
    ("of_group", "for_group"),
    [
        (NAMED, True),
        (PodGroupResourceClaim("other", resource_claim_name="c"), False),
        (PodGroupResourceClaim("c", resource_claim_name="d"), False),
        (PodGroupResourceClaim("c", resource_claim_template_name="c"), False),
    ],
)
def test_a_claim_is_reserved_for_the_group_if_both_name_it_equally(
    of_group: PodGroupResourceClaim, for_group: bool
) -> None:
    pod = member(pod_with("c", "own")).pod
    first, second = consumers_of(pod, {"default/train": group(of_group)})
    own = reserved_for("uid-p")[0]
    assert second == replace(own, name="p")
    assert first == (OF_GROUP if for_group else second)


def test_a_pod_without_a_group_needs_none() -> None:
    assert consumers_of(pod_with("c").pod, {}) == []


@ON
def test_a_pod_whose_group_is_unknown_is_rejected(on: Release) -> None:
    bench = Bench(on)
    bench.add(claim("c"))
    _, status = bench.pre_filter(member(pod_with("c")))
    assert status is not None
    assert status.message == "pod group object not found for pod group default/train"


@pytest.mark.parametrize(
    ("reference", "is_reserved"),
    [
        (OF_GROUP, True),
        (replace(OF_GROUP, uid="uid-of-an-earlier-one"), True),  # pods do not know the uid of their group
        (replace(OF_GROUP, name="other"), False),
        (replace(OF_GROUP, resource="workloads"), False),
        (replace(OF_GROUP, api_group=""), False),
    ],
)
def test_a_claim_is_reserved_for_a_pod_with_its_group(
    reference: ResourceClaimConsumerReference, is_reserved: bool
) -> None:
    made = claim("c", reserved_for=[reference])
    pod = member(pod_with("c")).pod
    assert is_reserved_for(made, pod, or_group=True) == is_reserved
    assert not is_reserved_for(made, pod)
    assert not is_reserved_for(made, pod_with("c").pod, or_group=True)


@ON
def test_the_members_of_a_group_are_reserved_for_as_one(on: Release) -> None:
    bench = Bench(on)
    bench.add(claim("c"))
    bench.devices.groups["default/train"] = group(NAMED)
    shared = CycleState()
    pods = [member(pod_with("c", name=name)) for name in ("first", "second")]
    states = [bench.reserved(each, group=shared) for each in pods]
    assert [bench.pre_bind(state, pod) for state, pod in zip(states, pods, strict=True)] == ["", ""]
    # The second one finds the claim reserved, and writes nothing.
    assert bench.writes.requests == [("patch", "default/c"), ("patch status", "default/c")]
    assert consumers(bench.writes.claims["default/c"]) == [("scheduling.k8s.io", "podgroups", "uid-train")]
    assert not bench.devices.in_flight
    # A member that comes later has nothing to write either.
    third = member(pod_with("c", name="third"))
    assert bench.pre_bind(bench.reserved(third), third) == ""
    assert len(bench.writes.requests) == 2


@ON
def test_a_binding_that_fails_leaves_the_claim_to_the_group(on: Release) -> None:
    bench = Bench(on)
    bench.add(claim("c"))
    bench.devices.groups["default/train"] = group(NAMED)
    pod = member(pod_with("c"))
    state = bench.reserved(pod)
    assert bench.pre_bind(state, pod) == ""
    bench.plugin.unreserve(state, pod, "n0")
    assert not bench.writes.background


@ON
def test_a_members_own_claim_is_reserved_for_itself(on: Release) -> None:
    bench = Bench(on, gpus=2)
    bench.add(claim("c"))
    bench.add(claim("own"))
    bench.devices.groups["default/train"] = group(NAMED)
    pod = member(pod_with("own", "c"))
    assert bench.pre_bind(bench.reserved(pod), pod) == ""
    assert consumers(bench.writes.claims["default/own"]) == [("", "pods", "uid-p")]
    assert consumers(bench.writes.claims["default/c"]) == [("scheduling.k8s.io", "podgroups", "uid-train")]


@ON
def test_a_claim_that_is_not_needed_shifts_the_reservations_as_in_kube_scheduler(on: Release) -> None:
    bench = Bench(on)
    bench.add(claim("c"))
    of_group = PodGroupResourceClaim("e-t", resource_claim_template_name="t")
    bench.devices.groups["default/train"] = group(of_group)
    made = pod_with("c", templates=[("t", None)]).pod
    entries = [*reversed(made.spec.resource_claims or [PodResourceClaim()])]
    pod = member(PodInfo(replace(made, spec=replace(made.spec, resource_claims=entries))))
    assert bench.pre_bind(bench.reserved(pod), pod) == ""
    assert consumers(bench.writes.claims["default/c"]) == [("scheduling.k8s.io", "podgroups", "uid-train")]


class Rejected:
    """A group of 1.37 with the claim `c`, allocated where no node can use it, and its members after a plan failed."""

    def __init__(self, *of: ResourceClaimConsumerReference, usable: bool = False) -> None:
        self.bench = Bench(RELEASE_1_37.with_gates(GATES))
        self.bench.add(claim("c", allocation=allocation(zone="z0" if usable else "nowhere"), reserved_for=list(of)))
        self.bench.devices.groups["default/train"] = group(NAMED)
        self.shared = CycleState()
        self.members = [member(pod_with("c", name=name)) for name in ("first", "second")]
        for each in self.members:
            state, status = self.bench.pre_filter(each, self.shared)
            assert status is None
            self.bench.filter_all(state, each)

    def release(self, *, has_placed: bool = False) -> str:
        """Take claims back; the status that says so, with its code if no plugin is asked after it."""
        status = self.bench.plugin.release_claims(self.shared, self.members, has_placed=has_placed)
        self.bench.writes.run_background()
        if status is None:
            return ""
        return f"ends: {status.message}" if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE else status.message

    @property
    def claim(self) -> ResourceClaim:
        return self.bench.writes.claims["default/c"]


DEALLOCATED = "deallocation of PodGroup ResourceClaim completed"


def test_a_claim_that_a_group_holds_and_cannot_use_is_deallocated() -> None:
    rejected = Rejected(OF_GROUP)
    assert rejected.release() == DEALLOCATED
    assert rejected.claim.status.allocation is None
    assert not rejected.claim.status.reserved_for


def test_a_claim_that_nobody_holds_is_deallocated_once_for_all_members() -> None:
    rejected = Rejected()
    assert rejected.release() == ""
    assert rejected.bench.writes.requests == [("patch status", "default/c")]


def test_a_claim_that_others_hold_as_well_is_left_by_the_group() -> None:
    rejected = Rejected(OF_GROUP, *reserved_for("uid-other"))
    assert rejected.release() == "ends: ResourceClaim unreserved for PodGroup"
    assert [each.uid for each in rejected.claim.status.reserved_for or ()] == ["uid-other"]
    assert rejected.claim.status.allocation is not None


def test_a_claim_that_the_group_could_use_is_left_by_it_too() -> None:
    # As in kube-scheduler, which does not ask why the group could not be placed.
    rejected = Rejected(OF_GROUP, usable=True)
    for cycle in rejected.shared.read("DynamicResources/members", dict).values():
        cycle.unavailable.clear()
    assert rejected.release() == "ends: ResourceClaim unreserved for PodGroup"


def test_a_group_with_members_on_nodes_keeps_its_claims() -> None:
    rejected = Rejected(OF_GROUP)
    assert rejected.release(has_placed=True) == ""
    assert not rejected.bench.writes.requests


def test_a_claim_that_was_not_made_yet_is_a_fault() -> None:
    rejected = Rejected(OF_GROUP, *reserved_for("uid-other"))
    template = PodGroupResourceClaim("t", resource_claim_template_name="t")
    rejected.bench.devices.groups["default/train"] = group(template)
    assert rejected.release() == "PodGroup default/train: ResourceClaim not created yet"


def test_without_the_gate_nothing_is_taken_back() -> None:
    bench = Bench(RELEASE_1_37)
    bench.add(claim("c", allocation=allocation(zone="nowhere"), reserved_for=[OF_GROUP]))
    assert bench.plugin.release_claims(CycleState(), [member(pod_with("c"))], has_placed=False) is None


def test_a_claim_that_one_member_frees_does_not_keep_others_from_freeing_the_groups() -> None:
    rejected = Rejected(OF_GROUP)
    bench = rejected.bench
    bench.add(claim("own", allocation=allocation("n1/g0", zone="nowhere")))
    first = member(pod_with("own", "c", name="first"))
    state, _ = bench.pre_filter(first, rejected.shared)
    bench.filter_all(state, first)
    assert rejected.release() == DEALLOCATED
    assert bench.writes.claims["default/own"].status.allocation is None
    assert rejected.claim.status.allocation is None


class RejectedAlone:
    """A pod of a group of 1.36 with the claim `c`, which is reserved for the group, and its own cycle."""

    def __init__(self, release: Release = RELEASE_1_36, *, has_placed: bool = False) -> None:
        self.bench = Bench(release.with_gates(GATES))
        self.bench.add(claim("c", allocation=allocation(zone="nowhere"), reserved_for=[OF_GROUP]))
        self.bench.devices.groups["default/train"] = group(NAMED)
        self.pod = member(pod_with("c"))
        shared = CycleState()
        if has_placed:
            shared.write(HAS_PLACED, True)
        self.state, _ = self.bench.pre_filter(self.pod, shared)
        self.bench.filter_all(self.state, self.pod)

    def post_filter(self) -> str:
        _, status = self.bench.plugin.post_filter(self.state, self.pod, {})
        self.bench.writes.run_background()
        return "" if status is None else status.message

    @property
    def users(self) -> list[str]:
        return [each.uid for each in self.bench.writes.claims["default/c"].status.reserved_for or ()]


def test_in_1_36_a_pod_takes_back_what_is_reserved_for_its_group() -> None:
    rejected = RejectedAlone()
    assert rejected.post_filter() == "ResourceClaim unreserved for PodGroup"
    assert rejected.users == []


def test_in_1_36_it_leaves_that_to_members_on_nodes() -> None:
    rejected = RejectedAlone(has_placed=True)
    assert rejected.post_filter() == "still not schedulable"
    assert rejected.users == ["uid-train"]


def test_in_1_37_only_the_group_takes_it_back() -> None:
    rejected = RejectedAlone(RELEASE_1_37)
    assert rejected.post_filter() == ""
    assert rejected.users == ["uid-train"]
