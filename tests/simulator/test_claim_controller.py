"""Claims of a simulated cluster: made from templates, released with their pods; what its apiserver does with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kscheduler.api.devices import FINALIZER, POD_CLAIM_NAME, ResourceClaim, ResourceClaimConsumerReference
from kscheduler.api.objects import Pod
from kscheduler.client.protocol import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from kscheduler.errors import Conflict, NotFound
from kscheduler.simulator.claim_controller import ClaimController
from kscheduler.simulator.cluster import Cluster
from tests.devices.building import request
from tests.framework.plugins.dynamicresources.bench import allocation
from tests.support.clocks import ManualClock
from tests.support.devices import TEMPLATE, gpu_pod, named_claim, template


class Bench:
    """A cluster with the controller, whose work is done when the test says so."""

    def __init__(self) -> None:
        self.cluster = Cluster(ManualClock())
        self.due: list[Callable[[], None]] = []
        self.controller = ClaimController(self.cluster, self.due.append)

    def settle(self) -> None:
        while self.due:
            self.due.pop(0)()

    @property
    def claims(self) -> dict[str, ResourceClaim]:
        found: dict[str, ResourceClaim] = self.cluster.store(RESOURCE_CLAIMS).objects
        return found

    def add_pod(self, name: str, *claims: str) -> Pod:
        pod = self.cluster.create_pod(gpu_pod(name, *claims).uid("").obj())
        self.settle()
        return self.cluster.pods[pod.key]

    def allocate(self, key: str, *pods: Pod) -> None:
        claim = self.claims[key]
        references = [
            ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
            for pod in pods
        ]
        status = replace(claim.status, allocation=allocation(), reserved_for=references)
        metadata = replace(claim.metadata, finalizers=[FINALIZER])
        self.cluster.update_object(replace(claim, metadata=metadata, status=status))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_claim_is_made_for_each_pod_of_a_template_whichever_comes_first(bench: Bench) -> None:
    bench.cluster.create_object(named_claim("other"))
    early = bench.add_pod("early")
    assert early.status.resource_claim_statuses is None
    bench.cluster.create_object(template(TEMPLATE, request("req", 0)))
    bench.settle()
    late = bench.add_pod("late")
    for pod in (bench.cluster.pods[early.key], late):
        assert pod.status.resource_claim_statuses is not None
        [made] = pod.status.resource_claim_statuses
        claim = bench.claims[f"default/{made.resource_claim_name}"]
        assert claim.metadata.name.startswith(f"{pod.metadata.name}-from-{TEMPLATE}-")
        assert claim.metadata.annotations == {POD_CLAIM_NAME: f"from-{TEMPLATE}"}
        assert claim.metadata.owner_references is not None
        assert claim.metadata.owner_references[0].uid == pod.metadata.uid
        # With the apiserver's defaults.
        exactly = (claim.spec.devices.requests or [])[0].exactly
        assert exactly is not None
        assert (exactly.allocation_mode, exactly.count) == ("ExactCount", 1)


def test_a_pods_own_claim_goes_with_it(bench: Bench) -> None:
    bench.cluster.create_object(template(TEMPLATE, request()))
    pod = bench.add_pod("p")
    [key] = bench.claims
    bench.allocate(key, pod)
    bench.cluster.delete_pod(pod.key)
    bench.settle()
    assert not bench.claims


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_shared_claim_is_deallocated_when_its_last_pod_has_ended(bench: Bench, phase: str) -> None:
    bench.cluster.create_object(named_claim("shared"))
    first, second = bench.add_pod("first", "shared"), bench.add_pod("second", "shared")
    bench.allocate("default/shared", first, second)
    bench.cluster.set_pod_phase(first.key, phase)
    bench.settle()
    status = bench.claims["default/shared"].status
    assert [each.name for each in status.reserved_for or ()] == ["second"]
    assert status.allocation is not None
    bench.cluster.delete_pod(second.key)
    bench.settle()
    claim = bench.claims["default/shared"]
    assert (claim.status.reserved_for, claim.status.allocation, claim.metadata.finalizers) == (None, None, None)


def test_without_claims_and_templates_pods_are_not_followed(bench: Bench) -> None:
    bench.add_pod("p")
    assert not bench.due
    assert not bench.cluster.store(RESOURCE_CLAIM_TEMPLATES).objects


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
    first, second = bench.add_pod("first", "c"), bench.add_pod("second", "c")
    bench.allocate("default/c", first, second)
    claim = bench.claims["default/c"]
    with pytest.raises(Conflict, match="UID in precondition: other"):
        bench.cluster.release_claim(claim.key, "other", first.metadata.uid)
    released = bench.cluster.release_claim(claim.key, claim.metadata.uid, first.metadata.uid)
    assert [each.uid for each in released.status.reserved_for or ()] == [second.metadata.uid]
    again = bench.cluster.release_claim(claim.key, claim.metadata.uid, first.metadata.uid)
    assert again == released
