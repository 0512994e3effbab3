"""Random nodes, as raw API JSON: labels, taints, amounts and images of every kind that a plugin reads."""

from __future__ import annotations

import random

from tests.parity.case import Object
from tests.parity.words import (
    EFFECTS,
    FPGA,
    GPU,
    HOSTNAME,
    HUGE,
    IMAGES,
    KUBELET_FEATURES,
    LABELS,
    REGION,
    REGIONS,
    TAINT_KEYS,
    TAINT_VALUES,
    ZONE,
    ZONES,
    full_image_name,
    often,
    pick,
    some,
)

MIB = 1 << 20


def generate_node(rng: random.Random, name: str, *, calm: bool) -> Object:
    """A calm node has room and keeps few pods off, so that other things decide."""
    amounts = _amounts(rng) | (dict.fromkeys(("cpu", "pods"), "200") | {"memory": "500Gi"} if calm else {})
    status: Object = {"capacity": amounts}
    if often(rng, 0.8):
        status["allocatable"] = dict(amounts)
    if often(rng, 0.5):
        status["images"] = _images(rng)
    if often(rng, 0.7):
        status["declaredFeatures"] = sorted(some(rng, KUBELET_FEATURES, 3))
    spec: Object = {}
    if often(rng, 0.1 if calm else 0.35):
        spec["taints"] = _taints(rng)
    if often(rng, 0.03 if calm else 0.1):
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(rng, name)},
        "spec": spec,
        "status": status,
    }


def _labels(rng: random.Random, name: str) -> dict[str, str]:
    labels = {key: pick(rng, values) for key, values in LABELS.items() if often(rng, 0.5)}
    if often(rng, 0.95):
        labels[HOSTNAME] = name
    if often(rng, 0.85):
        labels[ZONE] = pick(rng, ZONES)
    if often(rng, 0.6):
        labels[REGION] = pick(rng, REGIONS)
    return labels


def _taints(rng: random.Random) -> list[Object]:
    taints = []
    for key, effect in some(rng, [(key, effect) for key in TAINT_KEYS for effect in EFFECTS], 3):
        taint: Object = {"key": key, "effect": effect}
        if value := pick(rng, TAINT_VALUES):
            taint["value"] = value
        taints.append(taint)
    return taints


def _amounts(rng: random.Random) -> dict[str, str]:
    """Small enough that a few pods fill them; some are nothing at all."""
    amounts = {
        "cpu": pick(rng, ("0", "500m", "1", "2", "3500m", "8", "8", "64", "64", "64")),
        "memory": pick(rng, ("0", "512Mi", "1Gi", "4Gi", "4000000k", "32Gi", "32Gi", "123456789012")),
        "pods": pick(rng, ("0", "1", "2", "5", *["110"] * 8)),
    }
    if often(rng, 0.7):
        amounts["ephemeral-storage"] = pick(rng, ("1Gi", "100Gi", "5e9"))
    if often(rng, 0.4):
        amounts[GPU] = pick(rng, ("0", "1", "2", "8"))
    if often(rng, 0.2):
        amounts[FPGA] = pick(rng, ("1", "3"))
    if often(rng, 0.3):
        amounts[HUGE] = pick(rng, ("64Mi", "512Mi"))
    if often(rng, 0.05):
        del amounts[pick(rng, ("cpu", "memory", "pods"))]
    return amounts


def _images(rng: random.Random) -> list[Object]:
    """An image can have several names, and not every node reports the same size."""
    images = []
    for name in some(rng, IMAGES, 4):
        names = [full_image_name(name)]
        if often(rng, 0.3):
            names.append(f"{name.rpartition(':')[0] or name}@sha256:{rng.randrange(1 << 32):08x}")
        images.append({"names": names, "sizeBytes": pick(rng, (1, 20 * MIB, 100 * MIB, 700 * MIB, 3000 * MIB))})
    return images
