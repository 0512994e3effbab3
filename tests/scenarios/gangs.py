"""Objects of gangs and their pods, for the scenarios of this package, with configurations that open a door for them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec.structs import replace

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.pod_groups import (
    POD_GROUP_LABEL,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    CoschedulingPodGroup,
    CoschedulingPodGroupSpec,
    GangPolicy,
    PodGroup,
    PodGroupPolicy,
    PodGroupSpec,
)
from kscheduler.config.load import default_config, parse_config
from kscheduler.config.releases import Release
from kscheduler.config.types import SchedulerConfig
from kscheduler.explain.explainer import Explainer, Leadership
from kscheduler.testing.wrappers import PodBuilder, make_pod
from tests.support.world import World

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
BY_LABEL = parse_config(HEAD + "profiles: [{plugins: {permit: {enabled: [{name: Coscheduling}]}}}]\n")


def reserving(after_s: int) -> SchedulerConfig:
    """A configuration by which room is reserved for gangs that have failed for so long."""
    args = f"pluginConfig: [{{name: Coscheduling, args: {{reserveAfterSeconds: {after_s}}}}}]"
    return parse_config(HEAD + f"profiles: [{{plugins: {{permit: {{enabled: [{{name: Coscheduling}}]}}}}, {args}}}]\n")


GATES = {"GenericWorkload": True, "GangScheduling": True}


def by_field(release: Release) -> SchedulerConfig:
    return default_config(release.with_gates(GATES))


def gang(name: str, least: int, **spec: Any) -> CoschedulingPodGroup:
    return CoschedulingPodGroup(
        metadata=ObjectMeta(name=name, namespace="default"), spec=CoschedulingPodGroupSpec(min_member=least, **spec)
    )


def near(name: str, least: int, *, required: str = "", preferred: str = "", **spec: Any) -> CoschedulingPodGroup:
    """A gang whose pods are to be on nodes of one domain."""
    asked = {TOPOLOGY_REQUIRED: required, TOPOLOGY_PREFERRED: preferred}
    annotations = {key: value for key, value in asked.items() if value}
    return replace(
        gang(name, least, **spec), metadata=ObjectMeta(name=name, namespace="default", annotations=annotations)
    )


def members(name: str, count: int, cpu: int = 2) -> list[PodBuilder]:
    return [make_pod(f"{name}-{i}").label(POD_GROUP_LABEL, name).req(cpu=cpu) for i in range(count)]


def group(name: str, least: int, **spec: object) -> PodGroup:
    policy = PodGroupPolicy(gang=GangPolicy(least))
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodGroupSpec(scheduling_policy=policy, **spec),  # type: ignore[arg-type]
    )


def add_members(world: World, name: str, *numbers: int) -> None:
    for number in numbers:
        world.add_pod(make_pod(f"{name}-{number}").scheduling_group(name).req(cpu=2))


def notes(world: World, reason: str, kind: str = "PodGroup") -> list[str]:
    return [event.note for event in world.cluster.events if event.reason == reason and event.regarding.kind == kind]


def bound_pods(here: World) -> Counter[str]:
    """How many pods of each gang have a node."""
    return Counter(
        (each.metadata.labels or {})[POD_GROUP_LABEL] for each in here.cluster.pods.values() if each.spec.node_name
    )


def explainer_of(world: World) -> Explainer:
    explainer = world.scheduler.explainer(lambda: Leadership("me_1", True, "me_1"))
    assert explainer is not None
    return explainer
