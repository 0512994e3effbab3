"""What PreBind writes, what it does about conflicts, and how Unreserve takes it back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.devices import FINALIZER, AllocatedDeviceStatus, DeviceCondition, ResourceClaim
from kscheduler.config.releases import Release
from kscheduler.errors import APIError, Conflict, NotFound, Unreachable
from kscheduler.framework.cycle_state import CycleState
from tests.devices.building import DRIVER, device, make_slice
from tests.framework.plugins.dynamicresources.bench import (
    NOW,
    Bench,
    allocation,
    claim,
    pod_with,
    reserved_for,
)

POD = pod_with("c")
MODIFIED = Conflict("the object has been modified")


def users(made: ResourceClaim) -> list[str]:
    return [each.uid for each in made.status.reserved_for or ()]


def test_an_allocation_is_written_with_its_finalizer_and_reservation(release: Release) -> None:
    bench = Bench(release, nodes=1)
    bench.add(claim("c"))
    state = bench.reserved(POD)
    assert bench.pre_bind(state, POD) == ""
    assert bench.writes.requests == [("patch", "default/c"), ("patch status", "default/c")]
    written = bench.writes.claims["default/c"]
    assert written.metadata.finalizers == [FINALIZER]
    assert users(written) == ["uid-p"]
    assert written.status.reserved_for is not None
    assert (written.status.reserved_for[0].resource, written.status.reserved_for[0].name) == ("pods", "p")
    assert written.status.allocation is not None
    assert written.status.allocation.allocation_timestamp == NOW
    assert [each.device for each in written.status.allocation.devices.results or ()] == ["g0"]
    # It counts before the watch brings it, and is in flight no longer.
    assert bench.devices.claim("default", "c") == written
    assert not bench.devices.in_flight
    bench.add(claim("d"))
    assert bench.filter(pod_with("d")) == {"n0": "cannot allocate all claims"}


def test_an_allocated_claim_is_only_reserved() -> None:
    bench = Bench()
    made = replace(allocation(), allocation_timestamp="2026-01-01T00:00:00Z")
    bench.add(claim("c", allocation=made, reserved_for=reserved_for("uid-other")))
    state = bench.reserved(POD)
    assert bench.pre_bind(state, POD) == ""
    assert bench.writes.requests == [("patch status", "default/c")]
    written = bench.writes.claims["default/c"]
    assert users(written) == ["uid-other", "uid-p"]
    assert written.status.allocation == made


def test_a_claim_that_is_reserved_for_the_pod_is_left_alone() -> None:
    bench = Bench()
    bench.add(claim("c", allocation=allocation(), reserved_for=reserved_for("uid-p")))
    assert bench.pre_bind(bench.reserved(POD), POD) == ""
    assert not bench.writes.requests


def test_a_conflict_is_tried_again_with_the_newest_version() -> None:
    bench = Bench(nodes=1)
    bench.add(claim("c"))
    state = bench.reserved(POD)
    changed = claim("c")
    bench.writes.put(replace(changed, metadata=replace(changed.metadata, labels={"seen": "no"})), is_seen=False)
    assert bench.pre_bind(state, POD) == ""
    assert [verb for verb, _ in bench.writes.requests] == ["patch", "get", "patch", "patch status"]
    assert bench.writes.claims["default/c"].metadata.labels == {"seen": "no"}
    assert bench.slept == [0.01]


def test_conflicts_without_end_are_an_error_after_five_tries(release: Release) -> None:
    bench = Bench(release, nodes=1)
    bench.add(claim("c"))
    state = bench.reserved(POD)
    bench.writes.refusals["patch status"] = [MODIFIED] * 9
    text = "add allocation and reservation to claim default/c: the object has been modified"
    assert bench.pre_bind(state, POD) == text
    assert [verb for verb, _ in bench.writes.requests].count("patch status") == 5
    # 1.36 gives up the allocation here, 1.37 at Unreserve.
    assert bool(bench.devices.in_flight) == (release.version != "1.36")
    bench.plugin.unreserve(state, POD, "n0")
    assert not bench.devices.in_flight
    assert not bench.writes.background


@pytest.mark.parametrize(
    ("verb", "error", "text"),
    [
        ("patch", APIError("boom", status=500), "add finalizer to claim default/c: boom"),
        ("patch status", NotFound("gone"), "add allocation and reservation to claim default/c: gone"),
        (
            "patch status",
            APIError("PATCH /c/status: 422 Invalid: immutable", status=422, explanation="immutable"),
            "add allocation and reservation to claim default/c: immutable",
        ),
    ],
)
def test_other_errors_end_the_binding_at_once(verb: str, error: APIError, text: str) -> None:
    bench = Bench(nodes=1)
    bench.add(claim("c"))
    state = bench.reserved(POD)
    bench.writes.refusals[verb] = [error]
    assert bench.pre_bind(state, POD) == text
    assert not bench.slept


def test_an_allocation_whose_answer_is_lost_is_looked_for_until_it_is_certain() -> None:
    bench = Bench(nodes=1)
    bench.add(claim("c"))
    state = bench.reserved(POD)
    bench.writes.refusals.update({"patch status": [Unreachable("reset")] * 2, "get": [None, Unreachable("reset")]})
    assert bench.pre_bind(state, POD) == ""
    verbs = [verb for verb, _ in bench.writes.requests]
    assert verbs == ["patch", "patch status", "get", "patch status", "get", "get", "patch status"]
    assert bench.slept == [0.1, 0.2, 0.4]
    assert users(bench.writes.claims["default/c"]) == [POD.uid]


def test_an_allocation_that_stays_in_doubt_is_an_error_after_a_minute() -> None:
    bench = Bench(nodes=1)
    bench.add(claim("c"))
    state = bench.reserved(POD)
    bench.writes.refusals["patch status"] = [Unreachable("reset")] * 99
    assert bench.pre_bind(state, POD) == "add allocation and reservation to claim default/c: reset"
    assert 55 < sum(bench.slept) <= 60


def test_a_reservation_that_fails_says_so() -> None:
    bench = Bench()
    bench.add(claim("c", allocation=allocation()))
    state = bench.reserved(POD)
    bench.writes.refusals["patch status"] = [APIError("too many", status=422)]
    assert bench.pre_bind(state, POD) == "add reservation to claim default/c: too many"


def test_what_happened_to_a_claim_meanwhile_is_named() -> None:
    def after(changed: ResourceClaim, start: ResourceClaim) -> str:
        bench = Bench(nodes=1)
        bench.add(start)
        state = bench.reserved(POD)
        bench.writes.put(changed, is_seen=False)
        return bench.pre_bind(state, POD)

    fresh = claim("c")
    deleted = replace(fresh, metadata=replace(fresh.metadata, deletion_timestamp=NOW))
    assert after(deleted, fresh) == "claim default/c got deleted in the meantime"
    taken = claim("c", allocation=allocation())
    assert after(taken, fresh) == "claim default/c got allocated elsewhere in the meantime"
    assert after(fresh, taken) == "claim default/c got deallocated elsewhere in the meantime"


def test_a_member_of_a_gang_reserves_what_another_has_written(release: Release) -> None:
    bench = Bench(release)
    bench.add(claim("c"))
    group = CycleState()
    first, second = pod_with("c", name="first"), pod_with("c", name="second")
    states = [bench.reserved(each, group=group) for each in (first, second)]
    assert [bench.pre_bind(state, pod) for state, pod in zip(states, (first, second), strict=True)] == ["", ""]
    assert users(bench.writes.claims["default/c"]) == ["uid-first", "uid-second"]
    assert not bench.devices.in_flight


def test_a_member_of_a_gang_does_not_take_another_allocation_for_its_own() -> None:
    bench = Bench(nodes=1)
    bench.add(claim("c"))
    state = bench.reserved(POD, group=CycleState())
    bench.writes.put(claim("c", allocation=allocation("n0/other")), is_seen=False)
    assert bench.pre_bind(state, POD) == "claim default/c got allocated elsewhere in the meantime"


def test_a_claim_that_is_gone_when_it_is_read_again_ends_the_binding() -> None:
    bench = Bench(nodes=1)
    bench.add(claim("c"))
    state = bench.reserved(POD)
    bench.writes.refusals.update({"patch": [MODIFIED], "get": [NotFound("not there")]})
    assert bench.pre_bind(state, POD) == "get updated claim default/c after conflict: not there"


def test_a_claim_named_twice_is_allocated_twice_and_fails_as_in_kube_scheduler() -> None:
    bench = Bench(nodes=1, gpus=2)
    bench.add(claim("c"))
    twice = pod_with("c", "c")
    state = bench.reserved(twice)
    text = "claim default/c got allocated elsewhere in the meantime"
    assert bench.pre_bind(state, twice) == text
    bench.plugin.unreserve(state, twice, "n0")
    bench.writes.run_background()
    written = bench.writes.claims["default/c"]
    assert written.status.allocation is not None
    assert users(written) == []
    assert not bench.devices.in_flight


# --- Unreserve --------------------------------------------------------------------------------------------------


def test_a_written_reservation_is_taken_back_and_the_allocation_stays() -> None:
    bench = Bench(nodes=1)
    bench.add(claim("c"))
    state = bench.reserved(POD)
    bench.pre_bind(state, POD)
    bench.plugin.unreserve(state, POD, "n0")
    bench.writes.run_background()
    assert bench.writes.requests[-1] == ("release", "default/c")
    written = bench.writes.claims["default/c"]
    assert users(written) == []
    assert written.status.allocation is not None
    assert bench.devices.claim("default", "c") == written


def test_the_next_binding_of_the_pod_waits_until_its_reservation_is_taken_back() -> None:
    bench = Bench(nodes=1)
    bench.add(claim("c"))
    state = bench.reserved(POD)
    bench.pre_bind(state, POD)
    bench.plugin.unreserve(state, POD, "n0")
    again = bench.reserved(POD)  # the claim is still reserved for the pod, as far as is known
    object.__setattr__(bench.handle, "evictions", _Awaiting(bench))
    assert bench.pre_bind(again, POD) == ""
    assert users(bench.writes.claims["default/c"]) == ["uid-p"]


class _Awaiting:
    """In place of evictions: a wait during which the background work is done."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def until(self, holds: object, within_s: float) -> bool:
        for work in self._bench.writes.background:
            await work
        self._bench.writes.background.clear()
        return True


