"""What few clusters have and the apiserver lets through all the same, added to some of the generated cases.

It draws numbers of its own, so that the rest of a case stays as its seed has it. A case gets at most three of these
things, so that what the others add stays visible.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from tests.parity.case import Case, Object
from tests.parity.generate_pods import PREFERRED, REQUIRED
from tests.parity.words import (
    EFFECTS,
    FPGA,
    GPU,
    HOSTNAME,
    HUGE,
    POD_LABELS,
    REGION,
    TAINT_KEYS,
    ZONE,
    ZONES,
    often,
    pick,
    some,
)

LARGE_PAGES = "hugepages-1Gi"
NATIVE = "kubernetes.io/batteries"  # counted by its name, though no extended resource
RESOURCES = {  # resource -> (what nodes have of it, what containers ask for)
    LARGE_PAGES: (("0", "1Gi", "4Gi"), ("1Gi", "2Gi")),
    NATIVE: (("1", "3", "500m"), ("1", "2")),
    "sub.example.com/thing.v1_a": (("2",), ("1",)),
    "example.com/nowhere": ((), ("1", "0")),
}
NUMBERS = ("-1", "0", "5", "10", "1e3", "007")  # values of taints
COMPARED = ("4", "5", "6", "-2", "x")  # values of tolerations
# The points of a profile at which a plugin can be off while the others of it go on.
FILTERS = ("NodeUnschedulable", "TaintToleration", "NodePorts", "NodeAffinity", "PodTopologySpread", "InterPodAffinity")
SCORES = ("TaintToleration", "NodeAffinity", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity")
WHOLE = (*SCORES, "NodeUnschedulable", "NodePorts", "ImageLocality", "NodeResourcesBalancedAllocation", "NodeName")

Rarity = Callable[[random.Random, Case], None]


def add_rarer(case: Case) -> None:
    """Change the case in place."""
    rng = random.Random(f"rarer {case.seed}")
    if often(rng, 0.5):
        for give in some(rng, RARITIES, 3):
            give(rng, case)


def _pods(case: Case) -> Iterator[Object]:
    for name in ("pods", "nominated"):
        yield from case.cluster.get(name, ())
    yield from case.pending


def _containers(pod: Object) -> list[Object]:
    return [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]


# --- amounts ---


def _other_resources(rng: random.Random, case: Case) -> None:
    """Pages of another size, and names that are neither extended resources nor the well-known ones."""
    names = some(rng, list(RESOURCES), 3)
    for node in case.cluster["nodes"]:
        for name in names:
            offered, _ = RESOURCES[name]
            if offered and often(rng, 0.6):
                amount = pick(rng, offered)
                for where in ("capacity", "allocatable"):
                    if where in node["status"]:
                        node["status"][where][name] = amount
    for pod in _pods(case):
        if often(rng, 0.3):
            name = pick(rng, names)
            resources = pick(rng, _containers(pod)).setdefault("resources", {})
            amount = pick(rng, RESOURCES[name][1])
            for where in ("requests", "limits"):
                resources.setdefault(where, {})[name] = amount
    for profile in case.config["profiles"]:
        for entry in profile.get("pluginConfig", ()):
            resources = entry["args"].get("scoringStrategy", entry["args"]).get("resources")
            scored = {each["name"] for each in resources or ()}
            name = pick(rng, names)
            if scored and entry["name"].startswith("NodeResources") and name not in scored:
                resources.append({"name": name, "weight": 1})


def _reserve_on_nodes(rng: random.Random, case: Case) -> None:
    """Less can be allocated than there is, or a resource not at all."""
    for node in case.cluster["nodes"]:
        if often(rng, 0.6):
            status = node["status"]
            allocatable = status["allocatable"] = dict(status.get("allocatable", status["capacity"]))
            allocatable |= {name: pick(rng, ("1", "2")) for name in ("cpu", GPU) if name in allocatable}
            if often(rng, 0.2):
                allocatable.pop(pick(rng, ("ephemeral-storage", GPU, HUGE)), None)


def _wide_overhead(rng: random.Random, case: Case) -> None:
    """A runtime that costs more than cpu and memory."""
    for pod in _pods(case):
        if often(rng, 0.3):
            overhead = pod["spec"].setdefault("overhead", {})
            for name in some(rng, ("cpu", "memory", "ephemeral-storage", HUGE, FPGA), 3):
                overhead[name] = {"cpu": "150m", FPGA: "1"}.get(name, "64Mi")


def _pages_of_pods(rng: random.Random, case: Case) -> None:
    """Pod-level amounts of huge pages, with those of containers or without."""
    for pod in _pods(case):
        if often(rng, 0.3):
            amounts = {HUGE: pick(rng, ("2Mi", "64Mi", "512Mi"))} | ({"memory": "64Mi"} if often(rng, 0.5) else {})
            resources = pod["spec"].setdefault("resources", {})
            resources.setdefault("limits", {}).update(amounts)
            if often(rng, 0.7):
                resources.setdefault("requests", {}).update(amounts)


def _only_limits(rng: random.Random, case: Case) -> None:
    """Containers for which the apiserver fills in the requests."""
    for pod in _pods(case):
        for container in _containers(pod):
            if often(rng, 0.3):
                amounts = {"cpu": "1", "memory": "300Mi", GPU: "1", HUGE: "64Mi", "ephemeral-storage": "1Gi"}
                container["resources"] = {"limits": {name: amounts[name] for name in some(rng, list(amounts), 3)}}


def _sidecars(rng: random.Random, case: Case) -> None:
    """Several containers before and beside the others, in any order."""
    for pod in _pods(case):
        if often(rng, 0.4):
            inits = pod["spec"].setdefault("initContainers", [])
            for index in range(rng.randint(1, 4)):
                cpu = pick(rng, ("100m", "500m", "1", "3"))
                made: Object = {"name": f"s{index}", "image": "app:2", "resources": {"requests": {"cpu": cpu}}}
                if often(rng, 0.5):
                    made["restartPolicy"] = "Always"
                if often(rng, 0.1):
                    made["ports"] = [{"containerPort": 80, "protocol": "TCP"}]
                    if "restartPolicy" in made and not pod["spec"].get("hostNetwork"):
                        made["ports"][0]["hostPort"] = 80
                inits.insert(rng.randint(0, len(inits)), made)


# --- nodes ---


def _compare_taints(rng: random.Random, case: Case) -> None:
    """Tolerations with operators that are off by default, as objects have them that were stored while they were on."""
    for node in case.cluster["nodes"]:
        if often(rng, 0.5):
            taint = {"key": pick(rng, TAINT_KEYS), "effect": pick(rng, EFFECTS), "value": pick(rng, NUMBERS)}
            node["spec"]["taints"] = [taint]
    for pod in case.pending:
        if often(rng, 0.5):
            toleration = {
                "key": pick(rng, TAINT_KEYS),
                "operator": pick(rng, ("Lt", "Gt")),
                "value": pick(rng, COMPARED),
            }
            if often(rng, 0.5):
                toleration["effect"] = pick(rng, EFFECTS)
            pod["spec"].setdefault("tolerations", []).append(toleration)


def _strange_node_terms(rng: random.Random, case: Case) -> None:
    """Terms that say nothing, and terms that say much of a node's name."""
    names = [node["metadata"]["name"] for node in case.cluster["nodes"]] or ["n0"]
    for pod in case.pending:
        if not often(rng, 0.4):
            continue
        affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
        if often(rng, 0.5):
            required = affinity.setdefault(REQUIRED, {"nodeSelectorTerms": []})["nodeSelectorTerms"]
            required.insert(rng.randint(0, len(required)), _strange_term(rng, names))
        if often(rng, 0.5):
            preferred = affinity.setdefault(PREFERRED, [])
            preferred.append({"weight": rng.randint(1, 100), "preference": _strange_term(rng, names)})


