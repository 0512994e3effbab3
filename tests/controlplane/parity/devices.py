"""Scenarios of devices: claims that pods have alone, share or wait for, and slices that come, change and vanish.

No driver runs: scenarios publish its ResourceSlices themselves. The controller that makes claims from templates
and releases them runs beside the schedulers.
"""

from __future__ import annotations

from typing import Any

from kscheduler.testing.controlplane.api import Object
from tests.controlplane.parity.manifests import priority_class
from tests.controlplane.parity.outcome import Placements, anywhere, exact
from tests.controlplane.parity.scenario import Scenario
from tests.controlplane.parity.steps import (
    Step,
    allocated,
    bound,
    change_thing,
    gone,
    node,
    pod,
    refused,
    released,
    remove_pod,
    remove_thing,
    settle,
    thing,
)

GROUP, DRIVER = "resource.k8s.io/v1", "gpu.example.com"
SLICES = f"/apis/{GROUP}/resourceslices"
NO_ROOM = "cannot allocate all claims"


def scenario(name: str, *steps: Step | list[Step], placements: Placements = exact, **options: Any) -> Scenario:
    return Scenario(name, steps, placements, needs=frozenset({"DynamicResources"}), **options)


# --- objects --------------------------------------------------------------------------------------------------------


def device_class(name: str = "gpu", expression: str = f'device.driver == "{DRIVER}"', **spec: Any) -> Step:
    selectors = [{"cel": {"expression": expression}}]
    return thing(_object("DeviceClass", name, {"selectors": selectors, **spec}))


def devices(node_name: str, *found: Object | str, pool: Object | None = None, name: str = "", **spec: Any) -> Step:
    """A slice of a node's pool, with devices by name or as objects."""
    listed = [{"name": each} if isinstance(each, str) else each for each in found]
    known = {"name": node_name, "generation": 1, "resourceSliceCount": 1, **(pool or {})}
    made = {"driver": DRIVER, "nodeName": node_name, "pool": known, **({"devices": listed} if listed else {}), **spec}
    return thing(_object("ResourceSlice", name or f"{node_name}-gpus", made))


def device(name: str, **fields: Any) -> Object:
    return {"name": name, **fields}


def model(name: str, value: str) -> Object:
    return device(name, attributes={"model": {"string": value}})


def request(name: str = "gpu", device_class_name: str = "gpu", selector: str = "", **fields: Any) -> Object:
    selectors = {"selectors": [{"cel": {"expression": selector}}]} if selector else {}
    return {"name": name, "exactly": {"deviceClassName": device_class_name, **selectors, **fields}}


def claim(name: str, *requests: Object, **more: Any) -> Step:
    return thing(_object("ResourceClaim", name, _claim_spec(requests, more)))


def template(name: str, *requests: Object, **more: Any) -> Step:
    return thing(_object("ResourceClaimTemplate", name, {"spec": _claim_spec(requests, more)}))