# --- binding conditions -----------------------------------------------------------------------------------------


def with_conditions(release: Release, *, binding_s: float = 600.0) -> Bench:
    bench = Bench(release, nodes=1, gpus=0, binding_s=binding_s)
    needs = device("g0", binding_conditions=["Ready"], binding_failure_conditions=["Broken"])
    bench.devices.set_slice(make_slice("n0", [needs], node_name="n0", pool="n0"))
    bench.add(claim("c"))
    return bench


def report(bench: Bench, **conditions: str) -> None:
    """What the driver writes about the device."""
    written = bench.writes.claims["default/c"]
    found = [DeviceCondition(kind, status, "Why", "how come") for kind, status in conditions.items()]
    devices = [AllocatedDeviceStatus(DRIVER, "n0", "g0", conditions=found)]
    bench.writes.put(replace(written, status=replace(written.status, devices=devices)))


def test_a_pod_waits_for_its_devices_to_be_ready(release: Release) -> None:
    bench = with_conditions(release)
    state = bench.reserved(POD)
    bench.on_sleep = lambda: report(bench, Ready="True") if len(bench.slept) == 3 else None
    assert bench.pre_bind(state, POD) == ""
    assert bench.slept == [5.0, 5.0, 5.0]
    note = "waiting for binding conditions for device on node n0"
    assert bench.writes.events == [("BindingConditionsPending", note)]
    assert bench.writes.reports == [
        ("waited", "profile", DRIVER, "success"),
        ("conditions", "profile", DRIVER, "success"),
    ]
    assert not bench.devices.in_flight


