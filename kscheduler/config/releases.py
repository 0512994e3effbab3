"""The releases of Kubernetes whose kube-scheduler is emulated: what differs between them, in one record each.

Other code asks the record for a property (`release.has("StorageCapacityScoring")`), never for the version. A
configuration carries the release that its defaults come from, so that all parts of a scheduler emulate the same one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kscheduler.config.device_rules import DEVICE_RULES_1_36, DEVICE_RULES_1_37, DeviceRules
from kscheduler.config.extension_points import (
    PLUGINS_1_36,
    PLUGINS_1_37,
    POINTS_1_36,
    POINTS_1_37,
    ExtensionPoint,
    PointMap,
)
from kscheduler.config.feature_gates import (
    FEATURES_1_36,
    FEATURES_1_37,
    SWITCHABLE_1_36,
    SWITCHABLE_1_37,
    FeatureGate,
)
from kscheduler.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A minor release of Kubernetes, as far as its kube-scheduler differs from that of another."""

    version: str  # such as "1.36"
    features: tuple[FeatureGate, ...]  # sorted by name
    switchable: frozenset[str]  # those of them that --feature-gates switches
    plugins: tuple[tuple[str, int], ...]  # the default profile's multiPoint: (name, weight), 0 if it does not score
    extension_points: tuple[ExtensionPoint, ...]  # that a profile can configure
    points: PointMap = field(compare=False, repr=False)  # kube-scheduler's plugins -> the points that they implement

    # Plugins.
    # ImageLocality: the images of a pod's volumes count in what its images can be worth at most.
    counts_image_volumes: bool
    # InterPodAffinity: the namespace selectors of a pod to be placed are matched with empty labels, too.
    matches_selectors_without_labels: bool
    # InterPodAffinity's hints: a pod that goes, or its labels change, must have been excluded by all terms, not by any.
    wakes_by_all_excluding_terms: bool
    # NodeDeclaredFeatures: mounts with bindMountOptions need a feature of the node.
    infers_bind_mount_options: bool
    # Of a pod that is resized in place, requested, allocated and actuated amounts are added up separately.
    sums_resizes_apart: bool
    # The apiserver adds missing pod-level requests to pods with others of them, not only to pods with pod-level limits.
    completes_pod_level_requests: bool

    # Preemption.
    reports_preemption: bool  # a pod's condition and Event name the node and the number of victims of its preemption
    stops_at_overdrawn_budget: bool  # a victim that overdraws a PodDisruptionBudget uses up none of the later ones
    activates_after_waiting_victim: bool  # a preemptor is activated if its last victim was only waiting to be bound

    # The queue.
    splits_pod_events: bool  # AssignedPod, UnscheduledPod, TargetPod (the waiting pod itself); else UnschedulablePod
    has_scale_up_event: bool  # UpdatePodScaleUp: a pod requests more than before
    adds_taint_event: bool  # a plugin that registers for Node Add, and not for taints, gets UpdateNodeTaint as well
    adds_unknown_pods: bool  # an update of a pod that is in no pool is reported as its addition
    # Wildcard events, such as timeouts, run PreEnqueue of gated pods again, and a pod that stays gated counts as not
    # flushed; else a timeout marks gated pods as flushed, and does no more.
    wakes_gated_by_wildcard: bool
    nominates_gated: bool  # a gated pod keeps the room of the nominated node in its status from the beginning

    # Gangs.
    gang_gates: tuple[str, ...]  # feature gates that must all be on for pods to be scheduled with their PodGroup
    pod_group_api: str  # group and version of PodGroups
    pod_group_condition: str  # the condition of a PodGroup that says whether it is scheduled
    queues_pod_groups: bool  # a PodGroup is one entry of the queue; else its pods are queued by themselves

    # Dynamic resource allocation.
    devices: DeviceRules  # how devices are allocated
    empty_taint_selector_matches: bool  # a DeviceTaintRule without a selector applies to all devices
    taint_rules_api: str  # group and version of DeviceTaintRules
    # With claims of PodGroups: PostFilter of one member takes back what is reserved for its group, if nobody else of it
    # has a node; else only PodGroupPostFilter does.
    pods_release_group_claims: bool
    in_flight_until_bound: bool  # allocations are in flight until PreBind has ended, not until they are written
    requeues_at_claim_deletion: bool  # DynamicResources registers for deleted claims
    claim_creation_labels: bool  # the metric of created ResourceClaims names the kind of their owner
    no_claims_reason: str  # of DynamicResources' PostFilter for a pod without claims; "" for none
    claims_kept_reason: str  # the same, for a pod of whose claims none can be deallocated
    # Selectors: attributes of devices may have several values, even without a gate; costs are those of cel-go 0.29.
    selects_by_list_attributes: bool

    # Documents and metrics.
    queue_counts_entities: bool = False  # metrics and dumps of the queue count pods and pod groups as entities
    has_informer_metrics: bool = False
    # Metric -> what its help text begins with, where this is not the stability that the metric was declared with.
    metric_stages: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def has(self, gate: str) -> bool:
        """Return whether a feature gate is on. A gate that the release does not have is off."""
        return any(feature.name == gate and feature.is_on for feature in self.features)

    @property
    def schedules_pod_groups(self) -> bool:
        """Whether pods are scheduled with the PodGroup of scheduling.k8s.io that they name."""
        return all(map(self.has, self.gang_gates))

    @property
    def measures_preemptors(self) -> bool:
        """Whether metrics of preemption distinguish what preempts: a pod, a PodGroup, a composite group."""
        return self.queues_pod_groups and self.schedules_pod_groups

    @property
    def nests_pod_groups(self) -> bool:
        """Whether a PodGroup is scheduled with the composite group that it names, which needs two more gates."""
        gates = "CompositePodGroup", "TopologyAwareWorkloadScheduling", *self.gang_gates
        return all(map(self.has, gates))

    @property
    def has_group_claims(self) -> bool:
        """Whether a PodGroup can have claims of its own, which are reserved for it and not for its pods."""
        return self.has("DRAWorkloadResourceClaims") and self.schedules_pod_groups

    @property
    def counts_node_resources(self) -> bool:
        """Whether cpu, memory and the like that devices stand for, or take of their node, count there."""
        return self.has("DRANodeAllocatableResources")

    @property
    def set_gates(self) -> dict[str, bool]:
        """The feature gates that are not as the release has them by default."""
        defaults = RELEASES[self.version].features
        return {
            each.name: each.is_on
            for each, by_default in zip(self.features, defaults, strict=True)
            if each != by_default
        }

    def with_gates(self, gates: Mapping[str, bool]) -> Release:
        """Return the release with some feature gates set; names that it does not have are ignored."""
        return replace(
            self, features=tuple(each._replace(is_on=gates.get(each.name, each.is_on)) for each in self.features)
        )


