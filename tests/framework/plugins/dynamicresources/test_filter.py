"""PreFilter, Filter, PostFilter, Score and Reserve."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler._fast import Scores, Verdicts
from kscheduler.api.devices import (
    AllocatedDeviceStatus,
    DeviceCondition,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from kscheduler.config.releases import RELEASE_1_37, Release
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code
from kscheduler.testing import make_node
from tests.devices.building import (
    DRIVER,
    alternative,
    device,
    first_available,
    make_slice,
    request,
)
from tests.framework.plugins.dynamicresources.bench import (
    Bench,
    allocation,
    claim,
    pod_with,
    reserved_for,
)

POD = pod_with("c")
NO_DEVICE = "cannot allocate all claims"
NOT_THERE = "resourceclaim not available on the node"


def rejection(bench: Bench) -> tuple[Code, str]:
    _, status = bench.pre_filter(POD)
    assert status is not None
    return status.code, status.message


# --- PreFilter --------------------------------------------------------------------------------------------------


def test_a_class_must_exist_for_each_request_and_alternative() -> None:
    bench = Bench()
    lost = DeviceRequest("r", exactly=ExactDeviceRequest("lost"))
    bench.add(claim("c", request(), lost))
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert rejection(bench) == (code, "request r: device class lost does not exist")
    one = first_available("r", alternative("a"), alternative("b", device_class_name="lost"))
    bench.add(claim("c", one))
    assert rejection(bench) == (code, "request r/b: device class lost does not exist")


def test_a_request_of_a_kind_to_come_is_refused() -> None:
    bench = Bench()
    bench.add(claim("c", DeviceRequest("r")))
    text = "resource claim default/c, request r: unknown request type"
    assert rejection(bench) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)
    bench.add(claim("c", DeviceRequest("r", exactly=ExactDeviceRequest())))
    assert rejection(bench) == (Code.ERROR, "request r: unsupported request type")


def test_the_classes_of_an_allocated_claim_do_not_matter() -> None:
    bench = Bench()
    lost = DeviceRequest("r", exactly=ExactDeviceRequest("lost"))
    bench.add(claim("c", lost, allocation=allocation()))
    assert bench.filter(POD) == {"n0": "", "n1": ""}


def test_a_claim_that_another_pod_has_just_been_given_is_waited_for(release: Release) -> None:
    bench = Bench(release)
    bench.add(claim("c"))
    other = pod_with("c", name="other")
    state = bench.reserved(other)
    text = "resource claim default/c is in the process of being allocated"
    assert rejection(bench) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)
    bench.plugin.unreserve(state, other, "n0")
    assert bench.filter(POD) == {"n0": "", "n1": ""}


def test_members_of_a_gang_share_what_one_of_them_has_just_been_given(release: Release) -> None:
    bench = Bench(release)
    bench.add(claim("c"))
    group = CycleState()
    first, second = pod_with("c", name="first"), pod_with("c", name="second")
    states = [bench.reserved(each, group=group) for each in (first, second)]
    assert [bench.cycle(state).allocations[0] for state in states] == [bench.devices.pending_allocation("uid-c")] * 2
    state, status = bench.pre_filter(pod_with("c", name="third"), group=group)
    assert status is None
    assert bench.filter_all(state, first) == {"n0": "", "n1": NOT_THERE}
    # For pods that are not placed with them it is in flight, until both have given it back.
    text = "resource claim default/c is in the process of being allocated"
    for undone, member in zip(states, (first, second), strict=True):
        assert rejection(bench) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)
        bench.plugin.unreserve(undone, member, "n0")
    assert bench.filter(POD) == {"n0": "", "n1": ""}


def test_a_member_of_a_gang_has_claims_of_its_own_beside_a_shared_one(release: Release) -> None:
    bench = Bench(release, gpus=2)
    for name in ("own", "shared"):
        bench.add(claim(name))
    group = CycleState()
    bench.reserved(pod_with("shared", name="first"), group=group)
    state = bench.reserved(pod_with("own", "shared", name="second"), group=group)
    found = [each for each in bench.cycle(state).allocations if each is not None]
    assert [result.device for each in found for result in each.devices.results or ()] == ["g1", "g0"]


def test_an_allocation_for_nodes_that_cannot_be_read_is_an_error() -> None:
    bench = Bench()
    made = allocation(zone="z0")
    assert made.node_selector is not None
    term = made.node_selector.node_selector_terms[0]
    assert term.match_expressions is not None
    wrong = replace(term, match_expressions=[replace(term.match_expressions[0], operator="Almost")])
    selector = replace(made.node_selector, node_selector_terms=[wrong])
    bench.add(claim("c", allocation=replace(made, node_selector=selector)))
    code, text = rejection(bench)
    assert code is Code.ERROR
    assert "Almost" in text


# --- Filter -----------------------------------------------------------------------------------------------------


def test_nodes_without_a_free_device_are_rejected(release: Release) -> None:
    bench = Bench(release)
    bench.add(claim("taken", allocation=allocation("n1/g0")))
    bench.add(claim("c"))
    assert bench.filter(POD) == {"n0": "", "n1": NO_DEVICE}


def test_all_claims_of_a_pod_must_fit_together() -> None:
    bench = Bench(nodes=1, gpus=1)
    bench.add(claim("c"))
    bench.add(claim("d"))
    assert bench.filter(pod_with("c", "d")) == {"n0": NO_DEVICE}
    bench.publish("n0", 2)
    assert bench.filter(pod_with("c", "d")) == {"n0": ""}


def test_an_allocated_claim_can_be_used_where_its_allocation_says() -> None:
    bench = Bench()
    bench.add(claim("c", allocation=allocation("n0/g0", zone="z0"), reserved_for=reserved_for("uid-other")))
    assert bench.filter(POD) == {"n0": "", "n1": NOT_THERE}


def test_the_search_for_the_other_claims_comes_before_an_unavailable_one() -> None:
    bench = Bench()
    bench.add(claim("c", allocation=allocation("n0/g0", zone="z0")))
    bench.add(claim("d", request("req", 5)))
    assert bench.filter(pod_with("c", "d")) == {"n0": NO_DEVICE, "n1": NO_DEVICE}


def test_a_pool_that_is_invalid_concerns_its_node_only() -> None:
    bench = Bench(gpus=0)
    bench.publish("n0", 1)
    twins = [device("g0"), device("g0")]
    bench.devices.set_slice(make_slice("n1", twins, node_name="n1", pool="n1"))
    bench.add(claim("c"))
    assert bench.filter(POD) == {"n0": "", "n1": "invalid resource pools were encountered"}


def test_an_expression_that_fails_is_an_error() -> None:
    bench = Bench(nodes=1)
    bench.add(claim("c", request("req", 1, "model=a100")))
    state, _ = bench.pre_filter(POD)
    status = bench.plugin.filter(state, POD, next(iter(bench.cache.table)))
    assert status is not None
    assert status.code is Code.ERROR
    assert "no such key: model" in status.message


def test_a_search_that_takes_too_long_is_an_error(release: Release) -> None:
    bench = Bench(release, nodes=1)
    bench.add(claim("c"))
    times = iter(range(0, 10_000, 6))
    object.__setattr__(bench.handle, "stopwatch", lambda: float(next(times)))
    state, _ = bench.pre_filter(POD)
    status = bench.plugin.filter(state, POD, next(iter(bench.cache.table)))
    assert status is not None
    assert (status.code, status.message) == (Code.ERROR, "node n0: timed out trying to allocate devices")


# --- binding conditions -----------------------------------------------------------------------------------------


def conditional(state: str = "", *, failure: str = "", is_new: bool = True) -> ResourceClaim:
    """A claim with a device that has a binding and a failure condition, with these statuses."""
    made = allocation(binding_conditions=["Ready"], binding_failure_conditions=["Broken"])
    made = replace(made, allocation_timestamp="2026-01-01T00:00:00Z" if is_new else None)
    found = [DeviceCondition("Ready", state)] if state else []
    found += [DeviceCondition("Broken", failure, "Smoke", 'it "burns"')] if failure else []
    reported = [AllocatedDeviceStatus(DRIVER, "n0", "g0", conditions=found)] if found else None
    return claim("c", allocation=made, devices=reported)


@pytest.mark.parametrize(
    ("made", "age_s", "rejected"),
    [
        (conditional("True"), 9_999.0, False),
        (conditional(), 599.0, False),
        (conditional(), 601.0, True),
        (conditional("False"), 601.0, True),
        (conditional("False", is_new=False), 9_999.0, False),
        (conditional("True", failure="True"), 0.0, True),
        (conditional("True", failure="False"), 0.0, False),
    ],
)
def test_devices_that_failed_or_are_overdue_make_their_claim_unavailable(
    made: ResourceClaim, age_s: float, rejected: bool
) -> None:
    bench = Bench(nodes=1)
    bench.add(made)
    bench.writes.age_s = age_s
    assert bench.filter(POD) == {"n0": NOT_THERE if rejected else ""}


# --- PostFilter -------------------------------------------------------------------------------------------------


def post_filter(bench: Bench, pod: object = POD) -> str:
    state, _ = bench.pre_filter(POD)
    bench.filter_all(state, POD)
    result, status = bench.plugin.post_filter(state, POD, {})
    assert result is None
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE
    return status.message


def test_the_text_for_a_pod_without_claims_is_the_releases(release: Release) -> None:
    bench = Bench(release)
    plain = pod_with()
    state, _ = bench.pre_filter(plain)
    _, status = bench.plugin.post_filter(state, plain, {})
    assert status is not None
    assert status.reasons == (("no new claims to deallocate",) if release.version == "1.36" else ())


def test_a_pod_that_another_pre_filter_rejected_ends_the_chain_with_an_error(release: Release) -> None:
    for pod in (pod_with(), POD):
        result, status = Bench(release).plugin.post_filter(CycleState(), pod, {})
        assert result is None
        assert status is not None
        assert (status.code, status.reasons) == (Code.ERROR, ("not found",))


def test_a_pod_that_its_own_pre_filter_rejected_has_no_claims_to_deallocate(release: Release) -> None:
    bench = Bench(release)
    for its_class_is_missing in (False, True):  # else the claim is
        if its_class_is_missing:
            bench.add(claim("c", DeviceRequest("r", exactly=ExactDeviceRequest("lost"))))
        state, rejected = bench.pre_filter(POD)
        assert rejected is not None
        _, status = bench.plugin.post_filter(state, POD, {})
        assert status is not None
        assert status.code is Code.UNSCHEDULABLE
        assert status.reasons == (("no new claims to deallocate",) if release.version == "1.36" else ())


@pytest.mark.parametrize("reserved", [(), ("uid-p",)])
def test_a_claim_that_no_node_can_use_is_deallocated(reserved: tuple[str, ...]) -> None:
    bench = Bench()
    made = claim("c", allocation=allocation(zone="elsewhere"), reserved_for=reserved_for(*reserved) or None)
    bench.add(made)
    assert post_filter(bench) == "deallocation of ResourceClaim completed"
    bench.writes.run_background()
    status = bench.writes.claims["default/c"].status
    assert (status.allocation, status.reserved_for, status.devices) == (None, None, None)


def test_a_claim_that_others_use_is_not_deallocated(release: Release) -> None:
    bench = Bench(release)
    bench.add(claim("c", allocation=allocation(zone="elsewhere"), reserved_for=reserved_for("uid-p", "uid-other")))
    assert post_filter(bench) == ("still not schedulable" if release.version == "1.36" else "")
    assert not bench.writes.background


def test_a_deallocation_that_comes_too_late_is_given_up() -> None:
    bench = Bench()
    bench.add(claim("c", allocation=allocation(zone="elsewhere")))
    assert post_filter(bench) == "deallocation of ResourceClaim completed"
    bench.writes.put(claim("c", allocation=allocation(zone="elsewhere"), reserved_for=reserved_for("uid-other")))
    bench.writes.run_background()
    assert bench.writes.reports == [("failed", "the object has been modified")]
    assert bench.writes.claims["default/c"].status.allocation is not None


# --- Score ------------------------------------------------------------------------------------------------------


def test_earlier_alternatives_score_higher() -> None:
    bench = Bench(nodes=3, gpus=0)
    wanted = first_available("r", alternative("big", 2), alternative("small", 1))
    for node, gpus in (("n0", 1), ("n1", 2)):
        bench.publish(node, gpus)
    bench.add(claim("c", wanted))
    state, _ = bench.pre_filter(POD)
    assert bench.filter_all(state, POD) == {"n0": "", "n1": "", "n2": NO_DEVICE}
    raw = {node.name: bench.plugin.score(state, POD, node)[0] for node in bench.cache.table}
    assert raw == {"n0": 7, "n1": 8, "n2": 0}
    bench.plugin.normalize_score(state, POD, raw)
    assert raw == {"n0": 87, "n1": 100, "n2": 0}
    assert by_table(bench, state, POD) == [87, 100, 0]


def test_a_pod_whose_claims_are_all_allocated_scores_nothing() -> None:
    bench = Bench(nodes=1)
    chosen = allocation(request="r/big")
    bench.add(claim("c", first_available("r", alternative("big")), allocation=chosen))
    state, _ = bench.pre_filter(POD)
    bench.filter_all(state, POD)
    assert bench.plugin.score(state, POD, next(iter(bench.cache.table))) == (0, None)
    assert by_table(bench, state, POD) == [0]


def by_table(bench: Bench, state: object, pod: object) -> list[int]:
    table, verdicts, scores = bench.cache.table, Verdicts(), Scores()
    verdicts.reset(table.columns)
    scores.reset(table.columns)
    bench.plugin.score_table(state, pod, table, verdicts, scores)  # type: ignore[arg-type]
    bench.plugin.normalize_table(state, pod, table, verdicts, scores)  # type: ignore[arg-type]
    return [scores.raw(row) for row in range(len(table))]


# --- Reserve ----------------------------------------------------------------------------------------------------


def test_a_reserved_device_is_taken_until_that_is_undone(release: Release) -> None:
    bench = Bench(release, nodes=1)
    bench.add(claim("c"))
    bench.add(claim("d"))
    state = bench.reserved(POD)
    assert bench.devices.in_flight == {"uid-c"}
    assert bench.filter(pod_with("d")) == {"n0": NO_DEVICE}
    for _ in range(2):  # idempotent
        bench.plugin.unreserve(state, POD, "n0")
    assert not bench.devices.in_flight
    assert bench.filter(pod_with("d")) == {"n0": ""}
    assert not bench.writes.background


def test_a_node_that_was_not_filtered_cannot_be_reserved() -> None:
    bench = Bench()
    bench.add(claim("c"))
    state, _ = bench.pre_filter(POD)
    status = bench.plugin.reserve(state, POD, "n0")
    assert status is not None
    assert (status.code, status.message) == (Code.ERROR, "claim allocation not found for node")


def test_a_claim_that_vanished_since_cannot_be_reserved_where_the_release_looks_again(release: Release) -> None:
    bench = Bench(release)
    bench.add(claim("c"))
    state, _ = bench.pre_filter(POD)
    bench.filter_all(state, POD)
    bench.devices.remove_claim("default", "c")
    status = bench.plugin.reserve(state, POD, "n0")
    if release.version == "1.36":
        assert status is None
        return
    assert status is not None
    assert status.message == (
        "internal error, couldn't signal allocation for claim c: look up assumed claim default/c, UID=uid-c: "
        'could not find ResourceClaim "default/c"'
    )


# --- node operations that kubelets skip, in 1.37 ----------------------------------------------------------------


def test_a_claim_whose_operations_are_skipped_is_used_where_the_kubelet_can_do_so() -> None:
    bench = Bench(RELEASE_1_37)
    bench.cache.set_node(make_node("n1").capacity(cpu="4").declared_feature("DRAOptionalNodeOperations").obj())
    bench.add(claim("c", allocation=allocation(skip_node_operations=["*"])))
    assert bench.filter(POD) == {"n0": NOT_THERE, "n1": ""}
    assert bench.plugin.prepare_claims(POD) is None


def test_in_a_gang_a_claim_in_flight_says_why_it_cannot_be_used_elsewhere() -> None:
    bench = Bench(RELEASE_1_37.with_gates({"DRAOptionalNodeOperations": True}), gpus=0)
    for name in ("n0", "n1"):
        bench.publish(name, 1, skip_node_operations=["*"])
    bench.cache.set_node(make_node("n0").capacity(cpu="4").declared_feature("DRAOptionalNodeOperations").obj())
    bench.devices.set_slice(make_slice("n0", [device("g0")], pool="n0", all_nodes=True, skip_node_operations=["*"]))
    bench.add(claim("c"))
    gang = CycleState()
    bench.reserved(POD, "n0", gang)
    state, _ = bench.pre_filter(pod_with("c", name="other"), gang)
    text = "resource claim default/c allocation requires DRAOptionalNodeOperations feature on the node"
    assert bench.filter_all(state, POD) == {"n0": "", "n1": text}