def test_a_device_that_fails_ends_the_binding(release: Release) -> None:
    bench = with_conditions(release)
    state = bench.reserved(POD)
    bench.on_sleep = lambda: report(bench, Broken="True")
    text = 'device binding failed: claim=c, reason=Why, message="how come"'
    assert bench.pre_bind(state, POD) == text
    assert bench.writes.reports[0] == ("waited", "profile", DRIVER, "failure")
    # 1.37 keeps the allocation in flight until PreBind has ended well.
    assert bool(bench.devices.in_flight) == (release.version != "1.36")
    bench.plugin.unreserve(state, POD, "n0")
    bench.writes.run_background()
    assert users(bench.writes.claims["default/c"]) == []
    assert not bench.devices.in_flight


def test_devices_that_never_get_ready_time_out() -> None:
    release = Bench().handle.release
    bench = with_conditions(release, binding_s=12.0)
    state = bench.reserved(POD)
    bench.writes.age_s = -100.0  # the clock of the claim's time is not ours
    assert bench.pre_bind(state, POD) == "device binding timeout: context deadline exceeded"
    assert bench.slept == [5.0, 5.0, 2.0]
    assert bench.writes.reports[0] == ("waited", "profile", DRIVER, "timeout")


def test_a_claim_that_was_allocated_too_long_ago_times_out() -> None:
    bench = with_conditions(Bench().handle.release)
    state = bench.reserved(POD)
    bench.writes.age_s = 600.5
    assert bench.pre_bind(state, POD) == "device binding timeout: claim=c"
    assert bench.slept == []


def test_a_claim_that_vanishes_while_its_devices_are_awaited_is_an_error() -> None:
    bench = with_conditions(Bench().handle.release)
    state = bench.reserved(POD)
    bench.on_sleep = lambda: bench.devices.remove_claim("default", "c")
    assert bench.pre_bind(state, POD) == 'could not find ResourceClaim "default/c"'
    assert bench.writes.reports[0] == ("waited", "profile", DRIVER, "error")


def test_without_the_feature_nobody_waits_and_no_time_is_written(release: Release) -> None:
    bench = Bench(release.with_gates({"DRADeviceBindingConditions": False}), nodes=1)
    bench.add(claim("c"))
    state = bench.reserved(POD)
    assert bench.pre_bind(state, POD) == ""
    written = bench.writes.claims["default/c"].status.allocation
    assert written is not None
    assert written.allocation_timestamp is None