RELEASE_1_36 = Release(
    version="1.36",
    features=FEATURES_1_36,
    switchable=SWITCHABLE_1_36,
    gang_gates=("GenericWorkload", "GangScheduling"),
    pod_group_api="scheduling.k8s.io/v1alpha2",
    pod_group_condition="PodGroupScheduled",
    queues_pod_groups=False,
    devices=DEVICE_RULES_1_36,
    empty_taint_selector_matches=True,
    selects_by_list_attributes=False,
    taint_rules_api="resource.k8s.io/v1beta2",
    pods_release_group_claims=True,
    in_flight_until_bound=False,
    requeues_at_claim_deletion=False,
    claim_creation_labels=False,
    no_claims_reason="no new claims to deallocate",
    claims_kept_reason="still not schedulable",
    extension_points=POINTS_1_36,
    points=PLUGINS_1_36,
    plugins=(
        ("SchedulingGates", 0),
        ("PrioritySort", 0),
        ("NodeUnschedulable", 0),
        ("NodeName", 0),
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodePorts", 0),
        ("NodeResourcesFit", 1),
        ("VolumeRestrictions", 0),
        ("NodeVolumeLimits", 0),
        ("VolumeBinding", 0),
        ("VolumeZone", 0),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("DefaultPreemption", 0),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
        ("DefaultBinder", 0),
        ("NodeDeclaredFeatures", 0),
    ),
    counts_image_volumes=False,
    matches_selectors_without_labels=True,
    wakes_by_all_excluding_terms=True,
    infers_bind_mount_options=False,
    sums_resizes_apart=False,
    completes_pod_level_requests=False,
    reports_preemption=False,
    stops_at_overdrawn_budget=False,
    activates_after_waiting_victim=False,
    splits_pod_events=False,
    has_scale_up_event=False,
    adds_taint_event=True,
    adds_unknown_pods=False,
    wakes_gated_by_wildcard=False,
    nominates_gated=False,
)
RELEASE_1_37 = Release(
    version="1.37",
    features=FEATURES_1_37,
    switchable=SWITCHABLE_1_37,
    gang_gates=("GenericWorkload",),
    pod_group_api="scheduling.k8s.io/v1beta1",
    pod_group_condition="PodGroupInitiallyScheduled",
    queues_pod_groups=True,
    devices=DEVICE_RULES_1_37,
    empty_taint_selector_matches=False,
    selects_by_list_attributes=True,
    taint_rules_api="resource.k8s.io/v1",
    pods_release_group_claims=False,
    in_flight_until_bound=True,
    requeues_at_claim_deletion=True,
    claim_creation_labels=True,
    no_claims_reason="",
    claims_kept_reason="",
    extension_points=POINTS_1_37,
    points=PLUGINS_1_37,
    queue_counts_entities=True,
    has_informer_metrics=True,
    metric_stages={
        "scheduler_scheduling_algorithm_duration_seconds": "[BETA]",
        "scheduler_plugin_execution_duration_seconds": "[BETA]",
        "scheduler_preemption_goroutines_duration_seconds": "(Deprecated since 1.37.0) [ALPHA]",
        "scheduler_preemption_goroutines_execution_total": "(Deprecated since 1.37.0) [ALPHA]",
    },
    plugins=(
        ("SchedulingGates", 0),
        ("PrioritySort", 0),
        ("NodeName", 0),
        ("NodeUnschedulable", 0),
        *RELEASE_1_36.plugins[4:],
    ),
    counts_image_volumes=True,
    matches_selectors_without_labels=False,
    wakes_by_all_excluding_terms=False,
    infers_bind_mount_options=True,
    sums_resizes_apart=True,
    completes_pod_level_requests=True,
    reports_preemption=True,
    stops_at_overdrawn_budget=True,
    activates_after_waiting_victim=True,
    splits_pod_events=True,
    has_scale_up_event=True,
    adds_taint_event=False,
    adds_unknown_pods=True,
    wakes_gated_by_wildcard=True,
    nominates_gated=True,
)

