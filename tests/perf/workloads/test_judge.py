"""What a workload must have come to: nobody lost, nothing overcommitted, and who may be evicted."""

from __future__ import annotations

from kscheduler.testing.controlplane import workload
from kscheduler.testing.controlplane.api import Object
from perf.workloads.judge import Ledger, judge

NODE = workload.node("a", capacity={"cpu": "200m", "memory": "32Gi", "pods": "10"})


def pod(name: str, node: str = "", namespace: str = "n") -> Object:
    made = workload.pod(name)
    made["metadata"] |= {"namespace": namespace, "uid": name}
    made["spec"]["nodeName"] = node
    return made


def event(name: str, node: str = "a") -> Object:
    return {"involvedObject": {"uid": name}, "message": f"Successfully assigned n/{name} to {node}", "count": 1}


def test_all_is_well_when_every_pod_is_where_its_event_says() -> None:
    ledger = Ledger(created={"n/one": 0, "n/two": 0}, waited_for={"n/one", "n/two"})
    verdict = judge(ledger, [NODE], [pod("one", "a"), pod("two", "a")], [event("one"), event("two")])
    assert (verdict.evicted, verdict.problems) == (0, [])


def test_pod_that_is_gone_was_evicted_if_another_is_more_important() -> None:
    ledger = Ledger(created={"n/low": 0, "n/high": 10}, highest_priority=10)
    verdict = judge(ledger, [NODE], [pod("high", "a")], [event("low"), event("high")])
    assert (verdict.evicted, verdict.problems) == (1, [])


def test_pod_that_nobody_may_evict_is_lost() -> None:
    ledger = Ledger(created={"n/low": 0, "n/high": 10}, highest_priority=10)
    verdict = judge(ledger, [NODE], [pod("low", "a")], [event("low"), event("high")])
    assert (verdict.evicted, verdict.problems) == (0, ["n/high is gone, and nobody may evict it"])


def test_pod_without_a_node_is_a_fault_only_when_it_was_waited_for() -> None:
    ledger = Ledger(created={"n/one": 0, "gated/two": 0}, waited_for={"n/one"})
    verdict = judge(ledger, [NODE], [pod("one"), pod("two", namespace="gated")], [])
    assert verdict.problems == ["n/one is not bound"]


def test_overcommitted_node_is_a_fault() -> None:
    names = ["one", "two", "three"]
    ledger = Ledger(created={f"n/{name}": 0 for name in names})
    verdict = judge(ledger, [NODE], [pod(name, "a") for name in names], [event(name) for name in names])
    assert verdict.problems == ["node a is overcommitted in cpu: 0.3 requested, 0.2 allocatable"]


def claim(name: str, device: str, **result: object) -> Object:
    allocated = {"request": "gpu", "driver": "d", "pool": "p", "device": device, **result}
    return {
        "metadata": {"namespace": "n", "name": name},
        "status": {"allocation": {"devices": {"results": [allocated]}}},
    }


def test_device_that_two_claims_have_is_a_fault() -> None:
    claims = [claim("one", "gpu-0"), claim("two", "gpu-1"), claim("three", "gpu-0")]
    verdict = judge(Ledger(), [NODE], [], [], claims)
    assert verdict.problems == ["device d/p/gpu-0 is allocated to n/one and to n/three"]


def test_device_may_be_shared_and_seen_by_an_admin() -> None:
    unused: Object = {"metadata": {"namespace": "n", "name": "unused"}}
    claims = [claim("one", "a"), claim("two", "a", adminAccess=True), claim("x", "b", shareID="1"), unused]
    assert judge(Ledger(), [NODE], [], [], [*claims, claim("y", "b", shareID="2")]).problems == []


def test_resource_that_a_claim_provides_does_not_count_on_the_node() -> None:
    made = pod("one", "a")
    made["spec"]["containers"][0]["resources"] = {"requests": {"example.com/gpu": "1"}}
    verdict = judge(Ledger(), [NODE], [made], [event("one")])
    assert verdict.problems == ["node a is overcommitted in example.com/gpu: 1.0 requested, 0.0 allocatable"]
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
    made["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": [mapping]}}
    assert judge(Ledger(), [NODE], [made], [event("one")]).problems == []
