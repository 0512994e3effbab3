"""The kinds of objects that describe gangs, as the apiserver serves them."""

from __future__ import annotations

from typing import Any

from kscheduler.api.pod_groups import (
    COSCHEDULING_GROUP,
    KUBERNETES_GROUP,
    POD_GROUP_LABEL,
    CompositePodGroup,
    CoschedulingPodGroup,
    GroupPod,
    PodGroup,
)
from kscheduler.client.kinds import Resource
from kscheduler.config.releases import Release

COSCHEDULING_POD_GROUPS: Resource[CoschedulingPodGroup] = Resource(
    f"{COSCHEDULING_GROUP}/v1alpha1", "podgroups", "PodGroup", CoschedulingPodGroup
)
COMPOSITE_POD_GROUPS: Resource[CompositePodGroup] = Resource(
    f"{KUBERNETES_GROUP}/v1alpha3", "compositepodgroups", "CompositePodGroup", CompositePodGroup
)
# The pods that name such a group.
GROUP_PODS: Resource[GroupPod] = Resource("v1", "pods", "Pod", GroupPod, label=POD_GROUP_LABEL)


def pod_groups(release: Release) -> Resource[PodGroup]:
    """Return the kind PodGroup of scheduling.k8s.io in the version that a release's kube-scheduler reads."""
    return Resource(release.pod_group_api, "podgroups", "PodGroup", PodGroup)


def resource_of(kind: type[Any], release: Release) -> Resource[Any]:
    """Return the resource whose objects are of this struct."""
    if kind is CompositePodGroup:
        return COMPOSITE_POD_GROUPS
    return COSCHEDULING_POD_GROUPS if kind is CoschedulingPodGroup else pod_groups(release)
