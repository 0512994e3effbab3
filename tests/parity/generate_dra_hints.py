"""Cases for queueing hints about devices: pods with claims and extended resources that wait, and changes of claims,
slices and classes, or of the claims that a waiting pod names.
"""

from __future__ import annotations

import copy
import random

from kscheduler.testing.controlplane.binaries import DEFAULT_RELEASE
from tests.parity.case import Object
from tests.parity.generate_dra import BACKABLE, generate_dra
from tests.parity.generate_hints import HINTS, Change, HintCase, as_waiting, in_whole_units
from tests.parity.words import often, pick

CHANGES = 24
OWN_CHANGES = 6  # of waiting pods whose claims are made for them
KINDS = {"resourceClaims": "ResourceClaim", "resourceSlices": "ResourceSlice", "deviceClasses": "DeviceClass"}


def generate_dra_hints(seed: int, release: str = DEFAULT_RELEASE) -> HintCase:
    base = in_whole_units(generate_dra(seed, release))
    rng = random.Random(f"hints about devices {seed}")
    case = HintCase(seed, HINTS, base.config, base.cluster, [as_waiting(pod) for pod in base.pending], release)
    for pod in case.pending:
        _ask_for_some(pod)
    lists = [name for name in KINDS if base.cluster.get(name)]
    case.changes = [
        _change(rng, base.cluster, pick(rng, ["resourceClaims", *lists])) for _ in range(CHANGES if lists else 0)
    ]
    made = [i for i, pod in enumerate(case.pending) if pod.get("status", {}).get("resourceClaimStatuses")]
    for position in rng.choices(made, k=OWN_CHANGES) if made else ():
        case.changes.append(_claims_made(rng, case.pending, position))
    return case


def _ask_for_some(pod: Object) -> None:
    """Drop requests for 0 of a resource that classes may back: kube-scheduler wakes such pods, too (DIFFERENCES.md)."""
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
        for amounts in container.get("resources", {}).values():
            for name in BACKABLE:
                if amounts.get(name) == "0":
                    del amounts[name]


def _change(rng: random.Random, cluster: dict[str, list[Object]], name: str) -> Change:
    """An object comes, goes, or is from now on as it is in the cluster, and was different."""
    if not cluster[name]:
        name = next(name for name in KINDS if cluster[name])
    current = pick(rng, cluster[name])
    if often(rng, 0.2):
        return Change(KINDS[name], None, current)
    if often(rng, 0.2):
        return Change(KINDS[name], current, None)
    former = copy.deepcopy(current)
    {"resourceClaims": _alter_claim, "resourceSlices": _alter_slice, "deviceClasses": _alter_class}[name](rng, former)
    former["metadata"]["resourceVersion"] = "50"
    return Change(KINDS[name], former, current) if often(rng, 0.6) else Change(KINDS[name], current, former)


def _alter_claim(rng: random.Random, claim: Object) -> None:
    status = claim.setdefault("status", {})
    kind = rng.randrange(4)
    if kind == 0:
        claim["metadata"]["labels"] = {"note": "1"}
    elif kind == 1 and "allocation" in status:
        users = [{"resource": "pods", "name": name, "uid": name} for name in ("other", "another")]
        status["reservedFor"] = [] if status.get("reservedFor") else users
    elif "allocation" in status:
        claim["status"] = {}
    else:
        result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}
        status["allocation"] = {"devices": {"results": [result]}}


def _alter_slice(rng: random.Random, published: Object) -> None:
    published["spec"]["pool"]["generation"] = published["spec"]["pool"].get("generation", 1) + 1
    devices = published["spec"].get("devices")
    if devices and often(rng, 0.5):
        del devices[rng.randrange(len(devices))]


def _alter_class(rng: random.Random, device_class: Object) -> None:
    """It backs another extended resource, one fewer, or none as before."""
    spec = device_class["spec"]
    if often(rng, 0.3):
        device_class["metadata"]["labels"] = {"note": "1"}
    elif spec.pop("extendedResourceName", None) is None or often(rng, 0.4):
        spec["extendedResourceName"] = pick(rng, BACKABLE)


def _claims_made(rng: random.Random, pending: list[Object], position: int) -> Change:
    """A pod learns the names of some of its claims; it is one without them that waits."""
    known = pending[position]
    named = copy.deepcopy(known)
    if known["status"].pop("resourceClaimStatuses", None) is None:  # changed before
        named["metadata"].setdefault("annotations", {})["note"] = "1"
    elif often(rng, 0.2):
        named["status"]["resourceClaimStatuses"].pop()
    return Change("Pod", None, named, own=position)
