"""Scenarios of devices that stand for cpu or memory of their node, or need some of it, with the gate of that on.

The fields of a slice differ between releases: devices here have those of each, and the apiserver keeps its own.
"""

from __future__ import annotations

from typing import Any

from kscheduler.testing.controlplane.api import Object
from tests.controlplane.parity.device_parts import (
    claim,
    device,
    device_class,
    devices,
    makes,
    request,
    template,
    uses,
)
from tests.controlplane.parity.device_parts import scenario as device_scenario
from tests.controlplane.parity.manifests import priority_class
from tests.controlplane.parity.scenario import Scenario
from tests.controlplane.parity.stage import FOREIGN
from tests.controlplane.parity.steps import (
    Step,
    bound,
    change_node,
    change_status,
    gone,
    node,
    pod,
    refused,
    remove_pod,
    settle,
    thing,
)

GATES = ("DRANodeAllocatableResources",)
CORES = "dra.example.com/cores"
TAKEN = {
    "resourceClaimName": "one",
    "containers": ["main"],
    "resources": {"cpu": "3"},
    "mapping": [{"name": "cpu", "quantity": "3"}],
}

# The newer apiserver takes such slices only for nodes whose kubelet can do it.
ONE: list[Step | list[Step]] = [node("a", declares=GATES), device_class()]
TWO: list[Step | list[Step]] = [*ONE, node("b", declares=GATES)]


def scenario(name: str, *steps: Step | list[Step], **options: Any) -> Scenario:
    return device_scenario(name, *steps, gates=GATES, **options)


def _standing_for(name: str, **amounts: str) -> Object:
    """A device that stands for these amounts of its node's resources."""
    return device(
        name,
        nodeAllocatableResourceMappings={each: {"allocationMultiplier": amount} for each, amount in amounts.items()},
        nodeAllocatableResources={each: {"mapping": {"deviceMultiplier": value}} for each, value in amounts.items()},
    )


def _cores(name: str, amount: str, cpu_each: str) -> Object:
    """A device that is shared out by the core, of which each is worth so much cpu."""
    by_core = {"capacityKey": CORES, "capacityMultiplier": cpu_each}
    return device(
        name,
        allowMultipleAllocations=True,
        capacity={CORES: {"value": amount}},
        nodeAllocatableResourceMappings={"cpu": {"capacityKey": CORES, "allocationMultiplier": cpu_each}},
        nodeAllocatableResources={"cpu": {"mapping": by_core}},
    )


def _container(name: str, *claims: str, **requests: str) -> Object:
    used = {"claims": [{"name": each} for each in claims]} if claims else {}
    return {"name": name, "image": "pause", "resources": {"requests": {"cpu": "100m", **requests}, **used}}


