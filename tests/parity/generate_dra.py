"""Cases of dynamic resource allocation: nodes with devices, and pods with claims or extended resources beside others.

Devices, classes and claims are those of the comparison of allocators (`devices/`), and most nodes have pools of their
own besides. Here claims have states and owners, pods find theirs by name or by template, classes back extended
resources that some nodes have themselves, and all other plugins have their say.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence

from kscheduler.api.devices import EXTENDED_RESOURCE_CLAIM, EXTENDED_RESOURCE_PREFIX, FINALIZER, POD_CLAIM_NAME
from kscheduler.framework.plugins.registry import IN_TREE
from kscheduler.testing.controlplane.binaries import DEFAULT_RELEASE
from tests.parity.case import EVALUATE, SEQUENCE, Case, Object
from tests.parity.devices.generate import asked_for, results_in_use, taint_rules
from tests.parity.devices.generate_claims import MISSING, classes, make_claim
from tests.parity.devices.generate_slices import publish_pool, slices
from tests.parity.devices.words import DRIVERS, FAILED, POOLS, READY
from tests.parity.devices.words import ZONES as DEVICE_ZONES
from tests.parity.generate import PROFILES, generate_config
from tests.parity.generate_newer import add_newer
from tests.parity.generate_nodes import generate_node
from tests.parity.generate_pods import PodGenerator
from tests.parity.generate_rarer import add_rarer
from tests.parity.words import FPGA, GPU, NAMESPACES, REGION, REGIONS, ZONE, ZONES, often, pick, some

PENDING = 12  # pods of a case
MOST_NODES = 7
MOST_DEVICES = 33  # that a request asks for: some more than a claim can have, none so many that 1.36 crashes
BACKABLE = (GPU, FPGA)  # extended resources that classes may back, and nodes may have themselves
SHARED_CLAIMS = ("shared-0", "shared-1")
# These releases write sums into an amount that a claim asks for if it has more digits, so that the next node, or the
# next attempt, meets another one (DIFFERENCES.md). The comparison of allocators keeps such amounts.
WRITES_INTO_AMOUNTS, MOST_DIGITS = frozenset({"1.36"}), 18
LONG_AGO, FAR_AHEAD = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"


def generate_dra(seed: int, release: str = DEFAULT_RELEASE) -> Case:
    """The case of a seed, the same for each release but for what a release refuses or leaves to chance."""
    rng = random.Random(f"devices {seed}")
    names = [f"n{i}" for i in range(rng.randint(1, MOST_NODES))]
    made = _Claims(rng, names)
    pods = PodGenerator(rng, names, frozenset(IN_TREE), PROFILES[:1], theme=True, claims=False)
    cluster: dict[str, list[Object]] = {
        "nodes": [_node(rng, index, name) for index, name in enumerate(names)],
        "pods": [pods.running(f"r{i}") for i in range(rng.randint(0, 2 * len(names)))],
        "namespaces": [{"metadata": {"name": name, "labels": labels}} for name, labels in NAMESPACES.items()],
    }
    pending = [_pending(rng, pods, f"p{i}") for i in range(PENDING)]
    for pod in pending:
        made.give(pod)
    if often(rng, 0.1):
        cluster["nominated"] = [pods.nominated(f"w{i}") for i in range(rng.randint(1, len(names)))]
        for pod in pending:
            if often(rng, 0.1):
                pods.nominate(pod)
    cluster |= made.objects()
    if release in WRITES_INTO_AMOUNTS:
        for claim in cluster["resourceClaims"]:
            _shorten_amounts(claim)
    config = generate_config(rng, PROFILES[:1], has_claims=False)
    _balance_no_devices(config)
    case = Case(seed, pick(rng, (EVALUATE, SEQUENCE)), config, cluster, pending, release)
    add_newer(case)
    add_rarer(case)
    return case


def _node(rng: random.Random, index: int, name: str) -> Object:
    """A node, mostly with room. Nodes take turns in their zones, so that both programs search them in one order."""
    node = generate_node(rng, name, calm=often(rng, 0.8))
    labels: dict[str, str] = node["metadata"]["labels"]
    labels |= {ZONE: ZONES[index % len(ZONES)], REGION: REGIONS[index % len(ZONES) % len(REGIONS)]}
    labels["zone"] = pick(rng, DEVICE_ZONES)  # what selectors of slices look at
    if often(rng, 0.5):
        labels["kind"] = "gpu"
    cpu = pick(rng, ("2", "4", "8", "8", "16"))
    for where in ("capacity", "allocatable"):
        node["status"].setdefault(where, {})["cpu"] = cpu
    node["status"]["allocatable"] = node["status"]["capacity"] | node["status"]["allocatable"]
    return node


def _pending(rng: random.Random, pods: PodGenerator, name: str) -> Object:
    """A pod without claims: mostly one that asks for little, else one with what other plugins look at."""
    pod = pods.pending(name)
    if often(rng, 0.7):
        container = {"name": "c0", "image": "app:1", "resources": {"requests": {"cpu": pick(rng, ("100m", "1", "2"))}}}
        pod["spec"] = {"containers": [container]}
        if often(rng, 0.7):
            pod["spec"]["tolerations"] = [{"operator": "Exists"}]
        if often(rng, 0.2):
            pod["spec"]["containers"].append(copy.deepcopy(container) | {"name": "c1"})
    return pod


def _balance_no_devices(config: Object) -> None:
    """Let NodeResourcesBalancedAllocation score no backed resource: kube-scheduler would crash."""
    for entry in config["profiles"][0].get("pluginConfig", ()):
        if entry["name"] == "NodeResourcesBalancedAllocation":
            resources = [each for each in entry["args"]["resources"] if each["name"] not in BACKABLE]
            entry["args"]["resources"] = resources or [{"name": "cpu", "weight": 1}]


def _shorten_amounts(claim: Object) -> None:
    """Let a claim ask for no amount of capacity that may change while it is decided."""
    for asked in claim["spec"]["devices"].get("requests", ()):
        for each in (asked.get("exactly", {}), *asked.get("firstAvailable", ())):
            amounts = each.get("capacity", {}).get("requests", {})
            for name, amount in amounts.items():
                if len(amount) > MOST_DIGITS:
                    amounts[name] = amount[:MOST_DIGITS]


class _Claims:
    """The devices of a case's cluster, and the claims of its pods."""

    def __init__(self, rng: random.Random, nodes: Sequence[str]) -> None:
        self._rng = rng
        self._nodes = nodes
        self._classes = classes(rng)
        _back(rng, self._classes)
        self._slices = slices(rng) if often(rng, 0.3) else slices_of(rng, nodes)
        self._class_names = asked_for(self._classes, self._slices)
        self._rules = taint_rules(rng)
        self._claims: dict[tuple[str, str], Object] = {}  # (namespace, name) -> claim

    def objects(self) -> dict[str, list[Object]]:
        """The cluster's lists. Call it after all pods have been given their claims."""
        in_use = [
            self._named(f"used-{index}", "default", {"requests": []}) | {"status": _status([result], {})}
            for index, result in enumerate(results_in_use(self._rng, self._slices))
        ]
        found = [*in_use, *self._claims.values()]
        self._rng.shuffle(found)
        return {
            "deviceClasses": self._classes,
            "resourceSlices": self._slices,
            "deviceTaintRules": self._rules,
            "resourceClaims": found,
        }

    # --- pods ---

    def give(self, pod: Object) -> None:
        """Let the pod have claims, extended resources, both, or neither."""
        kind = self._rng.random()
        if kind < 0.65:
            count = pick(self._rng, (1, 1, 1, 1, 2, 2, 3))
            entries = [self._entry(pod, f"e{index}") for index in range(count)]
            if often(self._rng, 0.02):
                entries.append({**entries[0], "name": "again"})
            pod["spec"]["resourceClaims"] = entries
        if 0.55 < kind < 0.85:
            self._ask_for_resources(pod)

    def _entry(self, pod: Object, name: str) -> Object:
        """An entry of a pod's claims, with the claim that it means."""
        rng, metadata = self._rng, pod["metadata"]
        namespace = metadata["namespace"]
        if often(rng, 0.15):
            shared = pick(rng, SHARED_CLAIMS)
            if (namespace, shared) not in self._claims:
                self._put(shared, pod)
            return {"name": name, "resourceClaimName": shared}
        claim_name = f"{metadata['name']}-{name}"
        if often(rng, 0.65):
            if often(rng, 0.97):
                self._put(claim_name, pod)
            return {"name": name, "resourceClaimName": claim_name}
        fate = rng.random()
        if fate > 0.03:
            claim = self._put(claim_name, pod)
            owner = metadata | ({"uid": "another"} if fate > 0.97 else {})
            claim["metadata"]["annotations"] = {POD_CLAIM_NAME: name}
            claim["metadata"]["ownerReferences"] = [_controller(owner)]
            if 0.94 < fate < 0.96:
                del claim["metadata"]["ownerReferences"]
        if fate < 0.9 or fate > 0.94:
            made: Object = {"name": name}
            if fate < 0.87 or fate > 0.9:  # else no claim is needed
                made["resourceClaimName"] = claim_name
            pod.setdefault("status", {}).setdefault("resourceClaimStatuses", []).append(made)
        return {"name": name, "resourceClaimTemplateName": "template"}

    def _ask_for_resources(self, pod: Object) -> None:
        """Extended resources for some containers, and sometimes a claim for them that an earlier attempt has left."""
        rng = self._rng
        spec, metadata = pod["spec"], pod["metadata"]
        if often(rng, 0.3):
            inits = spec.setdefault("initContainers", [])
            for index in range(rng.randint(1, 2)):
                made: Object = {"name": f"x{index}", "image": "app:1"}
                inits.append(made | ({"restartPolicy": "Always"} if often(rng, 0.4) else {}))
        names = [*BACKABLE, *(EXTENDED_RESOURCE_PREFIX + each for each in some(rng, self._class_names, 2))]
        if often(rng, 0.5):  # so that containers use each other's devices
            names = [pick(rng, names)]
        for container in some(rng, [*spec["containers"], *spec.get("initContainers", ())], 3):
            resources = container.setdefault("resources", {})
            amounts = {name: str(rng.choice((1, 1, 1, 2))) for name in some(rng, names, 2 if often(rng, 0.3) else 1)}
            for where in ("requests", "limits"):
                resources.setdefault(where, {}).update(amounts)
        if often(rng, 0.06):
            name = f"{metadata['name']}-extended-resources-left"
            claim = self._put(name, pod, spec=self._devices_wanted(name))
            claim["metadata"]["annotations"] = {EXTENDED_RESOURCE_CLAIM: "true"}
            claim["metadata"]["ownerReferences"] = [_controller(metadata)]

    # --- claims ---

    def _put(self, name: str, pod: Object, spec: Object | None = None) -> Object:
        """A claim in the pod's namespace: mostly without an allocation."""
        rng, namespace = self._rng, pod["metadata"]["namespace"]
        claim = self._named(name, namespace, spec or self._devices_wanted(name))
        self._claims[namespace, name] = claim
        if often(rng, 0.03):
            _make_odd(rng, claim["spec"]["devices"])
        if often(rng, 0.03):
            claim["metadata"] |= {"deletionTimestamp": LONG_AGO, "finalizers": [FINALIZER]}
        if often(rng, 0.22):
            self._allocate(claim, pod)
        return claim

    def _devices_wanted(self, claim: str) -> Object:
        """A claim's requests with all that they can have, though few enough for a short search; or plain ones."""
        rng = self._rng
        if often(rng, 0.4):
            return self._plainly_wanted()
        devices: Object = make_claim(rng, claim, self._class_names)["spec"]["devices"]
        asked = [each for request in devices["requests"] for each in _asked_in(request) if "count" in each]
        if sum(each["count"] for each in asked) > 3:
            for each in asked:
                if each["count"] <= 3 and len(asked) > 1:
                    each["count"] = 1
                each["count"] = min(each["count"], MOST_DEVICES)
        return devices

    def _plainly_wanted(self) -> Object:
        """One request, which many nodes can satisfy."""
        rng = self._rng

        def asked(count: int) -> Object:
            made: Object = {"deviceClassName": pick(rng, self._class_names), "allocationMode": "ExactCount"}
            return made | {"count": count, "tolerations": [{"operator": "Exists"}]}

        if often(rng, 0.5):
            return {"requests": [{"name": "r0", "exactly": asked(pick(rng, (1, 1, 1, 2)))}]}
        counts = sorted((pick(rng, (1, 1, 2, 3)) for _ in range(rng.randint(2, 3))), reverse=True)
        return {
            "requests": [
                {"name": "r0", "firstAvailable": [{"name": f"a{i}", **asked(c)} for i, c in enumerate(counts)]}
            ]
        }

    def _named(self, name: str, namespace: str, devices: Object) -> Object:
        metadata = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "resourceVersion": "100"}
        return {"metadata": metadata, "spec": {"devices": devices}}

    def _allocate(self, claim: Object, pod: Object) -> None:
        """Devices for the claim that are somewhere, whether it asks for them or not, and pods that may use them."""
        rng = self._rng
        published = [each["spec"] for each in self._slices if each["spec"].get("devices")]
        request = next(iter(claim["spec"]["devices"]["requests"]), {"name": "r"})
        name = request["name"]
        if request.get("firstAvailable"):
            name += "/" + pick(rng, request["firstAvailable"])["name"]
        results, spec = [], pick(rng, published) if published else {}
        for device in some(rng, spec.get("devices", ()), 2) if spec else ():
            result = {"request": name, "driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
            for conditions in ("bindingConditions", "bindingFailureConditions"):
                if conditions in device:
                    result[conditions] = device[conditions]
            results.append(result)
        claim["status"] = _status(results, self._nodes_of(spec))
        self._reserve(claim, pod)
        if any("bindingConditions" in result for result in results):
            self._report(claim)

    def _nodes_of(self, spec: Object) -> Object:
        """The node selector of an allocation, as a field: of the slice's node, of some nodes, or none."""
        rng, kind = self._rng, self._rng.random()
        if kind < 0.3:
            return {}
        if kind < 0.5:
            term: Object = {
                "matchExpressions": [{"key": "zone", "operator": "In", "values": [pick(rng, DEVICE_ZONES)]}]
            }
        else:
            node = spec.get("nodeName") if kind < 0.8 else None
            values = [node or pick(rng, [*self._nodes, "elsewhere"])]
            term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": values}]}
        return {"nodeSelector": {"nodeSelectorTerms": [term]}}

    def _reserve(self, claim: Object, pod: Object) -> None:
        users = pick(self._rng, ([], [], [pod["metadata"]["name"]], ["other"], [pod["metadata"]["name"], "other"]))
        if users:
            claim["status"]["reservedFor"] = [{"resource": "pods", "name": user, "uid": user} for user in users]

    def _report(self, claim: Object) -> None:
        """What the drivers say of devices with binding conditions, and since when these are waited for."""
        rng, allocation = self._rng, claim["status"]["allocation"]
        if often(rng, 0.9):
            allocation["allocationTimestamp"] = pick(rng, (LONG_AGO, FAR_AHEAD))
        reports = []
        for result in allocation["devices"]["results"]:
            if often(rng, 0.8):
                conditions = [
                    {"type": kind, "status": pick(rng, statuses), "reason": "Tried", "lastTransitionTime": LONG_AGO}
                    for kind, statuses in ((READY, ("True", "True", "False")), (FAILED, ("False", "False", "True")))
                    if often(rng, 0.7)
                ]
                reports.append({key: result[key] for key in ("driver", "pool", "device")} | {"conditions": conditions})
        if reports:
            claim["status"]["devices"] = reports


def _asked_in(request: Object) -> list[Object]:
    """What a request asks for, or its alternatives."""
    return [request["exactly"]] if "exactly" in request else request["firstAvailable"]


def _status(results: list[Object], nodes: Object) -> Object:
    return {"allocation": {"devices": {"results": results}, **nodes}}


def _controller(metadata: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}


def _make_odd(rng: random.Random, devices: Object) -> None:
    """No requests; or one for a class that is not there, without a class, or of an unknown kind."""
    if not devices["requests"]:
        return
    request = devices["requests"][-1]
    kind = rng.randrange(4)
    if kind == 0:
        devices["requests"] = []
        devices.pop("constraints", None)
        devices.pop("config", None)
    elif kind < 3:
        _asked_in(request)[-1]["deviceClassName"] = "" if kind == 1 else MISSING
    else:
        request.pop("exactly", None)
        request.pop("firstAvailable", None)


def _back(rng: random.Random, of_classes: list[Object]) -> None:
    """Let classes back extended resources, sometimes several the same one."""
    chosen = rng.sample(of_classes, 2) if often(rng, 0.6) else [each for each in of_classes if often(rng, 0.4)]
    names = rng.sample(BACKABLE, 2)
    for index, each in enumerate(chosen):
        each["spec"]["extendedResourceName"] = names[index % 2]
    for each in of_classes:
        each["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{rng.randint(0, 1)}Z"


def slices_of(rng: random.Random, nodes: Sequence[str]) -> list[Object]:
    """Pools of most nodes, and perhaps one of no node in particular."""
    names = [f"s{number:03}" for number in range(200)]
    rng.shuffle(names)
    likely = rng.sample(DRIVERS, 2)  # so that nodes have the same ones
    made: list[Object] = []
    for node in nodes:
        for driver in some(rng, likely, 2) if often(rng, 0.9) else ():
            made += publish_pool(rng, driver, f"pool-{node}", names, {"nodeName": node})
    if often(rng, 0.3):
        made += publish_pool(rng, pick(rng, DRIVERS), POOLS[0], names)
    rng.shuffle(made)
    return made
