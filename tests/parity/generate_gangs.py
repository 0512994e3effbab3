"""Seeded cases of groups: a cluster, a PodGroup, and pods of it that wait or are bound; one attempt decides them all.

In some of them pods can be evicted for the group. In the others all other pods are at least as important, or the group
does not preempt.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from kscheduler.framework.plugins.registry import IN_TREE
from tests.parity.case import Case, Object
from tests.parity.generate import PROFILES, generate_config
from tests.parity.generate_gang_victims import PRIORITY, fill_nodes
from tests.parity.generate_nodes import generate_node
from tests.parity.generate_pods import PodGenerator
from tests.parity.words import HOSTNAME, NAMESPACES, REGION, ZONE, often, pick

GANG = "gang"  # the mode
NEWEST = "1.37"
GATES = {"1.36": {"GenericWorkload": True, "GangScheduling": True}, "1.37": {"GenericWorkload": True}}
# Gates that some cases have on as well; POLICIES and COMPOSITES are of the newest release.
PLACEMENTS, POLICIES = ("TopologyAwareWorkloadScheduling",), ("PodGroupPreemptionPolicy",)
COMPOSITES = (*PLACEMENTS, "CompositePodGroup")
TOGETHER = ("WorkloadAwarePreemption",)  # of 1.36
TOGETHER_PLACED = (*PLACEMENTS, *TOGETHER)
CLAIMS = ("DRAWorkloadResourceClaims",)
CONDITIONS = {"1.36": "PodGroupScheduled", "1.37": "PodGroupInitiallyScheduled"}
NAME = "train"
CONFIGURATIONS = 50  # that cases take turns with, since reading one takes longer than a decision
PRIORITIES = (0, 10)
EVICTING = 0.5  # of all cases: pods can be evicted


@dataclass(slots=True)
class GangCase(Case):
    """`pending` are the pods of the first group that wait, in the order in which they come."""

    pod_groups: list[Object] = field(default_factory=list)
    composites: list[Object] = field(default_factory=list)  # the first is the root of the pending pods' groups

    @property
    def gates(self) -> dict[str, bool]:
        return gates_of(self.release, self.more_gates)

    @property
    def has_claims(self) -> bool:
        return self.more_gates == CLAIMS

    def request(self) -> bytes:
        asked = {"mode": self.mode, "config": json.dumps(self.config), "cluster": self.cluster}
        return json.dumps(
            {**asked, "pending": self.pending, "podGroups": self.pod_groups, "compositePodGroups": self.composites}
        ).encode()

    def copy(self) -> GangCase:
        return copy.deepcopy(self)

    def __str__(self) -> str:
        return f"{Case.__str__(self)}\nof the groups\n{json.dumps(self.pod_groups + self.composites, indent=1)}"


def gates_of(release: str, more: Sequence[str] = ()) -> dict[str, bool]:
    return {**GATES[release], **dict.fromkeys(more, True)}


def generate_gang(seed: int, evicting: float = EVICTING, release: str = NEWEST) -> GangCase:
    """The case of a seed. `evicting`: in how many of all cases pods can be evicted for the group.

    For each release it is the same case, but for the version of the groups.
    """
    rng = random.Random(seed)
    nodes = [f"n{i}" for i in range(rng.randint(1, 8))]
    profiles = PROFILES[: 2 if often(rng, 0.1) else 1]
    pods = PodGenerator(rng, nodes, frozenset(IN_TREE), profiles, theme=often(rng, 0.6), claims=False)
    evicts = often(rng, evicting)
    namespace, priority = pick(rng, list(NAMESPACES)), PRIORITY if evicts else pick(rng, PRIORITIES)
    # 1. The members, of a few classes.
    templates = [pods.pending("template") for _ in range(pick(rng, (1, 1, 1, 2, 3)))]
    members = [_member(pick(rng, templates), f"p{i}", namespace, priority) for i in range(rng.randint(1, 9))]
    scheduler = members[0]["spec"].get("schedulerName")
    bound = []
    if often(rng, 0.25):
        bound = [_member(pods.running("r"), f"b{i}", namespace, priority) for i in range(rng.randint(1, 3))]
    for pod in bound:
        pod["spec"]["nodeName"] = pick(rng, nodes)
    for pod in (*members, *bound):
        pod["spec"].pop("schedulerName", None)
        if scheduler is not None:
            pod["spec"]["schedulerName"] = scheduler
    # 2. The others, and the group.
    never = often(rng, 0.05 if evicts else 0.3)
    others = [pods.running(f"r{i}") for i in range(rng.randint(0, 3 * len(nodes)))]
    for pod in others:
        pod["spec"]["priority"] = pick(rng, (-5, 0, 10) if never else (priority, priority + 5))
    config = generate_config(random.Random(rng.randrange(CONFIGURATIONS)), profiles, has_claims=False)
    if never and often(rng, 0.5):
        for profile in config["profiles"]:
            profile["plugins"]["multiPoint"]["disabled"].append({"name": "DefaultPreemption"})
    elif never:
        for pod in (*members, *bound):
            pod["spec"]["preemptionPolicy"] = "Never"
    _disturb(rng, members, bound, profiles)
    cluster: dict[str, list[Object]] = {
        "nodes": [generate_node(rng, name, calm=often(rng, 0.5)) for name in nodes],
        "pods": [*others, *bound],
        "namespaces": [{"metadata": {"name": name, "labels": labels}} for name, labels in NAMESPACES.items()],
    }
    groups = [_group(rng, namespace, priority, len(members) + len(bound))] if often(rng, 0.97) else []
    case = GangCase(seed, GANG, config, cluster, members, release, groups)
    if evicts and groups:
        groups += fill_nodes(rng, case, others)
    if release == "1.36":
        _suit_1_36(case)
    return case


def generate_placed_gang(seed: int, evicting: float = EVICTING, release: str = NEWEST) -> GangCase:
    """The case of a seed with the gate of topology constraints: most groups have one."""
    case, rng = generate_gang(seed, evicting, release), random.Random(f"{seed}/topology")
    case.more_gates = PLACEMENTS
    if not case.pod_groups or often(rng, 0.15):
        return case
    key = pick(rng, (ZONE, ZONE, "rack", "rack", REGION, HOSTNAME, "nowhere"))
    case.pod_groups[0]["spec"]["schedulingConstraints"] = {"topology": [{"key": key}]}
    if often(rng, 0.6):  # more nodes in fewer domains
        for node in case.cluster["nodes"]:
            if key in (ZONE, "rack") and often(rng, 0.9):
                node["metadata"]["labels"][key] = pick(rng, ("1", "2"))
    _gather(rng, case, key)
    return case


def generate_gang_together(seed: int, evicting: float = EVICTING, placed: bool = False) -> GangCase:
    """The case of a seed with 1.36 and its gate by which groups preempt as a whole.

    `placed`: most groups have a topology constraint, and its gate is on, too.
    """
    generate = generate_placed_gang if placed else generate_gang
    case = generate(seed, evicting, "1.36")
    case.more_gates = TOGETHER_PLACED if placed else TOGETHER
    return case


def generate_gang_with_policy(seed: int, evicting: float = EVICTING) -> GangCase:
    """The case of a seed with the gate by which groups state a preemption policy; mostly that of all their pods."""
    case, rng = generate_gang(seed, evicting), random.Random(f"{seed}/policy")
    case.more_gates = POLICIES
    # Where the pods may evict nobody, the others are such that kube-scheduler's reprieve would overlook their terms.
    never = all(pod["spec"].get("preemptionPolicy") == "Never" for pod in case.pending)
    for group in case.pod_groups:
        policy = pick(rng, (None, "Never", "PreemptLowerPriority", "PreemptLowerPriority"))
        if never and often(rng, 0.8):
            policy = "Never"
        if policy is not None:
            group["spec"]["preemptionPolicy"] = policy
        name, namespace = group["metadata"]["name"], group["metadata"]["namespace"]
        agrees = often(rng, 0.9) and (policy == "Never" or not never)
        for pod in (*case.pending, *case.cluster["pods"]):
            of_group = pod["spec"].get("schedulingGroup", {}).get("podGroupName") == name
            if of_group and pod["metadata"]["namespace"] == namespace and agrees:
                pod["spec"].pop("preemptionPolicy", None)
                if policy is not None:
                    pod["spec"]["preemptionPolicy"] = policy
    return case


def _gather(rng: random.Random, case: GangCase, key: str) -> None:
    """Let bound members be in one domain, or one of them in none: of several kinds of faults any is reported."""
    bound = [pod for pod in case.cluster["pods"] if pod["spec"].get("schedulingGroup", {}).get("podGroupName") == NAME]
    own = case.pod_groups[0]["metadata"]["namespace"]
    bound = [pod for pod in bound if pod["metadata"]["namespace"] == own]
    if not bound:
        return
    labelled = [node["metadata"]["name"] for node in case.cluster["nodes"] if key in node["metadata"]["labels"]]
    if labelled and often(rng, 0.9):
        name = pick(rng, labelled)
        for pod in bound:
            pod["spec"]["nodeName"] = name
    elif len(bound) > 1:
        case.cluster["pods"] = [pod for pod in case.cluster["pods"] if pod not in bound[1:]]


def _suit_1_36(case: GangCase) -> None:
    """State the groups in the version of 1.36, and leave out what its kube-scheduler overlooks.

    It overlooks the terms of pod affinity of members that it has planned before, and, where one of them is planned
    beside its victims, the host ports that it has like one of these: see DIFFERENCES.md.
    """
    for group in case.pod_groups:
        _state_in_v1alpha2(group)
    if len(case.pending) == 1:
        return
    highest = max(pod["spec"]["priority"] for pod in case.pending)
    has_victims = any(pod["spec"]["priority"] < highest for pod in case.cluster["pods"])
    for pod in case.pending:
        for kind in ("podAffinity", "podAntiAffinity"):
            pod["spec"].get("affinity", {}).pop(kind, None)
        for container in pod["spec"]["containers"] if has_victims else ():
            container.pop("ports", None)


def _state_in_v1alpha2(group: Object) -> None:
    group["apiVersion"] = "scheduling.k8s.io/v1alpha2"
    mode = group["spec"].get("disruptionMode")
    if mode is not None:
        group["spec"]["disruptionMode"] = "PodGroup" if "all" in mode else "Pod"
    for condition in group.get("status", {}).get("conditions", ()):
        condition["type"] = CONDITIONS["1.36"]


def _member(template: Object, name: str, namespace: str, priority: int) -> Object:
    pod: Object = copy.deepcopy(template)
    pod["metadata"] |= {"name": name, "uid": name, "namespace": namespace}
    pod["spec"] |= {"schedulingGroup": {"podGroupName": NAME}, "priority": priority}
    pod["spec"].pop("preemptionPolicy", None)
    if name.startswith("p"):
        pod["spec"].pop("nodeName", None)
    pod["metadata"].pop("deletionTimestamp", None)
    return pod


def _disturb(rng: random.Random, members: list[Object], bound: list[Object], profiles: tuple[str, ...]) -> None:
    """What is wrong with some groups: members that differ, wait for a gate, or are terminating."""
    for pod in members:
        if often(rng, 0.95):
            pod["spec"].pop("schedulingGates", None)
    if often(rng, 0.05):
        pick(rng, members)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if often(rng, 0.04):
        pick(rng, members)["spec"]["priority"] = 3
    if often(rng, 0.04) and len(members) > 1:  # one that is alone would preempt
        pick(rng, members)["spec"]["preemptionPolicy"] = pick(rng, ("Never", "PreemptLowerPriority"))
    if often(rng, 0.1) and len(profiles) > 1:
        pick(rng, members)["spec"]["schedulerName"] = pick(rng, profiles)
    if len(bound) == 1 and often(rng, 0.1):  # of several that differ kube-scheduler names any
        bound[0]["spec"] |= pick(rng, ({"priority": 7}, {"schedulerName": "another-scheduler"}))


def _group(rng: random.Random, namespace: str, priority: int, count: int) -> Object:
    policy: Object = {"basic": {}}
    if often(rng, 0.85):
        least = rng.randint(1, count) if often(rng, 0.5) else max(count - pick(rng, (0, 0, 1, -1)), 1)
        policy = {"gang": {"minCount": least}}
    spec: Object = {"schedulingPolicy": policy}
    if priority or often(rng, 0.5):
        spec["priority"] = priority
    if often(rng, 0.1):
        spec["disruptionMode"] = {pick(rng, ("single", "all")): {}}
    metadata = {"name": NAME, "namespace": namespace, "uid": "group", "generation": rng.randint(1, 3)}
    group: Object = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    if often(rng, 0.1):
        condition = {
            "type": "PodGroupInitiallyScheduled",
            "status": pick(rng, ("True", "False")),
            "reason": "Unschedulable",
            "message": "as it was",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        group["status"] = {"conditions": [condition]}
    return group