def _using(claims: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod's spec with these claims, which its only container uses."""
    names = [each["name"] for each in claims["resourceClaims"]]
    return {"containers": [_container("main", *names)], **claims, **spec}


def _limited(cpu: str) -> dict[str, Any]:
    """A pod's spec with requests and limits as a whole, and a container with this limit."""
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": cpu}, "claims": [{"name": "cpus"}]}
    whole = {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
    return {**makes("cpus"), "containers": [{**_container("main"), "resources": resources}], "resources": whole}


NODE_RESOURCES = (
    scenario(
        "Devices that stand for cpu take it from their node",
        *TWO,
        devices("a", _standing_for("c0", cpu="3", memory="1Gi")),
        claim("one"),
        pod("first", _using(uses("one"))),
        bound("first", "a"),
        pod("plain", cpu="1500m"),
        bound("plain", "b"),
    ),
    scenario(
        "A pod waits until there is cpu for its devices",
        *ONE,
        devices("a", *(_standing_for(name, cpu="2500m") for name in ("c0", "c1"))),
        template("cpus"),
        pod("first", _using(makes("cpus"))),
        bound("first", "a"),
        pod("second", _using(makes("cpus"))),
        refused("second", "Insufficient cpu"),
        remove_pod("first"),
        bound("second", "a"),
        retries_vary=True,
    ),
    scenario(
        "Devices that stand for more than a node has",
        *TWO,
        devices("a", _standing_for("c0", cpu="5", memory="64Gi")),
        claim("one"),
        pod("first", _using(uses("one"))),
        refused("first", "Insufficient cpu, 1 Insufficient memory"),
    ),
    scenario(
        "A pod is preempted for the cpu of devices",
        *ONE,
        thing(priority_class("high", 100)),
        devices("a", _standing_for("c0", cpu="3")),
        claim("one"),
        pod("low", {"terminationGracePeriodSeconds": 0}, cpu="2"),
        bound("low", "a"),
        pod("high", _using(uses("one"), priorityClassName="high")),
        gone("low"),
        settle,
        # kube-scheduler's DynamicResources hears of no pod that goes: this is why it tries the other one again.
        change_node("a", {"metadata": {"labels": {"seen": "by-all"}}}),
        bound("high", "a"),
        retries_vary=True,
    ),
    scenario(
        "A pod is preempted for its own devices' cpu",
        *ONE,
        thing(priority_class("high", 100)),
        devices("a", _standing_for("c0", cpu="3")),
        claim("one"),
        pod("low", _using(uses("one"), terminationGracePeriodSeconds=0)),
        bound("low", "a"),
        pod("high", {"priorityClassName": "high"}, cpu="2"),
        gone("low"),
        bound("high", "a"),
        retries_vary=True,
    ),
    scenario(
        "What is used of a capacity is worth cpu",
        *ONE,
        devices("a", _cores("socket", "8", "2")),
        template("core", request(capacity={"requests": {CORES: "1"}})),
        pod("first", _using(makes("core"))),
        bound("first", "a"),
        pod("second", _using(makes("core"))),
        refused("second", "Insufficient cpu"),
    ),
    scenario(
        "Several claims with several devices and containers",
        *ONE,
        devices("a", *(_standing_for(f"c{index}", cpu="500m", memory="512Mi") for index in range(3))),
        claim("pair", request(count=2)),
        claim("single"),
        pod(
            "first",
            {
                "initContainers": [_container("setup", "pair")],
                "containers": [_container("main", "single", "pair"), _container("side", "pair")],
                **uses("single", "pair"),
            },
        ),
        bound("first", "a"),
        pod("plain", cpu="2400m"),
        refused("plain", "Insufficient cpu"),
    ),
    scenario(
        "Overhead for each pod and container that uses a device",
        *ONE,
        devices(
            "a",
            device(
                "g0",
                nodeAllocatableResources={
                    "memory": {"overhead": {"perPod": "1Gi", "perContainer": "512Mi"}},
                    "cpu": {"mapping": {"deviceMultiplier": "1"}, "overhead": {"perPod": "250m"}},
                },
            ),
        ),
        claim("one"),
        pod("first", {"containers": [_container("main", "one"), _container("side", "one")], **uses("one")}),
        bound("first", "a"),
        pod("plain", cpu="3", memory="30Gi"),  # the releases do not agree whether there is room
    ),
    scenario(
        "A claim with a mapped device is not shared",
        *TWO,
        devices("a", _standing_for("c0", cpu="1")),
        claim("one"),
        pod("first", _using(uses("one"))),
        bound("first", "a"),
        pod("second", _using(uses("one"))),
        refused("second", "node allocatable resource claim one"),
    ),
    scenario(
        "A claim that no container uses",
        *ONE,
        devices("a", _standing_for("c0", cpu="1")),
        claim("one"),
        pod("first", uses("one")),  # the releases do not agree whether it may be bound
        settle,
    ),
    scenario(
        "Requests of a pod as a whole that its devices exceed",
        *ONE,
        devices("a", _standing_for("c0", cpu="1")),
        claim("one"),
        pod("small", _using(uses("one"), resources={"requests": {"cpu": "1"}})),
        refused("small", "pod level request for cpu is insufficient"),
        pod("large", _using(uses("one"), resources={"requests": {"cpu": "1100m"}})),
        bound("large", "a"),
    ),
    scenario(
        "Limits of a pod as a whole that its devices exceed",
        *ONE,
        devices("a", *(_standing_for(name, cpu="1") for name in ("c0", "c1"))),
        template("cpus"),
        pod("first", _limited("1")),
        bound("first", "a"),
        pod("second", _limited("1500m")),  # only newer releases look at limits
        settle,
    ),
    scenario(
        "A scheduler that starts counts what devices of pods have taken",
        *TWO,
        pod("there", {**_using(uses("one")), "nodeName": "a"}, profile=FOREIGN, wait=False),
        change_status("there", {"nodeAllocatableResourceClaimStatuses": [TAKEN]}),
        starts_cold=True,
        then=(pod("plain", cpu="1500m"), bound("plain", "b")),
    ),
)
