"""The kinds that make pods a group: PodGroup and CompositePodGroup of Kubernetes, and PodGroup of Coscheduling.

`PodGroup` decodes scheduling.k8s.io/v1alpha2 (Kubernetes 1.36) and v1beta1 (1.37), which differ for the scheduler in
one field only, `disruptionMode`. `CoschedulingPodGroup` is scheduling.x-k8s.io/v1alpha1. As in `api.objects`, fields
that scheduling does not use are absent, and quantities stay text.
"""

from __future__ import annotations

from kscheduler.api.objects import APIStruct, NamespacedObject, QuantityMap

# --- scheduling.k8s.io ------------------------------------------------------------------------------------------

KUBERNETES_GROUP = "scheduling.k8s.io"
MAX_TREE_DEPTH = 4  # levels of groups, the PodGroups included
# Values of disruptionMode in v1alpha2, where it is a text.
DISRUPTION_POD, DISRUPTION_POD_GROUP = "Pod", "PodGroup"


class Empty(APIStruct, frozen=True):
    """A choice without fields of its own, such as `basic: {}`."""


class GangPolicy(APIStruct, frozen=True):
    min_count: int = 0  # the apiserver requires at least 1


class PodGroupPolicy(APIStruct, frozen=True):
    """How the pods are scheduled; exactly one field is set."""

    basic: Empty | None = None  # as ordinary pods
    gang: GangPolicy | None = None  # at least so many together, or none


class TopologyConstraint(APIStruct, frozen=True):
    key: str = ""  # of a node label: all pods on nodes with one value of it


class PodGroupConstraints(APIStruct, frozen=True):
    topology: list[TopologyConstraint] | None = None  # at most one


class DisruptionMode(APIStruct, frozen=True):
    """Which pods preemption removes together, from v1alpha3 on; exactly one field is set."""

    single: Empty | None = None  # each pod by itself
    all: Empty | None = None  # all of the group


class PodGroupResourceClaim(APIStruct, frozen=True):
    """A claim for devices that the pods of a group share."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class GroupCondition(APIStruct, frozen=True):
    """A metav1.Condition. The apiserver requires all fields but the generation."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int = 0


class PodGroupSpec(APIStruct, frozen=True):
    parent_composite_pod_group_name: str | None = None
    scheduling_policy: PodGroupPolicy = PodGroupPolicy()
    scheduling_constraints: PodGroupConstraints | None = None
    resource_claims: list[PodGroupResourceClaim] | None = None
    disruption_mode: str | DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None  # the apiserver fills it in
    preemption_policy: str | None = None


class PodGroupResourceClaimStatus(APIStruct, frozen=True):
    """Which claim was made for a group from a template."""

    name: str = ""  # of the group's claim in its spec
    resource_claim_name: str | None = None  # None: none is needed


class PodGroupStatus(APIStruct, frozen=True):
    conditions: list[GroupCondition] | None = None
    resource_claim_statuses: list[PodGroupResourceClaimStatus] | None = None


class PodGroup(NamespacedObject, frozen=True):
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class CompositeGangPolicy(APIStruct, frozen=True):
    min_group_count: int = 0  # the apiserver requires at least 1


class CompositePodGroupPolicy(APIStruct, frozen=True):
    basic: Empty | None = None
    gang: CompositeGangPolicy | None = None


class CompositePodGroupSpec(APIStruct, frozen=True):
    parent_composite_pod_group_name: str | None = None
    scheduling_policy: CompositePodGroupPolicy = CompositePodGroupPolicy()
    scheduling_constraints: PodGroupConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None


class CompositePodGroup(NamespacedObject, frozen=True):
    """A group of groups: scheduling.k8s.io/v1alpha3, behind the feature gate of the kind's name."""

    spec: CompositePodGroupSpec = CompositePodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


# --- scheduling.x-k8s.io ----------------------------------------------------------------------------------------

COSCHEDULING_GROUP = "scheduling.x-k8s.io"
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"  # of a pod: the name of its group, in the same namespace
# Annotations of a PodGroup, ours: keys of node labels. Separated by commas in the second, the innermost first.
TOPOLOGY_REQUIRED = "kscheduler.io/topology-required"
TOPOLOGY_PREFERRED = "kscheduler.io/topology-preferred"

# Phases. Finished and Failed are final.
PENDING, SCHEDULING, RUNNING, FINISHED, FAILED = "Pending", "Scheduling", "Running", "Finished", "Failed"


class CoschedulingPodGroupSpec(APIStruct, frozen=True):
    min_member: int = 0
    min_resources: QuantityMap | None = None
    schedule_timeout_seconds: int | None = None


class CoschedulingPodGroupStatus(APIStruct, frozen=True):
    phase: str = ""
    occupied_by: str = ""  # the owners of the first pod, "namespace/name" joined with ","
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start_time: str | None = None


class CoschedulingPodGroup(NamespacedObject, frozen=True):
    spec: CoschedulingPodGroupSpec = CoschedulingPodGroupSpec()
    status: CoschedulingPodGroupStatus = CoschedulingPodGroupStatus()


AnyPodGroup = PodGroup | CompositePodGroup | CoschedulingPodGroup


class GroupPodStatus(APIStruct, frozen=True):
    phase: str = "Pending"


class GroupPod(NamespacedObject, frozen=True):
    """Of a pod what the status of its PodGroup depends on."""

    status: GroupPodStatus = GroupPodStatus()
