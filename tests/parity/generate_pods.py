"""Random pods, as raw API JSON: several of the things that plugins read at once, and often none of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.parity.case import Object
from tests.parity.generate_volumes import claimed, disk
from tests.parity.words import (
    EFFECTS,
    FPGA,
    GPU,
    HOSTNAME,
    HUGE,
    IMAGES,
    LABELS,
    NAMESPACES,
    POD_LABELS,
    REGION,
    REGIONS,
    TAINT_KEYS,
    TAINT_VALUES,
    TOPOLOGY_KEYS,
    ZONE,
    ZONES,
    often,
    pick,
    some,
)

Feature = Callable[[Object], None]  # adds something to a pod's spec

SPREAD = "PodTopologySpread"
POD_AFFINITY = "InterPodAffinity"
DISKS = "VolumeRestrictions"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
CONTROLLERS = (  # apiVersion, kind, the cluster's list of them
    ("v1", "ReplicationController", "replicationControllers"),
    ("apps/v1", "ReplicaSet", "replicaSets"),
    ("apps/v1", "StatefulSet", "statefulSets"),
)
OWNER = "owner"  # the name of every controller

NODE_LABELS = {**LABELS, ZONE: ZONES, REGION: REGIONS}
CPU = ("0", "1m", "100m", "250m", "0.5", "1", "1500m", "3", "0.0001")
MEMORY = ("0", "1", "64Mi", "100M", "256Mi", "1Gi", "1.5Gi", "3e8", "6Gi", "1500m")
STORAGE = ("100Mi", "1Gi", "2Gi", "50Gi")


class PodGenerator:
    """`nodes`: the names of the cluster's nodes; `plugins`: those that may be given something to do; `claims`: may
    pods have some?

    With `theme` True most pods of the cluster have one feature and few another, so that it is met in all its ways.
    """

    def __init__(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        plugins: frozenset[str],
        profiles: Sequence[str],
        *,
        theme: bool,
        claims: bool,
    ) -> None:
        self._rng = rng
        self._nodes = [*nodes, "elsewhere"]
        self._plugins = plugins
        self._profiles = profiles
        self._has_claims = claims
        themes = [give for _, give in self._features()] + [self._spread] * 3 * (SPREAD in plugins)
        themes += [self._claims] * 30 * claims + [self._disks] * 2 * (DISKS in plugins)
        self._theme = pick(rng, themes) if theme else None

    def pending(self, name: str) -> Object:
        """A pod to decide about."""
        rng = self._rng
        pod = self._pod(name)
        if often(rng, 0.03):
            pod["spec"]["schedulingGates"] = [{"name": gate} for gate in some(rng, ("wait", "quota"), 2)]
        if len(self._profiles) > 1:
            pod["spec"]["schedulerName"] = pick(rng, self._profiles)
        pod["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{rng.randint(0, 5)}Z"
        if often(rng, 0.03):
            pod["spec"]["nodeName"] = pick(rng, self._nodes)
        return pod

    def nominated(self, name: str) -> Object:
        """A pod that waits for room on one of the nodes."""
        pod = self._pod(name)
        if len(self._profiles) > 1:
            pod["spec"]["schedulerName"] = pick(self._rng, self._profiles)
        pod["spec"]["priority"] = pick(self._rng, (-5, 0, 10, 100))
        self.nominate(pod)
        return pod

    def nominate(self, pod: Object) -> None:
        pod["status"] = {"nominatedNodeName": pick(self._rng, self._nodes)}

    def running(self, name: str) -> Object:
        """A pod on one of the nodes."""
        rng = self._rng
        pod = self._pod(name)
        pod["spec"]["nodeName"] = pick(rng, self._nodes)
        pod["status"] = {"phase": "Running"}
        if often(rng, 0.15):
            _resize(rng, pod)
        if often(rng, 0.05):
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return pod

    def _pod(self, name: str) -> Object:
        rng = self._rng
        labels = {key: pick(rng, values) for key, values in POD_LABELS.items() if often(rng, 0.6)}
        metadata: Object = {"name": name, "namespace": pick(rng, list(NAMESPACES)), "uid": name, "labels": labels}
        spec: Object = {"containers": [_container(rng, f"c{i}") for i in range(_few(rng))]}
        pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        if SPREAD in self._plugins and often(rng, 0.3):
            version, kind, _ = pick(rng, CONTROLLERS)
            owner = {"apiVersion": version, "kind": kind, "name": OWNER, "uid": OWNER, "controller": often(rng, 0.9)}
            metadata["ownerReferences"] = [owner]
        for probability, give in self._features():
            if often(rng, self._scaled(probability, give)):
                give(spec)
        return pod

    def _scaled(self, probability: float, give: Feature) -> float:
        if self._theme is None:
            return probability
        return 0.8 if give == self._theme else probability * 0.2

    def _features(self) -> list[tuple[float, Feature]]:
        """(how often, what adds it to a spec)"""
        features: list[tuple[float, Feature]] = [
            (0.2, self._init_containers),
            (0.08, self._pod_level_resources),
            (0.1, self._overhead),
            (0.35, self._tolerations),
            (0.12, self._node_selector),
            (0.2, self._required_node_affinity),
            (0.25, self._preferred_node_affinity),
            (0.05, self._host_network),
            (0.05, self._image_volume),
            (0.06, self._kubelet_features),
            (0.3, self._priority),
        ]
        if SPREAD in self._plugins:
            features.append((0.3, self._spread))
        if POD_AFFINITY in self._plugins:
            features += [
                (0.2, self._required_pod_affinity),
                (0.2, self._required_pod_anti_affinity),
                (0.25, self._preferred_pod_affinity),
            ]
        if DISKS in self._plugins:
            features.append((0.2, self._disks))
        if self._has_claims:
            features.append((0.3, self._claims))
        return features

    def _kubelet_features(self, spec: Object) -> None:
        """What the kubelet must be able to do: restart the whole pod, or map its users on the host's network."""
        if often(self._rng, 0.5):
            exited = {"operator": "In", "values": [1]}
            rule = {"action": pick(self._rng, ("RestartAllContainers", "Restart")), "exitCodes": exited}
            pick(self._rng, spec["containers"])["restartPolicyRules"] = [rule]
        else:
            spec |= {"hostNetwork": often(self._rng, 0.8), "hostUsers": often(self._rng, 0.2)}

    # --- amounts ---

    def _init_containers(self, spec: Object) -> None:
        made = []
        for index in range(_few(self._rng)):
            container = _container(self._rng, f"i{index}")
            if often(self._rng, 0.4):
                container["restartPolicy"] = "Always"
            made.append(container)
        spec["initContainers"] = made

    def _pod_level_resources(self, spec: Object) -> None:
        rng = self._rng
        resources: Object = {}
        if often(rng, 0.8):
            resources["requests"] = {name: pick(rng, amounts) for name, amounts in (("cpu", CPU), ("memory", MEMORY))}
            if often(rng, 0.4):
                del resources["requests"][pick(rng, ("cpu", "memory"))]
        if often(rng, 0.5):
            resources["limits"] = {pick(rng, ("cpu", "memory")): "4G"}
        spec["resources"] = resources

    def _overhead(self, spec: Object) -> None:
        spec["overhead"] = {"cpu": pick(self._rng, CPU), "memory": pick(self._rng, MEMORY)}

    def _host_network(self, spec: Object) -> None:
        spec["hostNetwork"] = True
        # The apiserver fills in the host port; any that was given has to be the same one.
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            for port in container.get("ports", ()):
                port.pop("hostPort", None)

    def _priority(self, spec: Object) -> None:
        spec["priority"] = pick(self._rng, (-5, 0, 10))

    def _image_volume(self, spec: Object) -> None:
        _volumes(spec).append({"name": "image", "image": {"reference": pick(self._rng, IMAGES)}})

    # --- volumes ---

    def _disks(self, spec: Object) -> None:
        _volumes(spec).extend(disk(self._rng, f"d{i}") for i in range(1 if often(self._rng, 0.7) else 2))

    def _claims(self, spec: Object) -> None:
        _volumes(spec).extend(claimed(self._rng, f"v{i}") for i in range(1 if often(self._rng, 0.6) else 2))

    # --- nodes ---

    def _tolerations(self, spec: Object) -> None:
        spec["tolerations"] = [_toleration(self._rng) for _ in range(_few(self._rng))]

    def _node_selector(self, spec: Object) -> None:
        keys = some(self._rng, list(NODE_LABELS), 2)
        spec["nodeSelector"] = {key: pick(self._rng, NODE_LABELS[key]) for key in keys}
        if often(self._rng, 0.1):
            spec["nodeSelector"][HOSTNAME] = pick(self._rng, self._nodes)

    def _required_node_affinity(self, spec: Object) -> None:
        terms = [self._node_term() for _ in range(_few(self._rng))]
        if often(self._rng, 0.1):  # the apiserver lets it through; it matches nothing
            terms.append({"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["big"]}]})
            terms.append({"matchExpressions": [{"key": "disk", "operator": "Exists"}]})
        _node_affinity(spec)[REQUIRED] = {"nodeSelectorTerms": terms}

    def _preferred_node_affinity(self, spec: Object) -> None:
        weights = (1, 2, 7, 50, 100)
        _node_affinity(spec)[PREFERRED] = [
            {"weight": pick(self._rng, weights), "preference": self._node_term()} for _ in range(_few(self._rng))
        ]

    def _node_term(self) -> Object:
        rng = self._rng
        term: Object = {}
        if often(rng, 0.85):
            term["matchExpressions"] = [self._node_requirement() for _ in range(_few(rng))]
        if often(rng, 0.2):
            term["matchFields"] = [self._name_requirement() for _ in range(1 if often(rng, 0.6) else 2)]
        return term

    def _name_requirement(self) -> Object:
        operator = pick(self._rng, ("In", "In", "NotIn"))
        return {"key": "metadata.name", "operator": operator, "values": [pick(self._rng, self._nodes)]}

    def _node_requirement(self) -> Object:
        rng = self._rng
        operator = pick(rng, ("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        if operator in ("Gt", "Lt"):
            return {
                "key": pick(rng, ("size", "rack")),
                "operator": operator,
                "values": [pick(rng, ("0", "1", "5", "11"))],
            }
        key = pick(rng, [*NODE_LABELS, HOSTNAME])
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        return {"key": key, "operator": operator, "values": some(rng, NODE_LABELS.get(key, tuple(self._nodes)), 2)}

    # --- other pods ---

    def _spread(self, spec: Object) -> None:
        keys = (HOSTNAME, ZONE, *TOPOLOGY_KEYS)
        whens = ("DoNotSchedule", "ScheduleAnyway")
        wanted = {(pick(self._rng, keys), pick(self._rng, whens)) for _ in range(1 if often(self._rng, 0.6) else 2)}
        spec["topologySpreadConstraints"] = [_constraint(self._rng, *entry) for entry in sorted(wanted)]

    def _required_pod_affinity(self, spec: Object) -> None:
        spec.setdefault("affinity", {}).setdefault("podAffinity", {})[REQUIRED] = self._pod_terms()

    def _required_pod_anti_affinity(self, spec: Object) -> None:
        spec.setdefault("affinity", {}).setdefault("podAntiAffinity", {})[REQUIRED] = self._pod_terms()

    def _preferred_pod_affinity(self, spec: Object) -> None:
        for kind in some(self._rng, ("podAffinity", "podAntiAffinity"), 2):
            weighted = [{"weight": pick(self._rng, (1, 10, 100)), "podAffinityTerm": t} for t in self._pod_terms()]
            spec.setdefault("affinity", {}).setdefault(kind, {})[PREFERRED] = weighted

    def _pod_terms(self) -> list[Object]:
        return [_pod_affinity_term(self._rng) for _ in range(1 if often(self._rng, 0.7) else 2)]


def _few(rng: random.Random) -> int:
    return pick(rng, (1, 1, 1, 2, 2, 3))


def _volumes(spec: Object) -> list[Object]:
    found: list[Object] = spec.setdefault("volumes", [])
    return found


def _node_affinity(spec: Object) -> Object:
    found: Object = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    return found


def pinned(nodes: Sequence[str]) -> Object:
    """The affinity of a pod that names the nodes it may be on."""
    fields = [[{"key": "metadata.name", "operator": "In", "values": [node]}] for node in nodes]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": field} for field in fields]}}}


def _container(rng: random.Random, name: str) -> Object:
    container: Object = {"name": name, "image": pick(rng, IMAGES)}
    resources: Object = {}
    if often(rng, 0.75):
        resources["requests"] = _requests(rng)
    if often(rng, 0.15):
        resources["limits"] = {"cpu": "2", "memory": "2Gi"} if often(rng, 0.5) else {"memory": "300Mi"}
    if resources:
        container["resources"] = resources
    if often(rng, 0.15):
        container["ports"] = [_port(rng) for _ in range(1 if often(rng, 0.7) else 2)]
    return container


def _requests(rng: random.Random) -> dict[str, str]:
    requests = {}
    for probability, name, amounts in (
        (0.8, "cpu", CPU),
        (0.7, "memory", MEMORY),
        (0.15, "ephemeral-storage", STORAGE),
        (0.12, GPU, ("0", "1", "2", "4")),
        (0.05, FPGA, ("1", "2")),
        (0.06, HUGE, ("2Mi", "64Mi", "128Mi")),
    ):
        if often(rng, probability):
            requests[name] = pick(rng, amounts)
    return requests


def _port(rng: random.Random) -> Object:
    port: Object = {"containerPort": pick(rng, (80, 443, 8080))}
    if often(rng, 0.8):
        port["hostPort"] = pick(rng, (80, 443))
    if often(rng, 0.4):
        port["protocol"] = pick(rng, ("TCP", "UDP", "SCTP"))
    if often(rng, 0.4):
        port["hostIP"] = pick(rng, ("0.0.0.0", "10.0.0.1", "10.0.0.2", "::"))
    return port


def _toleration(rng: random.Random) -> Object:
    toleration: Object = {}
    if often(rng, 0.85):
        toleration["key"] = pick(rng, TAINT_KEYS)
    if often(rng, 0.5) or "key" not in toleration:
        toleration["operator"] = "Exists"
    else:
        if often(rng, 0.5):
            toleration["operator"] = "Equal"
        if value := pick(rng, TAINT_VALUES):
            toleration["value"] = value
    if often(rng, 0.6):
        toleration["effect"] = pick(rng, EFFECTS)
    if toleration.get("effect") == "NoExecute" and often(rng, 0.5):
        toleration["tolerationSeconds"] = 300
    return toleration


def _resize(rng: random.Random, pod: Object) -> None:
    """As a kubelet reports a pod whose resources are being changed."""
    statuses = []
    for container in pod["spec"]["containers"]:
        status: Object = {"name": container["name"], "image": container["image"], "imageID": "", "ready": True}
        status["restartCount"] = 0
        if often(rng, 0.8):
            status["resources"] = {"requests": {"cpu": pick(rng, CPU), "memory": pick(rng, MEMORY)}}
        if often(rng, 0.6):
            status["allocatedResources"] = {"cpu": pick(rng, CPU)}
        statuses.append(status)
    pod["status"]["containerStatuses"] = statuses
    if often(rng, 0.5):
        reason = pick(rng, ("Infeasible", "Deferred"))
        pod["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]


# --- selectors of pods ---


def label_selector(rng: random.Random, labels: dict[str, tuple[str, ...]]) -> Object:
    """Sometimes empty, which is all objects."""
    selector: Object = {}
    if often(rng, 0.6):
        key = pick(rng, list(labels))
        selector["matchLabels"] = {key: pick(rng, labels[key])}
    if often(rng, 0.4):
        selector["matchExpressions"] = [_label_requirement(rng, labels)]
    return selector


def _label_requirement(rng: random.Random, labels: dict[str, tuple[str, ...]]) -> Object:
    key, operator = pick(rng, list(labels)), pick(rng, ("In", "NotIn", "Exists", "DoesNotExist"))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": some(rng, labels[key], 2)}


def _constraint(rng: random.Random, topology_key: str, when: str) -> Object:
    constraint: Object = {"topologyKey": topology_key, "whenUnsatisfiable": when, "maxSkew": rng.randint(1, 3)}
    if often(rng, 0.9):
        constraint["labelSelector"] = label_selector(rng, POD_LABELS)
    if when == "DoNotSchedule" and often(rng, 0.3):
        constraint["minDomains"] = rng.randint(1, 4)
    if often(rng, 0.3):
        constraint["nodeAffinityPolicy"] = pick(rng, ("Honor", "Ignore"))
    if often(rng, 0.3):
        constraint["nodeTaintsPolicy"] = pick(rng, ("Honor", "Ignore"))
    if "labelSelector" in constraint and often(rng, 0.2):
        constraint["matchLabelKeys"] = ["release"]
    return constraint


def _pod_affinity_term(rng: random.Random) -> Object:
    term: Object = {"topologyKey": pick(rng, TOPOLOGY_KEYS)}
    if often(rng, 0.93):
        term["labelSelector"] = label_selector(rng, POD_LABELS)
    if often(rng, 0.3):
        term["namespaces"] = some(rng, list(NAMESPACES), 2)
    if often(rng, 0.25):
        term["namespaceSelector"] = label_selector(rng, {"team": ("a", "b")})
    return term