def _strange_term(rng: random.Random, names: Sequence[str]) -> Object:
    kind = rng.randrange(5)
    if kind == 0:
        return {}
    if kind == 1:
        excluded = ({"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in some(rng, names, 2))
        return {"matchFields": list(excluded)}
    if kind == 2:
        return {"matchExpressions": [], "matchFields": []}
    if kind == 3:
        field = {"key": "metadata.name", "operator": "In", "values": [pick(rng, names)]}
        return {"matchFields": [field], "matchExpressions": [{"key": ZONE, "operator": "In", "values": list(ZONES)}]}
    number = pick(rng, ("05", "0", "9223372036854775807"))
    return {"matchExpressions": [{"key": "size", "operator": pick(rng, ("Gt", "Lt")), "values": [number]}]}


# --- other pods ---


def _many_constraints(rng: random.Random, case: Case) -> None:
    """Constraints of several topologies at once, by labels that a pod may not have, and with more domains than are."""
    for pod in case.pending:
        if not often(rng, 0.4):
            continue
        constraints = []
        for key in some(rng, (HOSTNAME, ZONE, REGION, "rack", "disk"), 4):
            when = pick(rng, ("DoNotSchedule", "ScheduleAnyway"))
            constraint: Object = {"topologyKey": key, "whenUnsatisfiable": when, "maxSkew": rng.randint(1, 4)}
            label = pick(rng, list(POD_LABELS))
            if often(rng, 0.5):
                constraint["labelSelector"] = {"matchExpressions": [{"key": label, "operator": "Exists"}]}
            else:
                constraint["labelSelector"] = {"matchLabels": {label: pick(rng, POD_LABELS[label])}}
            if often(rng, 0.5):
                keys = [other for other in (*POD_LABELS, "absent") if other != label]
                constraint["matchLabelKeys"] = some(rng, keys, 3)
            if when == "DoNotSchedule" and often(rng, 0.5):
                constraint["minDomains"] = rng.randint(1, 5)
            for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
                if often(rng, 0.5):
                    constraint[policy] = pick(rng, ("Honor", "Ignore"))
            constraints.append(constraint)
        pod["spec"]["topologySpreadConstraints"] = constraints


# --- volumes ---


def _rarer_volumes(rng: random.Random, case: Case) -> None:
    cluster = case.cluster
    for claim in cluster.get("persistentVolumeClaims", ()):
        if often(rng, 0.3):
            claim["spec"]["accessModes"] = some(rng, ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"), 3)
    for volume in cluster.get("persistentVolumes", ()):
        if often(rng, 0.2):
            comparing = {"key": "size", "operator": pick(rng, ("Gt", "Lt")), "values": [pick(rng, ("0", "4", "9"))]}
            lacking = {"key": "rack", "operator": "DoesNotExist"}
            term = {"matchExpressions": some(rng, (comparing, lacking), 2)}
            volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    for each in cluster.get("storageClasses", ()):
        if often(rng, 0.2):
            names = [node["metadata"]["name"] for node in cluster["nodes"]] or ["n0"]
            requirements = [{"key": HOSTNAME, "values": some(rng, names, 3)}, {"key": "rack", "values": ["1"]}]
            each["allowedTopologies"] = [{"matchLabelExpressions": some(rng, requirements, 2)}]


# --- configuration ---


def _turn_off(rng: random.Random, case: Case) -> None:
    """Plugins that are off, wholly or at one point."""
    for profile in case.config["profiles"]:
        plugins = profile.setdefault("plugins", {})
        if often(rng, 0.5):
            disabled = plugins.setdefault("multiPoint", {}).setdefault("disabled", [])
            disabled += [{"name": name} for name in some(rng, WHOLE, 3)]
        for point, names in (("filter", FILTERS), ("score", SCORES)):
            if often(rng, 0.4):
                plugins[point] = {"disabled": [{"name": name} for name in some(rng, names, 2)]}


RARITIES: Sequence[Rarity] = (
    _other_resources,
    _reserve_on_nodes,
    _wide_overhead,
    _pages_of_pods,
    _only_limits,
    _sidecars,
    _compare_taints,
    _strange_node_terms,
    _many_constraints,
    _rarer_volumes,
    _turn_off,
)
