"""Makes the cluster of a group's case so crowded that pods have to leave, by themselves or by groups, for the group."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from tests.parity.case import Case, Object
from tests.parity.generate_preemption import (
    BY_SCHEDULER,
    ROOMS,
    TARGET,
    budget_for,
    only_amounts,
    resize,
    share_no_port,
    small_node,
)
from tests.parity.words import often, pick

PRIORITY = 10  # of the group that preempts
LOWER = (-5, 0, 0, 5, 9)  # priorities of pods that may be evicted for it
WANTS = (0.3, 0.5, 0.5, 0.7, 1.0)  # of a node's room, by members
SIZES = (0.3, 0.5, 1.0)
MOST_GROUPS = 3  # of victims
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def fill_nodes(rng: random.Random, case: Case, others: Sequence[Object]) -> list[Object]:
    """Fill the nodes with pods that may mostly be evicted. Returns the groups that some of `others` are in now.

    `others`: the pods of the case's cluster that are of no group.
    """
    cluster = case.cluster
    room = pick(rng, ROOMS)
    names = [node["metadata"]["name"] for node in cluster["nodes"]]
    if often(rng, 0.85):
        cluster["nodes"] = [small_node(rng, name, room) for name in names]
    for node in cluster["nodes"]:  # see DIFFERENCES.md: kube-scheduler loses count of them once pods have left on trial
        node["status"].pop("images", None)
    # 1. Amounts: the others fill their nodes, and a member is no smaller than what it needs of one.
    plain = pick(rng, (0.5, 0.9, 1.0))
    on_node = Counter(pod["spec"]["nodeName"] for pod in others)
    for pod in others:
        if often(rng, plain):
            only_amounts(rng, pod)
        resize(rng, pod, room * pick(rng, SIZES) / on_node[pod["spec"]["nodeName"]])
    want = pick(rng, WANTS)
    for pod in case.pending:
        if often(rng, plain):
            only_amounts(rng, pod)
        resize(rng, pod, room * (want if often(rng, 0.8) else pick(rng, WANTS)))
    # 2. Who is less important, and since when they run: of equals kube-scheduler takes any.
    for second, pod in enumerate(rng.sample(others, len(others))):
        pod["spec"]["priority"] = pick(rng, LOWER) if often(rng, 0.85) else pick(rng, (PRIORITY, 20))
        pod["status"]["startTime"] = f"2024-01-01T00:00:{second:02d}Z"
        if often(rng, 0.06):
            _leave(rng, pod)
    _ease(case, others)
    share_no_port(cluster["pods"])
    groups = groups_of(rng, [pod for pod in others if pod["spec"]["nodeName"] in names])
    cluster["podDisruptionBudgets"] = [budget_for(rng, f"b{index}", case) for index in range(rng.randint(0, 3))]
    # 3. Members that were promised a node before.
    if often(rng, 0.15):
        for pod in case.pending:
            if often(rng, 0.7):
                pod["status"] = {"nominatedNodeName": pick(rng, [*names, "elsewhere"])}
    return groups


def _ease(case: Case, others: Sequence[Object]) -> None:
    """No spread constraint of a member and no required anti-affinity of a victim may reject a node.

    See DIFFERENCES.md about what kube-scheduler overlooks while victims come back.
    """
    for pod in others:
        pod["spec"].get("affinity", {}).get("podAntiAffinity", {}).pop(REQUIRED, None)
    for pod in case.pending:
        for constraint in pod["spec"].get("topologySpreadConstraints", ()):
            constraint["whenUnsatisfiable"] = "ScheduleAnyway"
    for profile in case.config["profiles"]:
        for plugin in profile.get("pluginConfig", ()):
            stated = plugin["args"].get("defaultConstraints", [])
            stated[:] = [each for each in stated if each["whenUnsatisfiable"] == "ScheduleAnyway"]


def _leave(rng: random.Random, pod: Object) -> None:
    pod["metadata"]["deletionTimestamp"] = "2024-01-01T01:00:00Z"
    reason = pick(rng, (BY_SCHEDULER, BY_SCHEDULER, "EvictionByEvictionAPI"))
    pod["status"]["conditions"] = [{"type": TARGET, "status": "True", "reason": reason}]


def groups_of(rng: random.Random, others: Sequence[Object]) -> list[Object]:
    """Put some of the pods into groups, of which some are disrupted whole.

    All are on nodes that exist: for a group with a pod on one that has gone kube-scheduler's preemption fails.
    """
    groups: list[Object] = []
    for index in range(rng.randint(0, MOST_GROUPS)):
        free = [pod for pod in others if "schedulingGroup" not in pod["spec"]]
        if not free:
            break
        name, first = f"g{index}", pick(rng, free)
        namespace, priority = first["metadata"]["namespace"], pick(rng, (*LOWER, PRIORITY))
        taken = [pod for pod in free if pod is first or often(rng, 0.3)]
        for pod in taken:
            pod["metadata"]["namespace"] = namespace
            pod["spec"] |= {"schedulingGroup": {"podGroupName": name}}
            if often(rng, 0.9):
                pod["spec"]["priority"] = priority
        least = rng.randint(1, len(taken))
        spec: Object = {"schedulingPolicy": {"gang": {"minCount": least}} if often(rng, 0.8) else {"basic": {}}}
        spec["priority"] = priority
        if often(rng, 0.8):
            spec["disruptionMode"] = {pick(rng, ("single", "all", "all")): {}}
        metadata = {"name": name, "namespace": namespace, "uid": name, "generation": 1}
        if often(rng, 0.95):
            groups.append(
                {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
            )
    return groups