RELEASES: Mapping[str, Release] = {release.version: release for release in (RELEASE_1_36, RELEASE_1_37)}  # oldest first
DEFAULT_RELEASE = RELEASE_1_36  # where no apiserver is asked for its version


def release_of(version: str) -> Release:
    """Return the release of a version such as "1.37". Raises ConfigError for one that is not known."""
    if version not in RELEASES:
        raise ConfigError(f'expected one of {", ".join(RELEASES)}, got "{version}"')
    return RELEASES[version]


def release_for(git_version: str) -> Release:
    """Return the newest known release that is not newer than an apiserver; for an older apiserver, the oldest.

    `git_version`: as in the apiserver's /version, such as "v1.36.3" or "v1.37.1-gke.100". Raises ConfigError if it is
    no version.
    """
    chosen = next(iter(RELEASES.values()))
    for release in RELEASES.values():
        if not is_newer(release, git_version):
            chosen = release
    return chosen


def is_newer(release: Release, git_version: str) -> bool:
    """Return whether a release is newer than an apiserver of that version. Raises ConfigError if it is no version."""
    return major_and_minor(release.version) > major_and_minor(git_version)


def major_and_minor(git_version: str) -> tuple[int, int]:
    """Return the first two numbers of a release's or an apiserver's version. Raises ConfigError if it is no version."""
    found = re.match(r"v?(\d{1,9})\.(\d{1,9})", git_version)
    if found is None:
        raise ConfigError(f'expected a version of an apiserver such as "v1.36.3", got "{git_version}"')
    return int(found[1]), int(found[2])
