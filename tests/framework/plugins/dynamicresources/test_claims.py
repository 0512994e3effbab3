"""Which claims a pod has, and what it has to wait for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import PodResourceClaim
from kscheduler.config.releases import Release
from kscheduler.framework.status import Code
from kscheduler.snapshot.pod_info import PodInfo
from tests.framework.plugins.dynamicresources.bench import Bench, claim, pod_with

OWN = pod_with(templates=[("t", "c")])


def gate(bench: Bench, pod: PodInfo) -> str:
    status = bench.plugin.pre_enqueue(pod)
    if status is None:
        return ""
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.plugin == "DynamicResources"
    # The same text ends the cycle of a pod that comes so far.
    _, again = bench.pre_filter(pod)
    assert again is not None
    assert again.message == status.message
    return status.message


def test_a_pod_waits_for_a_claim_that_it_names(release: Release) -> None:
    bench = Bench(release)
    assert gate(bench, pod_with("c")) == 'could not find ResourceClaim "default/c"'
    bench.add(claim("c"))
    assert gate(bench, pod_with("c")) == ""


def test_a_pod_waits_for_a_claim_to_be_made_from_a_template() -> None:
    bench = Bench()
    waiting = pod_with(templates=[("t", "c")])
    waiting = PodInfo(replace(waiting.pod, status=replace(waiting.pod.status, resource_claim_statuses=None)))
    assert gate(bench, waiting) == 'pod "default/p": ResourceClaim not created yet'
    assert gate(bench, OWN) == 'could not find ResourceClaim "default/c"'
    bench.add(claim("c", owner="uid-p"))
    assert gate(bench, OWN) == ""


def test_a_claim_made_for_another_pod_is_not_used() -> None:
    bench = Bench()
    bench.add(claim("c", owner="uid-other"))
    text = "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)"
    assert gate(bench, OWN) == text
    bench.add(claim("c"))
    assert gate(bench, OWN) == text
    assert gate(bench, pod_with("c")) == ""  # one that is named may belong to nobody


def test_a_claim_that_is_being_deleted_is_not_used() -> None:
    bench = Bench()
    made = claim("c")
    bench.add(replace(made, metadata=replace(made.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))
    assert gate(bench, pod_with("c")) == 'resourceclaim "c" is being deleted'


def test_an_entry_that_names_nothing_is_a_fault_of_the_pod() -> None:
    pod = pod_with("c").pod
    empty = PodInfo(replace(pod, spec=replace(pod.spec, resource_claims=[PodResourceClaim("e")])))
    text = 'pod "default/p", spec.resourceClaim "e": none of the supported fields are set'
    assert gate(Bench(), empty) == text


def test_an_entry_that_needs_no_claim_is_passed_over() -> None:
    bench = Bench()
    assert gate(bench, pod_with(templates=[("t", None)])) == ""
    state, status = bench.pre_filter(pod_with(templates=[("t", None)]))
    assert status is not None
    assert status.code is Code.SKIP
    assert bench.plugin.pre_bind_pre_flight(state, OWN, "n0") is status


@pytest.mark.parametrize("pod", [pod_with(), pod_with(example_com__gpu="1")], ids=["plain", "with a device plugin"])
def test_pods_without_claims_are_no_concern(pod: PodInfo) -> None:
    bench = Bench()
    _, status = bench.pre_filter(pod)
    assert status is not None
    assert status.code is Code.SKIP
    assert not bench.plugin.concerns(pod)
    assert bench.plugin.sign_pod(pod) != bench.plugin.sign_pod(OWN)
