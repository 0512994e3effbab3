"""Seeded cases of composite groups of 1.37: the group of a case is split into several, in a tree of groups."""

from __future__ import annotations

import copy
import random

from tests.parity.case import Object
from tests.parity.generate_gangs import COMPOSITES, EVICTING, NAME, GangCase, generate_placed_gang
from tests.parity.words import HOSTNAME, REGION, ZONE, often, pick

ROOT = "job"
KEYS = (ZONE, "rack", REGION, HOSTNAME)
INNER = ("rack", HOSTNAME, ZONE)  # labels of groups below others


def generate_composite(seed: int, evicting: float = EVICTING) -> GangCase:
    """The case of a seed with the gate of composite groups: some groups are alone in it, others are in a tree."""
    case, rng = generate_placed_gang(seed, evicting), random.Random(f"{seed}/tree")
    case.more_gates = COMPOSITES
    if not case.pod_groups or often(rng, 0.05):
        return case
    # 1. Composite groups: a root, and others below it.
    own, *victims = case.pod_groups
    strict = bool(victims) or bool(case.cluster.get("podDisruptionBudgets"))
    priority = own["spec"].get("priority", 0)
    parents = [ROOT]
    case.composites = [_composite(rng, ROOT, own, "", priority)]
    for index in range(pick(rng, (0, 0, 0, 1, 2))):
        name = f"part{index}"
        case.composites.append(_composite(rng, name, own, pick(rng, parents) if index < 2 else ROOT, priority))
        parents.append(name)
    # 2. The PodGroups, each with a share of the pods. It may have none.
    leaves = [f"{NAME}-{letter}" for letter in "abcd"[: pick(rng, (1, 2, 2, 3, 4))]]
    bound = _gather(rng, case, [pod for pod in case.cluster["pods"] if _is_member(pod, own)])
    members = [*case.pending, *bound]
    if often(rng, 0.9):
        leaves = leaves[: len(members)]
    of_leaf: dict[str, list[Object]] = {name: [] for name in leaves}
    for index, pod in enumerate(rng.sample(members, len(members))):
        of_leaf[leaves[index] if index < len(leaves) and often(rng, 0.9) else pick(rng, leaves)].append(pod)
    for name, pods in of_leaf.items():
        for pod in pods:
            pod["spec"]["schedulingGroup"] = {"podGroupName": name}
    needy = [name for name in reversed(parents) if often(rng, 0.9)]
    groups = [
        _leaf(rng, name, own, needy.pop(0) if needy else pick(rng, parents), len(pods))
        for name, pods in of_leaf.items()
    ]
    case.pod_groups = [*groups, *victims]
    # 3. How many groups each composite group needs, and what is wrong with some.
    below = dict.fromkeys(parents, 0)
    for group in (*groups, *case.composites[1:]):
        below[group["spec"]["parentCompositePodGroupName"]] += 1
    for group in case.composites:
        count = below[group["metadata"]["name"]]
        if strict or often(rng, 0.8):
            least = max(count, 1) if strict or often(rng, 0.4) else rng.randint(1, max(count, 1))
            group["spec"]["schedulingPolicy"] = {"gang": {"minGroupCount": least}}
    _agree(case, bound)
    if often(rng, 0.04) and len(case.composites) > 1:
        case.composites.pop()
    elif often(rng, 0.03):
        case.composites[0]["spec"]["parentCompositePodGroupName"] = pick(rng, (ROOT, *parents, "nowhere"))
    if victims and often(rng, 0.5):
        _nest(rng, case, victims)
    return case


def _gather(rng: random.Random, case: GangCase, bound: list[Object]) -> list[Object]:
    """Let members that have a node be on one with all labels, or be one: of several faults any is reported."""
    if len(bound) < 2:
        return bound
    whole = [node for node in case.cluster["nodes"] if set(KEYS) <= node["metadata"]["labels"].keys()]
    if whole:
        name = pick(rng, whole)["metadata"]["name"]
        for pod in bound:
            pod["spec"]["nodeName"] = name
        return bound
    case.cluster["pods"] = [pod for pod in case.cluster["pods"] if pod not in bound[1:]]
    return bound[:1]


def _is_member(pod: Object, own: Object) -> bool:
    group = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
    return bool(group == NAME and pod["metadata"]["namespace"] == own["metadata"]["namespace"])


def _composite(rng: random.Random, name: str, own: Object, parent: str, priority: int) -> Object:
    metadata = {"name": name, "namespace": own["metadata"]["namespace"], "uid": name, "generation": 1}
    spec: Object = {"schedulingPolicy": {"basic": {}}, "priority": priority if not parent else pick(rng, (0, priority))}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    if often(rng, 0.4):
        spec["schedulingConstraints"] = {"topology": [{"key": pick(rng, KEYS)}]}
    if often(rng, 0.1):
        spec["disruptionMode"] = {pick(rng, ("single", "all")): {}}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": metadata,
        "spec": spec,
    }


def _leaf(rng: random.Random, name: str, own: Object, parent: str, count: int) -> Object:
    group: Object = copy.deepcopy(own)
    group["metadata"] |= {"name": name, "uid": name}
    spec = group["spec"]
    spec["parentCompositePodGroupName"] = parent
    spec["schedulingPolicy"] = {"basic": {}}
    if often(rng, 0.8):
        least = max(count, 1) if often(rng, 0.5) else rng.randint(1, count + 1)
        spec["schedulingPolicy"] = {"gang": {"minCount": least}}
    spec.pop("schedulingConstraints", None)
    if often(rng, 0.5):
        spec["schedulingConstraints"] = {"topology": [{"key": pick(rng, INNER)}]}
    return group


def _agree(case: GangCase, bound: list[Object]) -> None:
    """Let all pods have one scheduler and one policy: of several that differ kube-scheduler names any."""
    first = dict(case.pending[0]["spec"])
    if any(pod["spec"].get("preemptionPolicy") == "Never" for pod in case.pending):
        first["preemptionPolicy"] = "Never"  # the others are not such that they could be evicted: see fill_nodes
    for pod in (*case.pending, *bound):
        for name in ("schedulerName", "preemptionPolicy"):
            pod["spec"].pop(name, None)
            if name in first:
                pod["spec"][name] = first[name]
    wrong = [pod for pod in (*case.pending, *bound) if pod["spec"]["priority"] != first["priority"]]
    for pod in wrong:
        pod["spec"]["priority"] = first["priority"]


def _nest(rng: random.Random, case: GangCase, victims: list[Object]) -> None:
    """Put groups that may be evicted into a composite group, which is mostly disrupted whole."""
    namespaces = {group["metadata"]["namespace"] for group in victims}
    namespace = pick(rng, sorted(namespaces))
    priority = pick(rng, (-5, 0, 5, 10))
    spec: Object = {"schedulingPolicy": {"basic": {}}, "priority": priority}
    if often(rng, 0.7):
        spec["disruptionMode"] = {"all": {}}
    metadata = {"name": "old", "namespace": namespace, "uid": "old", "generation": 1}
    if case.composites:
        case.composites.append(
            {
                "apiVersion": "scheduling.k8s.io/v1alpha3",
                "kind": "CompositePodGroup",
                "metadata": metadata,
                "spec": spec,
            }
        )
    for group in victims:
        if group["metadata"]["namespace"] == namespace:
            group["spec"]["parentCompositePodGroupName"] = "old"
