"""Pods that may be evicted for gangs, and who is left, for the scenarios of this package."""

from __future__ import annotations

from kscheduler.api.objects import (
    LabelSelector,
    ObjectMeta,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from kscheduler.testing.wrappers import PodBuilder, make_pod
from tests.support.world import World


def low(name: str, cpu: int = 2, priority: int = 1) -> PodBuilder:
    return make_pod(name).req(cpu=cpu).priority(priority).grace_period(0)


async def fill(world: World, *pods: PodBuilder) -> None:
    for pod in pods:
        world.add_pod(pod)
    await world.until(world.all_bound)


def left(world: World, prefix: str) -> list[str]:
    """The pods whose names begin so, that exist and are not terminating."""
    pods = world.cluster.pods.values()
    return sorted(
        pod.metadata.name
        for pod in pods
        if pod.metadata.name.startswith(prefix) and pod.metadata.deletion_timestamp is None
    )


def bound(world: World, prefix: str) -> dict[str, str]:
    pods = world.cluster.pods.values()
    named = [pod for pod in pods if pod.metadata.name.startswith(prefix)]
    return {pod.metadata.name: pod.spec.node_name for pod in named if pod.spec.node_name}


def budget(name: str, allowed: int) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        ObjectMeta(name=name, namespace="default"),
        PodDisruptionBudgetSpec(LabelSelector(match_labels={"app": name})),
        PodDisruptionBudgetStatus(allowed, {}),
    )
