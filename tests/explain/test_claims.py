"""Which claims of a pending pod fail on how many nodes, with a whole scheduler in virtual time."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.explain import claims
from kscheduler.explain.claims import ClaimExplainer
from kscheduler.explain.explainer import Explainer, Leadership
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.explain.text import explanation_text
from kscheduler.scheduler import Options
from kscheduler.simulator.cluster_client import Latency
from kscheduler.testing import make_node, make_pod
from tests.devices.building import DRIVER, request
from tests.explain.explained import explained
from tests.support.devices import GPU, DeviceWorld, backing, gpu_pod, named_claim, template
from tests.support.world import in_virtual_time

SMALL = f'device.attributes["{DRIVER}"].model == "small"'
IS_SMALL = f'"model" in device.attributes["{DRIVER}"] && {SMALL}'


def world(**options: Any) -> tuple[DeviceWorld, Explainer]:
    made = DeviceWorld(options=Options(explain=DecisionLogOptions(), first_on_tie=True), **options)
    explainer = made.scheduler.explainer(lambda: Leadership("here_1", True, "here_1"))
    assert explainer is not None
    return made, explainer


@in_virtual_time
async def test_a_selector_that_no_device_matches_is_named_with_its_request_and_nodes() -> None:
    made, explainer = world()
    async with made:
        made.add(template("small", request("gpu", 1, IS_SMALL)))
        made.add_node(make_node("bare").capacity(cpu="4", memory="16Gi"))
        made.add_pod(gpu_pod("p", templates=("small",)))
        await made.sleep(20.0)
        found = explained(explainer, "default/p")
        claim = made.claim("p").key
    assert found["summary"].startswith("fits nowhere: 0/4 nodes are available: 4 cannot allocate all claims.")
    asked = {"claim": claim, "request": "gpu"}
    entry = {"name": "from-small", "claim": claim, "template": "small", "state": "not allocated", "devices": []}
    assert found["claims"] == {
        "claims": [entry],
        "waitsFor": "",
        "nodes": 4,
        "satisfied": 0,
        "findings": [
            {
                **asked,
                "reason": "selector",
                "detail": f"claim {claim}: selector #0: {IS_SMALL}",
                "message": f"too few devices match: claim {claim}: selector #0: {IS_SMALL}",
                "nodes": 3,
                "examples": ["n0", "n1", "n2"],
            },
            {
                **asked,
                "reason": "no device",
                "detail": "",
                "message": "the node has too few devices",
                "nodes": 1,
                "examples": ["bare"],
            },
        ],
        "findingsLeftOut": 0,
    }
    shown = explanation_text(found)
    assert f"Claims for devices\n  from-small  {claim}  not allocated\n" in shown
    assert "Claims, by the devices at this moment: 4 nodes looked at, 0 can satisfy them\n" in shown
    assert f"too few devices match: claim {claim}: selector #0: {IS_SMALL}\n" in shown


@in_virtual_time
async def test_devices_in_use_and_a_claim_that_is_bound_to_another_node() -> None:
    made, explainer = world(nodes=2, gpus=1)
    async with made:
        for name in ("a", "b"):
            made.add_pod(gpu_pod(name))
        await made.sleep(5.0)
        made.add_pod(gpu_pod("p", made.claim("a").metadata.name, templates=("one-gpu",)))
        await made.sleep(20.0)
        here, there = made.cluster.pods["default/a"].spec.node_name, made.cluster.pods["default/b"].spec.node_name
        found = explained(explainer, "default/p")["claims"]
        bound = explained(explainer, "default/a")["claims"]
    reasons = {(each["reason"], *each["examples"]) for each in found["findings"]}
    # The first claim has no node selector of its own for the node that it is on.
    assert reasons == {("in use", here), ("allocated elsewhere", there)}
    assert [each["state"] for each in found["claims"]] == ["allocated", "not allocated"]
    assert (bound["nodes"], bound["findings"]) == (0, []), "it is not pending"


@in_virtual_time
async def test_the_devices_of_a_pod_are_listed() -> None:
    made, explainer = world(nodes=1)
    async with made:
        made.add(template("two", request("gpus", 2)))
        made.add_pod(gpu_pod("p", templates=("two",)))
        await made.sleep(5.0)
        found = explained(explainer, "default/p")
        key = made.claim("p").key
    of_request = {"request": "gpus", "driver": DRIVER, "pool": "n0", "shareID": ""}
    assert found["claims"]["claims"] == [
        {
            "name": "from-two",
            "claim": key,
            "template": "two",
            "state": "allocated",
            "devices": [{**of_request, "device": "g0"}, {**of_request, "device": "g1"}],
        }
    ]
    first, second = (f"{DRIVER}/n0/{name} (request gpus)" for name in ("g0", "g1"))
    row = f"  from-two  {key}  allocated  {first}\n"
    assert f"\nClaims for devices\n{row}{' ' * (len(row) - len(first) - 1)}{second}\n" in explanation_text(found)
    assert "looked at, 0 can" not in explanation_text(found)


@in_virtual_time
async def test_a_claim_that_does_not_exist_is_listed_too() -> None:
    made, explainer = world(controller=False)
    async with made:
        made.add(named_claim("there"))
        made.add_pod(gpu_pod("p", "absent", "there", templates=("one-gpu",)))
        await made.sleep(5.0)
        claim = made.claim("there")
        leaving = replace(claim, metadata=replace(claim.metadata, deletion_timestamp="2024-01-01T00:00:00Z"))
        made.scheduler.devices.set_claim(leaving)
        listed = explained(explainer, "default/p")["claims"]["claims"]
        shown = explanation_text(explained(explainer, "default/p"))
        made.scheduler.devices.set_claim(claim)
        made.cluster.delete_pod("default/p")
    assert [(each["name"], each["claim"], each["state"]) for each in listed] == [
        ("absent", "default/absent", "not found"),
        ("there", "default/there", "being deleted"),
        ("from-one-gpu", "", "not made yet"),
    ]
    assert "  from-one-gpu  from template one-gpu  not made yet\n" in shown


@in_virtual_time
async def test_an_allocation_that_is_not_written_yet_is_listed() -> None:
    made, explainer = world(nodes=1, latency=Latency(write_s=1.0))
    async with made:
        made.add_pod(gpu_pod("p"))
        await made.until(lambda: bool(made.scheduler.devices.in_flight))
        [claim] = explained(explainer, "default/p")["claims"]["claims"]
        await made.sleep(5.0)
    assert (claim["state"], [each["device"] for each in claim["devices"]]) == ("being allocated", ["g0"])


@in_virtual_time
async def test_a_claim_that_is_not_there_and_a_class_that_is_not_there() -> None:
    made, explainer = world()
    async with made:
        made.add_pod(gpu_pod("p", "absent"))
        made.add(named_claim("unclassed", request("gpu", device_class_name="none")))
        made.add_pod(gpu_pod("q", "unclassed"))
        await made.sleep(5.0)
        waits = [explained(explainer, f"default/{name}") for name in ("p", "q")]
        for name in ("p", "q"):
            made.cluster.delete_pod(f"default/{name}")
    assert [each["claims"]["waitsFor"] for each in waits] == [
        'could not find ResourceClaim "default/absent"',
        "request gpu: device class none does not exist",
    ]
    assert 'Claims: waits, could not find ResourceClaim "default/absent"\n' in explanation_text(waits[0])


@in_virtual_time
async def test_extended_resources_are_explained_where_devices_back_them() -> None:
    made, explainer = world(nodes=1, gpus=1)
    async with made:
        made.add(backing("gpus", GPU))
        made.add_node(make_node("own").capacity(cpu="4", memory="16Gi", **{GPU: "1"}))
        made.add_pod(make_pod("p").req(cpu="1", **{GPU: "2"}))
        made.add_pod(make_pod("without").req(cpu="100"))
        await made.sleep(20.0)
        made.add_pod(make_pod("small").req(cpu="1", **{GPU: "1"}).node_selector("zone", "z0"))
        await made.sleep(20.0)
        found, without = explained(explainer, "default/p")["claims"], explained(explainer, "default/without")["claims"]
        [special] = explained(explainer, "default/small")["claims"]["claims"]
    [finding] = found["findings"]
    assert (finding["claim"], finding["reason"], finding["examples"]) == ("extended resources", "no device", ["n0"])
    assert (found["nodes"], found["satisfied"]) == (2, 1)
    assert found["claims"] == [], "there is none before it is bound"
    assert (special["name"], special["state"]) == ("extended resources", "allocated")
    assert [each["device"] for each in special["devices"]] == ["g0"]
    assert without is None


@in_virtual_time
async def test_an_answer_takes_no_longer_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = world(nodes=8)
    async with made:
        made.add(template("many", request("gpu", 3)))
        made.add_pod(gpu_pod("p", templates=("many",)))
        await made.sleep(5.0)
        scheduler, pod = made.scheduler, made.cluster.pods["default/p"]
        moments, step = itertools.count(), claims.MAX_SECONDS / 3
        explainer = ClaimExplainer(scheduler.devices, scheduler.release, lambda: next(moments) * step)
        hasty = explainer.explain(pod, scheduler.cache.table)
        monkeypatch.setattr(claims, "MAX_NODES", 5)
        monkeypatch.setattr(claims, "MAX_SECONDS", 1000.0)
        few = explainer.explain(pod, scheduler.cache.table)
    assert hasty is not None
    assert few is not None
    assert (hasty["nodes"], few["nodes"]) == (2, 5)
