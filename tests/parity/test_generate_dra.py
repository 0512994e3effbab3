"""What cases of dynamic resource allocation have, and what counts as covered: it needs no Go."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.parity.case import Case, Object
from tests.parity.coverage_dra import FEATURES, TEXTS, DraCoverage
from tests.parity.generate_dra import BACKABLE, MOST_DEVICES, generate_dra
from tests.parity.generate_dra_preemption import generate_dra_preemption
from tests.parity.oracle import Allocated, Answer, Decision, Preempted, Status

Generate = Callable[[int], Case]
RESULT = {"request": "r0", "driver": "gpu.example.com", "pool": "p", "device": "d0"}


@pytest.mark.parametrize("generate", [generate_dra, generate_dra_preemption])
def test_a_seed_gives_one_case(generate: Generate) -> None:
    assert str(generate(7)) == str(generate(7))
    assert str(generate(7)) != str(generate(8))


def requests_of(case: Case) -> Iterator[Object]:
    for claim in case.cluster["resourceClaims"]:
        for request in claim["spec"]["devices"]["requests"]:
            yield from [request["exactly"]] if "exactly" in request else request.get("firstAvailable", ())


def test_nothing_is_generated_at_which_kube_scheduler_crashes() -> None:
    for seed in range(80):
        case = generate_dra(seed)
        assert all(asked.get("count", 0) <= MOST_DEVICES for asked in requests_of(case))
        for entry in case.config["profiles"][0].get("pluginConfig", ()):
            if entry["name"] == "NodeResourcesBalancedAllocation":
                assert not {each["name"] for each in entry["args"]["resources"]} & {*BACKABLE}


# --- coverage ---


def case(*, reserved_for: str = "") -> Case:
    """A pod with a claim by template, whose class backs a resource."""
    claim: Object = {
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "gpu", "count": 1}}]}},
    }
    if reserved_for:
        users = [{"resource": "pods", "name": reserved_for, "uid": reserved_for}]
        claim["status"] = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": users}
    spec = {"containers": [{"name": "c"}], "resourceClaims": [{"name": "e", "resourceClaimTemplateName": "t"}]}
    pod = {
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": spec,
        "status": {"resourceClaimStatuses": [{"name": "e", "resourceClaimName": "c"}]},
    }
    cluster: dict[str, list[Object]] = {
        "nodes": [{"metadata": {"name": "n0"}, "status": {"allocatable": {}}}],
        "deviceClasses": [{"metadata": {"name": "gpu"}, "spec": {}}],
        "resourceSlices": [
            {"spec": {"driver": "gpu.example.com", "pool": {"name": "p"}, "devices": [{"name": "d0", "taints": []}]}}
        ],
        "resourceClaims": [claim],
    }
    return Case(1, "evaluate", {}, cluster, [pod])


def test_of_a_placed_pod_the_features_of_its_claims_are_counted() -> None:
    coverage = DraCoverage()
    allocated = Allocated([{"devices": {"results": [RESULT]}}])
    coverage.add(case(), Answer(pods=[Decision(host="n0", found=["n0"], allocations={"n0": allocated})]))
    assert coverage.features.keys() == {"claim by template", "on all nodes"}
    assert coverage.verdicts == {("claims", "placed"): 1}


def test_a_claim_that_was_allocated_before_is_counted_with_those_it_is_reserved_for() -> None:
    coverage = DraCoverage()
    for user in ("p", "other"):
        coverage.add(case(reserved_for=user), Answer(pods=[Decision(host="n0", found=["n0"])]))
    assert coverage.features["allocated before"] == 2
    assert coverage.features["allocated and reserved for others"] == 1


def test_texts_are_counted_by_the_point_that_returns_them() -> None:
    coverage = DraCoverage()
    status = Status("UnschedulableAndUnresolvable", "DynamicResources", ["cannot allocate all claims"])
    failed = Decision(statuses={"n0": status, "n1": status}, failure="0/2", is_fit_error=True)
    coverage.add(case(), Answer(pods=[failed], preempted=[Preempted(message="deletion of ResourceClaim completed")]))
    assert coverage.texts == {
        ("Filter", "cannot allocate all claims"): 2,
        ("PostFilter", "deletion of ResourceClaim completed"): 1,
    }
    assert coverage.preemption_verdicts == {("claims", "nobody preempted"): 1}


def test_a_run_without_cases_has_covered_nothing() -> None:
    missing = DraCoverage().missing()
    assert len(missing) == len(FEATURES) + sum(len(texts) for point, texts in TEXTS.items() if point != "PostFilter")