def uses(*claims: str, **spec: Any) -> dict[str, Any]:
    return {**spec, "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims]}


def makes(*templates: str, **spec: Any) -> dict[str, Any]:
    return {**spec, "resourceClaims": [{"name": each, "resourceClaimTemplateName": each} for each in templates]}


def change_slice(name: str, patch: Object) -> Step:
    return change_thing(f"{SLICES}/{name}", {"spec": patch})


def _claim_spec(requests: tuple[Object, ...], more: dict[str, Any]) -> Object:
    return {"devices": {"requests": list(requests) or [request()], **more}}


def _object(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec}


# --- scenarios ------------------------------------------------------------------------------------------------------

MODELS = ("small", "large")
TWO: list[Step | list[Step]] = [node("a"), node("b"), device_class()]

CLAIMS = (
    scenario(
        "A claim is allocated where its pod goes",
        *TWO,
        devices("b", "g0", "g1"),
        claim("one"),
        pod("first", uses("one")),
        bound("first", "b"),
        allocated("one"),
    ),
    scenario(
        "Pods that share a claim go to the same node",
        *TWO,
        devices("a", "g0"),
        devices("b", model("g0", "large")),
        claim("one", request(selector=f'device.attributes["{DRIVER}"].?model.orValue("") == "large"')),
        pod("first", uses("one")),
        bound("first", "b"),
        pod("second", uses("one")),
        bound("second", "b"),
        pod("elsewhere", uses("one", nodeSelector={"kubernetes.io/hostname": "a"})),
        refused("elsewhere", "node(s) didn't match Pod's node affinity/selector"),
    ),
    scenario(
        "Each pod of a template has a claim of its own, until there are no devices",
        node("a"),
        device_class(),
        devices("a", "g0", "g1"),
        template("gpu"),
        pod("first", makes("gpu")),
        bound("first", "a"),
        pod("second", makes("gpu")),
        bound("second", "a"),
        pod("third", makes("gpu")),
        refused("third", NO_ROOM),
        remove_pod("first"),
        bound("third", "a"),
        retries_vary=True,
    ),
    scenario(
        "A claim that nobody uses any more can be used elsewhere",
        *TWO,
        devices("a", "g0"),
        claim("one"),
        pod("first", uses("one")),
        bound("first", "a"),
        allocated("one"),
        remove_pod("first"),
        released("one"),
        remove_thing(f"{SLICES}/a-gpus"),
        devices("b", "g0"),
        pod("second", uses("one")),
        bound("second", "b"),
        retries_vary=True,
    ),
    scenario(
        "A class that is not there yet",
        node("a"),
        devices("a", "g0"),
        claim("one"),
        pod("first", uses("one")),
        refused("first", "device class gpu does not exist"),
        device_class(),
        bound("first", "a"),
        retries_vary=True,
    ),
    scenario(
        "Devices that come later",
        *TWO,
        claim("one"),
        pod("first", uses("one")),
        refused("first", NO_ROOM),
        devices("b", "g0"),
        bound("first", "b"),
        retries_vary=True,
    ),
    scenario(
        "A claim that comes after its pod",
        node("a"),
        device_class(),
        devices("a", "g0"),
        pod("first", uses("one"), wait=False),
        claim("one"),
        bound("first", "a"),
        retries_vary=True,
    ),
    scenario(
        "The scheduler starts when pods with claims are there",
        node("a"),
        device_class(),
        devices("a", "g0", "g1"),
        claim("one"),
        claim("two", request(count=2)),
        pod("first", uses("one"), wait=False),
        starts_cold=True,
        then=(bound("first", "a"), pod("second", uses("two")), refused("second", NO_ROOM)),
    ),
)

CHOICES = (
    scenario(
        "Two devices of the same model",
        *TWO,
        devices("a", model("g0", "x"), model("g1", "y")),
        devices("b", model("g0", "x"), model("g1", "y"), model("g2", "y")),
        claim("pair", request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/model"}]),
        pod("first", uses("pair")),
        bound("first", "b"),
        allocated("pair"),
    ),
    scenario(
        "Two devices of different models",
        *TWO,
        devices("a", model("g0", "x"), model("g1", "x")),
        devices("b", model("g0", "x"), model("g1", "x"), model("g2", "y")),
        claim("pair", request("one"), request("other"), constraints=[{"distinctAttribute": f"{DRIVER}/model"}]),
        pod("first", uses("pair")),
        bound("first", "b"),
    ),
    scenario(
        "The first alternative is preferred",
        *TWO,
        device_class("large", f'device.attributes["{DRIVER}"].model == "large"'),
        devices("a", model("g0", "small")),
        devices("b", model("g0", "large")),
        template(
            "any",
            {
                "name": "gpu",
                "firstAvailable": [
                    {"name": "best", "deviceClassName": "large"},
                    {"name": "other", "deviceClassName": "gpu"},
                ],
            },
        ),
        pod("first", makes("any")),
        bound("first", "b"),
        pod("second", makes("any")),
        bound("second", "a"),
        pod("third", makes("any")),
        refused("third", NO_ROOM),
    ),
    scenario(
        "All devices of a node",
        node("a"),
        device_class(),
        devices("a", model("g0", "x"), model("g1", "x"), model("g2", "y")),
        claim("all", request(selector=f'device.attributes["{DRIVER}"].model == "x"', allocationMode="All")),
        claim("one"),
        pod("first", uses("all")),
        bound("first", "a"),
        pod("second", uses("one")),
        bound("second", "a"),
    ),
    scenario(
        "An expression that fails on a device",
        node("a"),
        device_class(),
        devices("a", "g0"),
        claim("one", request(selector=f'device.attributes["{DRIVER}"].model == "x"')),
        pod("first", uses("one")),
        refused("first", "no such key"),
        retries_vary=True,
    ),
    scenario(
        "A pod with two claims",
        *TWO,
        devices("a", "g0"),
        devices("b", "g0", "g1"),
        claim("one"),
        claim("two"),
        pod("both", uses("one", "two")),
        bound("both", "b"),
    ),
)

SLICES_THAT_CHANGE = (
    scenario(
        "A device's taint goes away",
        node("a"),
        device_class(),
        devices("a", device("g0", taints=[{"key": "broken", "effect": "NoSchedule"}])),
        claim("one"),
        claim("tolerating", request(tolerations=[{"key": "broken", "operator": "Exists"}])),
        pod("first", uses("one")),
        refused("first", NO_ROOM),
        pod("brave", uses("tolerating")),
        bound("brave", "a"),
        remove_pod("brave"),
        released("tolerating"),
        change_slice("a-gpus", {"devices": [{"name": "g0"}]}),
        bound("first", "a"),
        retries_vary=True,
    ),
    scenario(
        "A pool whose slices are not all there",
        node("a"),
        device_class(),
        devices("a", "g0", pool={"resourceSliceCount": 2}, name="first-part"),
        claim("one"),
        pod("first", uses("one")),
        refused("first", NO_ROOM),
        devices("a", "g1", pool={"resourceSliceCount": 2}, name="second-part"),
        bound("first", "a"),
        retries_vary=True,
    ),
    scenario(
        "A slice that vanishes",
        node("a"),
        device_class(),
        devices("a", "g0", "g1"),
        claim("one"),
        claim("two"),
        pod("first", uses("one")),
        bound("first", "a"),
        remove_thing(f"{SLICES}/a-gpus"),
        pod("second", uses("two")),
        refused("second", NO_ROOM),
        pod("third", uses("one")),
        bound("third", "a"),
    ),
    scenario(
        "Parts of a device",
        node("a"),
        device_class(),
        devices(
            "a",
            pool={"resourceSliceCount": 2},
            name="a-counters",
            sharedCounters=[{"name": "memory", "counters": {"gi": {"value": "40"}}}],
        ),
        devices(
            "a",
            *(
                device(
                    f"part-{index}",
                    consumesCounters=[{"counterSet": "memory", "counters": {"gi": {"value": amount}}}],
                )
                for index, amount in enumerate(("40", "20", "20", "10"))
            ),
            pool={"resourceSliceCount": 2},
        ),
        template("gpu"),
        claim("pair", request(count=2)),
        pod("first", uses("pair")),
        bound("first", "a"),
        pod("second", makes("gpu")),
        refused("second", NO_ROOM),
        remove_pod("first"),
        bound("second", "a"),
        pod("third", makes("gpu")),
        refused("third", NO_ROOM),
        retries_vary=True,
    ),
    scenario(
        "A device that claims share",
        node("a"),
        device_class(),
        devices(
            "a",
            device(
                "g0",
                allowMultipleAllocations=True,
                capacity={
                    "memory": {
                        "value": "40Gi",
                        "requestPolicy": {"default": "10Gi", "validRange": {"min": "10Gi", "step": "10Gi"}},
                    }
                },
            ),
        ),
        template("some", request(capacity={"requests": {"memory": "15Gi"}})),
        pod("first", makes("some")),
        bound("first", "a"),
        pod("second", makes("some")),
        bound("second", "a"),
        pod("third", makes("some")),
        refused("third", NO_ROOM),
    ),
    scenario(
        "Devices that two nodes can use",
        *TWO,
        node("c"),
        devices(
            "net",
            "g0",
            nodeName=None,
            nodeSelector={
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a", "b"]}]}
                ]
            },
        ),
        claim("one"),
        pod("first", uses("one")),
        allocated("one"),
        pod("elsewhere", uses("one", nodeSelector={"kubernetes.io/hostname": "c"})),
        refused("elsewhere", "resourceclaim not available on the node"),
        placements=anywhere,
    ),
)

MORE = (
    scenario(
        "An extended resource that a class backs",
        node("a"),
        device_class(extendedResourceName="example.com/gpu"),
        devices("a", "g0", "g1"),
        pod("first", gpu="1"),
        bound("first", "a"),
        pod("second", gpu="2"),
        refused("second", NO_ROOM),
        pod("third", gpu="1"),
        bound("third", "a"),
    ),
    scenario(
        "An extended resource that one node has and a class backs on another",
        *TWO[:2],
        node("c", gpu="1"),
        device_class(extendedResourceName="example.com/gpu"),
        devices("b", "g0"),
        pod("backed", {"nodeSelector": {"kubernetes.io/hostname": "b"}}, gpu="1"),
        bound("backed", "b"),
        pod("usual", {"nodeSelector": {"kubernetes.io/hostname": "c"}}, gpu="1"),
        bound("usual", "c"),
        pod("third", gpu="1"),
        refused("third", "Insufficient example.com/gpu"),
    ),
    scenario(
        "A pod with a claim is preempted for its device",
        node("a"),
        thing(priority_class("high", 100)),
        device_class(),
        devices("a", "g0"),
        template("gpu"),
        pod("low", makes("gpu", terminationGracePeriodSeconds=0)),
        bound("low", "a"),
        pod("high", makes("gpu", priorityClassName="high")),
        refused("high", NO_ROOM),
    ),
    scenario(
        "A pod with a claim is preempted for CPU",
        node("a"),
        thing(priority_class("high", 100)),
        device_class(),
        # Each pod has a device of its own: whether the victim's is free again in time depends on chance.
        devices("a", model("g0", "small"), model("g1", "large")),
        *(template(each, request(selector=f'device.attributes["{DRIVER}"].model == "{each}"')) for each in MODELS),
        pod("low", makes("small", terminationGracePeriodSeconds=0), cpu="3"),
        bound("low", "a"),
        pod("high", makes("large", priorityClassName="high"), cpu="3"),
        gone("low"),
        bound("high", "a"),
        retries_vary=True,
    ),
    scenario(
        "Pods without claims do not mind devices",
        *TWO[:1],
        device_class(),
        devices("a", "g0"),
        pod("plain"),
        bound("plain", "a"),
        pod("large", cpu="30"),
        refused("large", "Insufficient cpu"),
        settle,
    ),
)

DEVICES = (*CLAIMS, *CHOICES, *SLICES_THAT_CHANGE, *MORE)
