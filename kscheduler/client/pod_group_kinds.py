"""The kinds of objects that describe gangs, as the apiserver serves them."""

from __future__ import annotations

from typing import Any

from kscheduler.api.pod_groups import COSCHEDULING_GROUP, CoschedulingPodGroup, PodGroup
from kscheduler.client.protocol import Resource
from kscheduler.config.releases import Release

COSCHEDULING_POD_GROUPS: Resource[CoschedulingPodGroup] = Resource(
    f"{COSCHEDULING_GROUP}/v1alpha1", "podgroups", "PodGroup", CoschedulingPodGroup
)


def pod_groups(release: Release) -> Resource[PodGroup]:
    """Return the kind PodGroup of scheduling.k8s.io in the version that a release's kube-scheduler reads."""
    return Resource(release.pod_group_api, "podgroups", "PodGroup", PodGroup)


def resource_of(kind: type[Any], release: Release) -> Resource[Any]:
    """Return the resource whose objects are of this struct."""
    return COSCHEDULING_POD_GROUPS if kind is CoschedulingPodGroup else pod_groups(release)
