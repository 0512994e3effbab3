"""Adds devices and claims to cases of groups: the group's claims, those that its pods share, and those of one pod.

The gate DRAWorkloadResourceClaims is on. In the order of a pod's claims its own come first, and those that it shares
with fewer pods: if a claim in flight comes before one that is not, kube-scheduler mixes their allocations up.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from kscheduler.api.devices import FINALIZER
from tests.parity.case import Object
from tests.parity.devices.generate import asked_for, results_in_use
from tests.parity.devices.generate_claims import classes, make_claim
from tests.parity.generate_dra import LONG_AGO, slices_of
from tests.parity.generate_gangs import CLAIMS, EVICTING, NAME, NEWEST, GangCase, generate_gang
from tests.parity.words import often, pick

GROUP_UID = "group"
GROUP_CLAIMS = ("of-group-0", "of-group-1")
SHARED = "shared"
MADE = "made-for-group"


def generate_claiming_gang(seed: int, evicting: float = EVICTING, release: str = NEWEST) -> GangCase:
    """The case of a seed, where most pods of the group have claims."""
    case, rng = generate_gang(seed, evicting, release), random.Random(f"{seed}/claims")
    case.more_gates = CLAIMS
    made = _Claims(rng, case)
    of_group, on_all = made.claims_of_group(), often(rng, 0.7)
    for pod in case.pending:
        if on_all or often(rng, 0.7):
            made.give(pod, of_group)
    case.cluster |= made.objects()
    return case


class _Claims:
    def __init__(self, rng: random.Random, case: GangCase) -> None:
        self._rng = rng
        self._group = next((each for each in case.pod_groups if each["metadata"]["name"] == NAME), None)
        self._namespace = case.pending[0]["metadata"]["namespace"]
        self._nodes = [node["metadata"]["name"] for node in case.cluster["nodes"]]
        self._classes = classes(rng)
        self._slices = slices_of(rng, self._nodes)
        for each in self._slices:
            for device in each["spec"].get("devices", ()):  # nobody says that a device is ready
                for field in ("bindingConditions", "bindingFailureConditions"):
                    device.pop(field, None)
        self._class_names = asked_for(self._classes, self._slices)
        self._claims: dict[str, Object] = {}
        self._plain = pick(rng, (0.5, 1.0, 1.0))  # of claims that ask for one or two devices
        self._allocated = pick(rng, (0.0, 0.0, 0.0, 0.3, 0.6))
        self._has_shared = often(rng, 0.4)
        self._has_own = often(rng, 0.4)

    def objects(self) -> dict[str, list[Object]]:
        in_use = [
            self._claim(f"used-{index}", {"requests": []}) | {"status": _allocation([result])}
            for index, result in enumerate(results_in_use(self._rng, self._slices))
        ]
        found = [*in_use, *self._claims.values()]
        self._rng.shuffle(found)
        return {
            "deviceClasses": self._classes,
            "resourceSlices": self._slices,
            "deviceTaintRules": [],
            "resourceClaims": found,
        }

    # --- who has which claims ---

    def claims_of_group(self) -> list[Object]:
        """Entries of the group's claims; its pods may have the same."""
        rng, group = self._rng, self._group
        if group is None:
            return []
        entries: list[Object] = [
            {"name": f"g{index}", "resourceClaimName": name}
            for index, name in enumerate(GROUP_CLAIMS[: pick(rng, (0, 1, 1, 1, 2))])
        ]
        for entry in entries:
            self._put(entry["resourceClaimName"])
        if often(rng, 0.35):
            entries.append({"name": "t", "resourceClaimTemplateName": "template"})
            fate = rng.random()
            if fate < 0.92:
                claim = self._put(MADE)
                owner = {"kind": "PodGroup", "name": NAME, "uid": GROUP_UID}
                if fate > 0.85:
                    owner = {"kind": "PodGroup", "name": "another", "uid": "another"}
                claim["metadata"]["ownerReferences"] = [
                    {"apiVersion": group["apiVersion"], "controller": True, **owner}
                ]
            if fate > 0.03:
                made = {"name": "t"} | ({} if fate < 0.06 else {"resourceClaimName": MADE})
                group.setdefault("status", {})["resourceClaimStatuses"] = [made]
        if entries:
            group["spec"]["resourceClaims"] = entries
        return entries

    def give(self, pod: Object, of_group: Sequence[Object]) -> None:
        rng, name = self._rng, pod["metadata"]["name"]
        entries: list[Object] = []
        made: list[Object] = []
        # 1. Its own, from a template or by name.
        if self._has_own and often(rng, 0.8):
            claim_name = f"own-{name}"
            claim = self._put(claim_name, users=(name,))
            if often(rng, 0.5):
                entries.append({"name": "own", "resourceClaimName": claim_name})
            else:
                entries.append({"name": "own", "resourceClaimTemplateName": "own-template"})
                owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
                claim["metadata"]["ownerReferences"] = [owner]
                if often(rng, 0.97):
                    made.append({"name": "own", "resourceClaimName": claim_name})
        # 2. Those of the group; and one that others of its pods may have, too. See the first lines about the order.
        shared = list(of_group)
        if self._has_shared:
            if SHARED not in self._claims:
                self._put(SHARED)
            shared.append({"name": SHARED, "resourceClaimName": SHARED})
        kept = shared if often(rng, 0.85) else shared[rng.randint(0, len(shared)) :]
        for entry in kept:
            if entry in of_group and often(rng, 0.05):  # not named as the group names it: then it is the pod's
                entry = {**entry, "name": f"{entry['name']}-else"}
            entries.append(entry)
            if "resourceClaimTemplateName" in entry and often(rng, 0.97):
                made.append({"name": entry["name"], "resourceClaimName": MADE})
        if entries:
            pod["spec"]["resourceClaims"] = entries
        if made:
            pod.setdefault("status", {})["resourceClaimStatuses"] = made

    # --- claims ---

    def _put(self, name: str, users: Sequence[str] = ()) -> Object:
        rng = self._rng
        claim = self._claims[name] = self._claim(name, self._wanted(name))
        if often(rng, 0.01):
            claim["metadata"] |= {"deletionTimestamp": LONG_AGO, "finalizers": [FINALIZER]}
        if often(rng, self._allocated):
            self._allocate(claim, users)
        return claim

    def _wanted(self, name: str) -> Object:
        rng = self._rng
        if not often(rng, self._plain):
            devices: Object = make_claim(rng, name, self._class_names)["spec"]["devices"]
            for request in devices["requests"]:
                for each in request.get("firstAvailable") or [request["exactly"]]:
                    if "count" in each:
                        each["count"] = min(each["count"], 2)
            return devices
        asked: Object = {"deviceClassName": pick(rng, self._class_names), "allocationMode": "ExactCount"}
        asked |= {"count": pick(rng, (1, 1, 1, 2)), "tolerations": [{"operator": "Exists"}]}
        return {"requests": [{"name": "r0", "exactly": asked}]}

    def _claim(self, name: str, devices: Object) -> Object:
        metadata = {"name": name, "namespace": self._namespace, "uid": f"uid-{name}", "resourceVersion": "100"}
        return {"metadata": metadata, "spec": {"devices": devices}}

    def _allocate(self, claim: Object, users: Sequence[str]) -> None:
        """A device somewhere, where pods can use the claim or not, and for whom it is reserved."""
        rng = self._rng
        published = [each["spec"] for each in self._slices if each["spec"].get("devices")]
        results: list[Object] = []
        if published:
            spec = pick(rng, published)
            device = pick(rng, spec["devices"])["name"]
            results = [{"request": "r0", "driver": spec["driver"], "pool": spec["pool"]["name"], "device": device}]
        claim["status"] = _allocation(results)
        kind = rng.random()
        if kind < 0.75:
            where = "elsewhere" if kind < 0.4 else pick(rng, self._nodes)
            term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [where]}]}
            claim["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
        of_group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": NAME, "uid": GROUP_UID}
        reserved = [{"resource": "pods", "name": user, "uid": user} for user in (*users, "another")]
        chosen = pick(rng, ([], [of_group], [of_group], reserved[:1], [of_group, reserved[-1]]))
        if chosen:
            claim["status"]["reservedFor"] = chosen


def _allocation(results: list[Object]) -> Object:
    return {"allocation": {"devices": {"results": results}}}
