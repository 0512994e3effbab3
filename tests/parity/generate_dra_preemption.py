"""Cases of PostFilter where pods have claims or extended resources: claims that are to be allocated again, and pods in
the way of a pod with claims.

The clusters are those of `generate_dra`, with less room on their nodes, and pods of several priorities on them.
"""

from __future__ import annotations

import random

from kscheduler.testing.controlplane.binaries import DEFAULT_RELEASE
from tests.parity.case import Case, Object
from tests.parity.generate_dra import generate_dra
from tests.parity.generate_preemption import LOW, PREEMPT, age, distinguish, make_preemptor, resize, share_no_port
from tests.parity.words import often, pick

PENDING = 8  # pods of a case


def generate_dra_preemption(seed: int, release: str = DEFAULT_RELEASE) -> Case:
    """The case of a seed, the same for each release but for what a release refuses or leaves to chance."""
    rng = random.Random(f"devices and preemption {seed}")
    case = generate_dra(seed, release)
    case.mode, case.pending = PREEMPT, case.pending[:PENDING]
    cluster = case.cluster
    names = [node["metadata"]["name"] for node in cluster["nodes"]]
    room = pick(rng, (2, 4))
    for node in cluster["nodes"]:
        _leave_room(rng, node, room)
    cluster["pods"] = [
        resize(rng, _in_the_way(name, index), room * pick(rng, (0.3, 0.5, 1.0)))
        for index in range(pick(rng, (1, 2, 3)))
        for name in names
        if often(rng, 0.9)
    ]
    for pod in cluster["pods"]:
        age(rng, pod, LOW, pick(rng, (1, 3, 6)))
    for pod in case.pending:
        _want_room(rng, pod, room)
        made = pod.get("status", {}).get("resourceClaimStatuses")
        make_preemptor(rng, pod, names)
        if made is not None:
            pod.setdefault("status", {})["resourceClaimStatuses"] = made
    distinguish(cluster["pods"])
    share_no_port(cluster["pods"])
    for claim in cluster["resourceClaims"]:
        if "status" in claim and often(rng, 0.5):  # then it can be used nowhere
            claim["status"]["allocation"]["nodeSelector"] = _elsewhere()
            if often(rng, 0.5):
                claim["status"].pop("reservedFor", None)
    return case


def _leave_room(rng: random.Random, node: Object, room: int) -> None:
    for where in ("capacity", "allocatable"):
        node["status"][where] |= {"cpu": str(room), "memory": "64Gi", "pods": "110"}
    if often(rng, 0.8):
        node["spec"] = {}


def _in_the_way(node: str, index: int) -> Object:
    name = f"r-{node}-{index}"
    spec = {"nodeName": node, "containers": [{"name": "c0", "image": "app:1"}]}
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec, "status": {}}


def _want_room(rng: random.Random, pod: Object, room: int) -> None:
    container = pod["spec"]["containers"][0]
    container.setdefault("resources", {}).setdefault("requests", {})["cpu"] = str(room * pick(rng, (0, 0.25, 0.5, 1)))
    container["resources"].get("limits", {}).pop("cpu", None)


def _elsewhere() -> Object:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["elsewhere"]}]}
    return {"nodeSelectorTerms": [term]}
