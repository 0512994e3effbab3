"""Composite groups of Kubernetes 1.37 for the scenarios of this package, with a configuration that schedules them."""

from __future__ import annotations

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.pod_groups import (
    CompositeGangPolicy,
    CompositePodGroup,
    CompositePodGroupPolicy,
    CompositePodGroupSpec,
    PodGroup,
    PodGroupConstraints,
    TopologyConstraint,
)
from kscheduler.config.load import default_config
from kscheduler.config.releases import RELEASE_1_37
from tests.scenarios.gangs import GATES, group

ON = {**GATES, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}
CONFIG = default_config(RELEASE_1_37.with_gates(ON))


def composite(name: str, least: int, *, near: str = "", parent: str = "", **spec: object) -> CompositePodGroup:
    return CompositePodGroup(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=CompositePodGroupSpec(
            parent_composite_pod_group_name=parent or None,
            scheduling_policy=CompositePodGroupPolicy(gang=CompositeGangPolicy(least)),
            scheduling_constraints=constraints(near),
            **spec,  # type: ignore[arg-type]
        ),
    )


def constraints(key: str) -> PodGroupConstraints | None:
    return PodGroupConstraints([TopologyConstraint(key)]) if key else None


def part(name: str, least: int, *, near: str = "", parent: str = "job", **spec: object) -> PodGroup:
    named = {"parent_composite_pod_group_name": parent, "scheduling_constraints": constraints(near)}
    return group(name, least, **named, **spec)
