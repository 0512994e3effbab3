"""Cases of devices that take some of their node's own resources, with the feature gate of that on.

They are those of `generate_dra` with little room on nodes. What kube-scheduler leaves to chance is left out: it takes
the first device of a name that it meets, whatever its generation, and in 1.36 its driver, so devices take something
only if no other has their name; and of several pod-level amounts that are too small it reports any, so there is one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.parity.case import EVALUATE, Case, Object
from tests.parity.generate_dra import generate_dra
from tests.parity.words import HUGE, often, pick, some

GATE = "DRANodeAllocatableResources"
MAPS_ONLY = frozenset({"1.36"})  # releases in which devices have no overhead
AMOUNTS = {
    "cpu": ("250m", "500m", "1", "2", "4", "0"),
    "memory": ("64Mi", "1Gi", "1.5Gi", "20Gi"),
    "ephemeral-storage": ("100Mi", "5e8"),
    HUGE: ("2Mi", "64Mi"),
}
ROOM = {"cpu": ("2", "3", "4", "8"), "memory": ("2Gi", "4Gi", "32Gi"), "ephemeral-storage": ("1Gi",), HUGE: ("64Mi",)}
MULTIPLIERS = ("1", "2", "0.5", "100m")  # some capacities are so large that more would wrap around there


def generate_node_resources(seed: int, release: str) -> Case:
    case = generate_dra(seed, release)
    case.mode, case.more_gates = EVALUATE, (GATE,)
    rng = random.Random(f"node resources {seed}")
    likely = pick(rng, (0.2, 0.6, 0.9))
    for devices in _by_name(case).values():
        if len(devices) == 1 and often(rng, likely):
            _take(rng, devices[0], case.release)
    for node in case.cluster["nodes"]:
        for name in some(rng, list(ROOM), 4):
            for where in ("capacity", "allocatable"):
                node["status"][where][name] = pick(rng, ROOM[name])
    for pod in case.cluster["pods"]:
        if often(rng, 0.5):
            pod["status"]["nodeAllocatableResourceClaimStatuses"] = [_taken(rng, pod, release)]
    for pod in case.pending:
        _use(rng, pod)
    return case


# --- devices ---


def _by_name(case: Case) -> dict[tuple[str, str, str], list[Object]]:
    """The devices of each driver, which does not count in 1.36, pool and name."""
    found: dict[tuple[str, str, str], list[Object]] = {}
    for each in case.cluster["resourceSlices"]:
        spec = each["spec"]
        driver = "" if case.release in MAPS_ONLY else spec["driver"]
        for device in spec.get("devices", ()):
            found.setdefault((driver, spec["pool"]["name"], device["name"]), []).append(device)
    return found


def _take(rng: random.Random, device: Object, release: str) -> None:
    names = some(rng, list(AMOUNTS), 2 if often(rng, 0.4) else 1)
    if release in MAPS_ONLY:
        device["nodeAllocatableResourceMappings"] = {name: _mapping(rng, name, device, "allocation") for name in names}
        return
    device["nodeAllocatableResources"] = {name: _resources(rng, name, device) for name in names}


def _resources(rng: random.Random, name: str, device: Object) -> Object:
    taken: Object = {}
    if often(rng, 0.6):
        taken["mapping"] = _mapping(rng, name, device, "device")
    if not taken or often(rng, 0.4):
        overhead = some(rng, ("perPod", "perContainer"), 2)
        taken["overhead"] = {each: pick(rng, AMOUNTS[name]) for each in overhead}
    return taken


def _mapping(rng: random.Random, name: str, device: Object, multiplied: str) -> Object:
    """By the number of devices, or by what is used of a capacity, which only shared devices say."""
    keys = sorted(device.get("capacity", ()))
    if not keys or not often(rng, 0.6 if device.get("allowMultipleAllocations") else 0.05):
        return {f"{multiplied}Multiplier": pick(rng, AMOUNTS[name])}
    mapping: Object = {"capacityKey": "absent" if often(rng, 0.1) else pick(rng, keys)}
    if often(rng, 0.7):
        mapping["allocationMultiplier" if multiplied == "allocation" else "capacityMultiplier"] = pick(rng, MULTIPLIERS)
    return mapping


# --- pods ---


def _taken(rng: random.Random, pod: Object, release: str) -> Object:
    """What a pod on a node has been given, for some of its containers or for none."""
    named: Sequence[Object] = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
    status: Object = {"resourceClaimName": "given"}
    if often(rng, 0.7):
        status["containers"] = [each["name"] for each in some(rng, named, 2)]
    amounts = {name: pick(rng, AMOUNTS[name]) for name in some(rng, list(AMOUNTS), 2)}
    if release in MAPS_ONLY:
        return status | {"resources": amounts}
    if often(rng, 0.7):
        status["mapping"] = [{"name": name, "quantity": amount} for name, amount in amounts.items()]
    if often(rng, 0.5):
        status["overhead"] = [
            {"name": name, **dict.fromkeys(some(rng, ("perPod", "perContainer"), 2), amount)}
            for name, amount in amounts.items()
        ]
    return status


def _use(rng: random.Random, pod: Object) -> None:
    """Let containers use the pod's claims, and some pods have an amount of their own."""
    spec = pod["spec"]
    entries = [entry["name"] for entry in spec.get("resourceClaims", ())]
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    for name in entries:
        for container in some(rng, containers, 2) if often(rng, 0.85) else ():
            container.setdefault("resources", {}).setdefault("claims", []).append({"name": name})
    spec.pop("resources", None)
    if often(rng, 0.2):
        name = pick(rng, ("cpu", "memory", HUGE))
        amount = {"cpu": "3", "memory": "3Gi", HUGE: "128Mi"}[name]
        spec["resources"] = {"requests": {name: amount}}
        if often(rng, 0.5) or name == HUGE:
            spec["resources"]["limits"] = {name: amount}
