"""The comparison of allocations finds what differs; it needs no oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kscheduler.config.releases import RELEASES
from tests.parity.devices.case import DeviceCase
from tests.parity.devices.compare import MOST_STEPS, all_differences
from tests.parity.devices.generate import generate
from tests.parity.devices.oracle import ABORTED, Decision, DeviceAnswer
from tests.parity.devices.ours import World
from tests.parity.shrink import kind_of

SHARED = {
    "name": "d0",
    "allowMultipleAllocations": True,
    "capacity": {"memory": {"value": "8Gi"}},
}


def case() -> DeviceCase:
    """A pod that asks for a part of the only device, which can be shared."""
    asked = {
        "deviceClassName": "any",
        "allocationMode": "ExactCount",
        "count": 1,
        "capacity": {"requests": {"memory": "2Gi"}},
    }
    config = {"opaque": {"driver": "gpu.example.com", "parameters": {"mode": ""}}}
    claim = {
        "metadata": {"name": "claim", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r0", "exactly": asked}], "config": [config]}},
    }
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    cluster: dict[str, list[dict[str, Any]]] = {
        "nodes": [{"metadata": {"name": "n0"}}],
        "deviceClasses": [{"metadata": {"name": "any"}}],
        "resourceSlices": [
            {
                "metadata": {"name": "slice"},
                "spec": {"driver": "gpu.example.com", "pool": pool, "nodeName": "n0", "devices": [SHARED]},
            }
        ],
        "deviceTaintRules": [],
        "allocated": [],
    }
    return DeviceCase(0, "1.36", {}, cluster, [{"claims": [claim]}])


def expected() -> Decision:
    """What kube-scheduler answers."""
    result = {
        "request": "r0",
        "driver": "gpu.example.com",
        "pool": "pool",
        "device": "d0",
        "shareID": "0d4a6e0c-6a1a-4b52-9d53-6a6b0a6f9d51",
        "consumedCapacity": {"memory": "2Gi"},
    }
    config = {"source": "FromClaim", "opaque": {"driver": "gpu.example.com", "parameters": {"mode": ""}}}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]
    allocation: dict[str, Any] = {
        "devices": {"results": [result], "config": [config]},
        "nodeSelector": {"nodeSelectorTerms": terms},
    }
    return Decision(results=[allocation], steps=4)


def kinds(decision: Decision) -> list[str]:
    return [kind_of(text) for _, text in all_differences(case(), DeviceAnswer(pods=[[decision]]))]


def changed(change: Callable[[dict[str, Any]], object]) -> Decision:
    decision = expected()
    assert decision.results is not None
    change(decision.results[0])
    return decision


def test_the_same_allocation_does_not_differ() -> None:
    assert all_differences(case(), DeviceAnswer(pods=[[expected()]])) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda allocation: allocation["devices"]["results"][0].update(device="d1"), "devices"),
        (
            lambda allocation: allocation["devices"]["results"][0]["consumedCapacity"].update(memory="2048Mi"),
            "consumed",
        ),
        (lambda allocation: allocation["devices"]["results"][0].pop("shareID"), "results"),
        (lambda allocation: allocation["devices"]["results"][0].update(adminAccess=True), "results"),
        (lambda allocation: allocation["devices"].pop("config"), "config"),
        (lambda allocation: allocation["devices"]["config"][0]["opaque"].update(parameters={}), "config"),
        (lambda allocation: allocation.pop("nodeSelector"), "node selector"),
        (lambda allocation: allocation.update(allocationTimestamp="2026-01-01T00:00:00Z"), "allocation"),
    ],
)
def test_each_part_of_an_allocation_is_compared(change: Callable[[dict[str, Any]], object], found: str) -> None:
    assert found in {kind.partition(":")[0] for kind in kinds(changed(change))}


def test_another_verdict_differs() -> None:
    assert kinds(Decision(no_solution=True, steps=4)) == ["verdict: no solution, got allocated"]
    assert kinds(Decision(failure="invalid resource pools were encountered")) == ["verdict: node failed, got allocated"]


def test_the_number_of_steps_is_compared() -> None:
    decision = expected()
    decision.steps += 1
    assert kinds(decision) == ["steps: expected #, got # (on n#)"]


def test_a_panic_of_kube_scheduler_asks_for_a_failure() -> None:
    assert kinds(Decision(panic="makeslice: cap out of range")) == ["verdict: kube-scheduler panics, got allocated"]


def test_searches_that_take_very_long_are_not_compared() -> None:
    assert kinds(Decision(no_solution=True, steps=MOST_STEPS + 1)) == []
    assert kinds(Decision(failure=f"{ABORTED}: context deadline exceeded", is_fatal=True)) == []


def test_texts_of_failures_are_compared() -> None:
    asking = case()
    asking.cluster["deviceClasses"] = []
    text = (
        "claim default/claim, request r0: could not retrieve device class any: "
        'deviceclass.resource.k8s.io "any" not found'
    )
    same, other = Decision(failure=text, is_fatal=True), Decision(failure="no class", is_fatal=True)
    assert all_differences(asking, DeviceAnswer(pods=[[same]])) == []
    assert [kind_of(found) for _, found in all_differences(asking, DeviceAnswer(pods=[[other]]))] == [
        "failure: allocation"
    ]


def test_a_crash_of_ours_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(World, "decide", crash)
    assert kinds(expected()) == ["crash: ZeroDivisionError"]


def test_in_a_sequence_the_devices_of_a_pod_are_in_use_for_the_next() -> None:
    twice = case()
    twice.config["sequence"] = True
    requests = twice.pending[0]["claims"][0]["spec"]["devices"]["requests"]
    requests[0]["exactly"]["capacity"]["requests"]["memory"] = "5Gi"
    twice.pending *= 2
    first = changed(lambda allocation: allocation["devices"]["results"][0]["consumedCapacity"].update(memory="5Gi"))
    second = Decision(no_solution=True, steps=1)
    assert all_differences(twice, DeviceAnswer(pods=[[first], [second]])) == []


@pytest.mark.parametrize("release", RELEASES)
def test_a_seed_gives_the_same_case_again(release: str) -> None:
    for seed in range(20):
        assert generate(seed, release) == generate(seed, release)
        assert generate(seed, release).request() != generate(seed + 1, release).request()
