"""Seeded cases of single pods that preempt where some pods on nodes belong to PodGroups of 1.37."""

from __future__ import annotations

import random

from tests.parity.case import Object
from tests.parity.generate_gang_victims import groups_of
from tests.parity.generate_gangs import NEWEST, GangCase
from tests.parity.generate_preemption import generate_preemption


def generate_victim_groups(seed: int) -> GangCase:
    """The case of a seed of preemption, with groups."""
    case = generate_preemption(seed, NEWEST)
    rng = random.Random(f"groups {seed}")
    names = {node["metadata"]["name"] for node in case.cluster["nodes"]}
    pods = case.cluster["pods"]
    groups = groups_of(rng, [pod for pod in pods if pod["spec"]["nodeName"] in names])
    # Of the pods of a group that leaves whole, kube-scheduler's order is by chance: it may not matter.
    del case.cluster["podDisruptionBudgets"][1:]
    for group in groups:
        if "all" in group["spec"].get("disruptionMode", {}):
            _agree([pod for pod in pods if pod["spec"].get("schedulingGroup", {}).get("podGroupName") == _name(group)])
    for second, pod in enumerate(rng.sample(pods, len(pods))):  # of equals kube-scheduler takes any
        pod.setdefault("status", {})["startTime"] = f"2024-01-01T{second // 60:02d}:{second % 60:02d}:00Z"
    return GangCase(case.seed, case.mode, case.config, case.cluster, case.pending, case.release, groups)


def _name(group: Object) -> str:
    name: str = group["metadata"]["name"]
    return name


def _agree(pods: list[Object]) -> None:
    """Give the pods of a group one priority: that of the first counts for the choice of a node."""
    for pod in pods:
        pod["spec"]["priority"] = pods[0]["spec"].get("priority", 0)
