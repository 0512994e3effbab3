"""Cases from seeds: the same seed gives the same case of a release in every run."""

from __future__ import annotations

import random

from tests.parity.devices.case import DeviceCase, Object
from tests.parity.devices.generate_alpha import add_alpha_features
from tests.parity.devices.generate_claims import ANY, SHARED, classes, pods, tight_pods, wide_pods
from tests.parity.devices.generate_slices import slices, taint, tight_slices, wide_slices
from tests.parity.devices.words import DRIVERS, NODES, POOLS, ZONES

TIGHT, WIDE = 0.2, 0.03  # how many cases have few devices that claims compete for, or very many


def generate(seed: int, release: str) -> DeviceCase:
    """The clusters of two releases with the same seed are equal but for gates."""
    rng = random.Random(seed)
    made = DeviceCase(seed, release)
    if rng.random() < 0.3:
        made.config["sequence"] = True
    if rng.random() < 0.15:
        made.config["gates"] = {"DRADeviceTaintRules": True}
    of_classes = classes(rng)
    style = rng.random()
    of_slices = tight_slices(rng) if style < TIGHT else wide_slices(rng) if style < TIGHT + WIDE else slices(rng)
    made.cluster = {
        "nodes": _nodes(rng),
        "deviceClasses": of_classes,
        "resourceSlices": of_slices,
        "deviceTaintRules": taint_rules(rng),
        "allocated": results_in_use(rng, of_slices),
    }
    if style < TIGHT + WIDE:
        own_class = of_slices[0]["spec"]["driver"].partition(".")[0]
        make = tight_pods if style < TIGHT else wide_pods
        made.pending = make(rng, rng.choice((ANY, own_class)))
    else:
        made.pending = pods(rng, asked_for(of_classes, of_slices))
    add_alpha_features(made)
    return made


def _nodes(rng: random.Random) -> list[Object]:
    made = []
    for name in NODES[: rng.choice((1, 2, 2, 3))]:
        labels = {"zone": rng.choice(ZONES)}
        if rng.random() < 0.5:
            labels["kind"] = "gpu"
        made.append({"metadata": {"name": name, "labels": labels}})
    return made


def asked_for(of_classes: list[Object], of_slices: list[Object]) -> list[str]:
    """The classes that pods ask for: mostly those of drivers with devices."""
    present = {each["spec"]["driver"].partition(".")[0] for each in of_slices}
    names = [each["metadata"]["name"] for each in of_classes]
    likely = [name for name in names if name.partition("-")[0] in present]
    return likely * 6 + [ANY] * 6 + [SHARED] + names


def taint_rules(rng: random.Random) -> list[Object]:
    if rng.random() < 0.7:
        return []
    made = []
    for number in range(rng.choice((1, 2))):
        spec: Object = {"taint": taint(rng)}
        if rng.random() < 0.9:
            spec["deviceSelector"] = {
                name: rng.choice(values)
                for name, values in (("driver", DRIVERS), ("pool", POOLS), ("device", ("d0", "d1", "d2")))
                if rng.random() < 0.5
            }
        made.append({"metadata": {"name": f"rule-{number}"}, "spec": spec})
    return made


def results_in_use(rng: random.Random, of_slices: list[Object]) -> list[Object]:
    """Results of claims: devices in use, shares of devices, and what is left of devices that are gone."""
    used = rng.choice((0.0, 0.0, 0.1, 0.2, 0.5))
    made: list[Object] = []
    for each in of_slices:
        spec = each["spec"]
        for device in spec.get("devices", ()):
            if rng.random() > used:
                continue
            result = {"request": "r", "driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
            if device.get("allowMultipleAllocations"):
                made += [share_of(rng, result, device) for _ in range(rng.choice((1, 1, 2)))]
            else:
                made.append(result | ({"adminAccess": True} if rng.random() < 0.1 else {}))
    if rng.random() < 0.05:
        made.append({"request": "r", "driver": DRIVERS[0], "pool": POOLS[0], "device": "gone"})
    return made


def share_of(rng: random.Random, result: Object, device: Object) -> Object:
    made = {**result, "shareID": f"{rng.getrandbits(128):032x}"}
    consumed = {name: rng.choice(_CONSUMED[name]) for name in device.get("capacity", ()) if rng.random() < 0.9}
    if consumed and rng.random() < 0.9:  # the apiserver serves no empty map
        made["consumedCapacity"] = consumed
    return made


_CONSUMED = {
    "memory": ("1Gi", "8Gi", "1536Mi", "10G", "0"),
    "cores": ("1", "2", "500m"),
    "bandwidth": ("1k", "3M", "12345"),
    "topology.example.com/slots": ("1", "2"),
}
