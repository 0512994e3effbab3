"""The feature gates that kube-scheduler's scheduling code reads, by release, and whether kscheduler implements them.

Names, stages and defaults are those of `kubernetes_feature_enabled` on kube-scheduler's /metrics.
"""

from __future__ import annotations

from typing import Final, NamedTuple

GA: Final = ""  # how component-base writes the stage of a feature that is generally available
BETA: Final = "BETA"
ALPHA: Final = "ALPHA"


# Gates whose behaviour is implemented for both settings: --feature-gates switches them.
_SWITCHABLE: Final = {
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAWorkloadResourceClaims",
    "GenericWorkload",
    "StorageCapacityScoring",
    "TopologyAwareWorkloadScheduling",
    "VolumeLimitScaling",
}
SWITCHABLE_1_36: Final = frozenset(_SWITCHABLE | {"DRADeviceTaintRules", "GangScheduling", "WorkloadAwarePreemption"})
SWITCHABLE_1_37: Final = frozenset(
    _SWITCHABLE
    | {
        "CompositePodGroup",
        "DRADerivedAttributes",
        "DRADeviceCompatibilityGroups",
        "DRAFractionalCapacityRange",
        "DRAOptionalNodeOperations",
        "PodGroupPreemptionPolicy",
    }
)


class FeatureGate(NamedTuple):
    """A feature gate, its stage in one release of Kubernetes, and whether its behaviour is implemented and enabled."""

    name: str
    stage: str
    is_on: bool


FEATURES_1_36: Final = (
    FeatureGate("DRAAdminAccess", GA, True),
    FeatureGate("DRAConsumableCapacity", BETA, True),
    FeatureGate("DRADeviceBindingConditions", BETA, True),
    FeatureGate("DRADeviceTaintRules", BETA, False),
    FeatureGate("DRADeviceTaints", BETA, True),
    FeatureGate("DRAExtendedResource", BETA, True),
    FeatureGate("DRAListTypeAttributes", ALPHA, False),
    FeatureGate("DRANodeAllocatableResources", ALPHA, False),
    FeatureGate("DRAPartitionableDevices", BETA, True),
    FeatureGate("DRAPrioritizedList", GA, True),
    FeatureGate("DRAResourceClaimDeviceStatus", BETA, True),
    FeatureGate("DRASchedulerFilterTimeout", BETA, True),
    FeatureGate("DRAWorkloadResourceClaims", ALPHA, False),
    FeatureGate("DynamicResourceAllocation", GA, True),
    FeatureGate("GangScheduling", ALPHA, False),
    FeatureGate("GenericWorkload", ALPHA, False),
    FeatureGate("InPlacePodLevelResourcesVerticalScaling", BETA, True),
    FeatureGate("InPlacePodVerticalScaling", GA, True),
    FeatureGate("MatchLabelKeysInPodTopologySpread", BETA, True),
    FeatureGate("NodeDeclaredFeatures", BETA, True),
    FeatureGate("NodeInclusionPolicyInPodTopologySpread", GA, True),
    FeatureGate("NominatedNodeNameForExpectation", BETA, True),
    FeatureGate("OpportunisticBatching", BETA, True),
    FeatureGate("PodLevelResources", BETA, True),
    FeatureGate("SchedulerAsyncAPICalls", BETA, False),
    FeatureGate("SchedulerAsyncPreemption", BETA, True),
    FeatureGate("SchedulerPopFromBackoffQ", BETA, True),
    FeatureGate("SchedulerQueueingHints", GA, True),
    FeatureGate("SidecarContainers", GA, True),
    FeatureGate("StorageCapacityScoring", ALPHA, False),
    FeatureGate("TaintTolerationComparisonOperators", ALPHA, False),
    FeatureGate("TopologyAwareWorkloadScheduling", ALPHA, False),
    FeatureGate("VolumeAttributesClass", GA, True),
    FeatureGate("VolumeLimitScaling", ALPHA, False),
    FeatureGate("WorkloadAwarePreemption", ALPHA, False),
)

FEATURES_1_37: Final = (
    FeatureGate("CompositePodGroup", ALPHA, False),
    FeatureGate("DRAAdminAccess", GA, True),
    FeatureGate("DRAConsumableCapacity", BETA, True),
    FeatureGate("DRADerivedAttributes", ALPHA, False),
    FeatureGate("DRADeviceBindingConditions", BETA, True),
    FeatureGate("DRADeviceCompatibilityGroups", ALPHA, False),
    FeatureGate("DRADeviceTaintRules", GA, True),
    FeatureGate("DRADeviceTaints", GA, True),
    FeatureGate("DRAExtendedResource", GA, True),
    FeatureGate("DRAFractionalCapacityRange", BETA, False),
    FeatureGate("DRAListTypeAttributes", ALPHA, False),
    FeatureGate("DRANodeAllocatableResources", ALPHA, False),
    FeatureGate("DRAOptionalNodeOperations", ALPHA, False),
    FeatureGate("DRAPartitionableDevices", BETA, True),
    FeatureGate("DRAPartitionableDevicesType", ALPHA, False),
    FeatureGate("DRAPrioritizedList", GA, True),
    FeatureGate("DRAResourceClaimDeviceStatus", GA, True),
    FeatureGate("DRASchedulerFilterTimeout", BETA, True),
    FeatureGate("DRAWorkloadResourceClaims", BETA, False),
    FeatureGate("DynamicResourceAllocation", GA, True),
    FeatureGate("GenericWorkload", BETA, False),
    FeatureGate("InPlacePodLevelResourcesVerticalScaling", BETA, True),
    FeatureGate("InPlacePodVerticalScaling", GA, True),
    FeatureGate("InPlacePodVerticalScalingSchedulerPreemption", ALPHA, False),
    FeatureGate("InterPodAffinityHostnameFastPath", ALPHA, False),
    FeatureGate("MatchLabelKeysInPodTopologySpread", BETA, True),
    FeatureGate("NodeDeclaredFeatures", GA, True),
    FeatureGate("NodeInclusionPolicyInPodTopologySpread", GA, True),
    FeatureGate("NominatedNodeNameForExpectation", BETA, True),
    FeatureGate("OpportunisticBatching", BETA, True),
    FeatureGate("PodGroupPreemptionPolicy", ALPHA, False),
    FeatureGate("PodLevelResources", BETA, True),
    FeatureGate("SchedulerAsyncAPICalls", BETA, False),
    FeatureGate("SchedulerAsyncPreemption", BETA, True),
    FeatureGate("SchedulerPopFromBackoffQ", BETA, True),
    FeatureGate("SchedulerPreQueueingHints", ALPHA, False),
    FeatureGate("StorageCapacityScoring", BETA, True),
    FeatureGate("TaintTolerationComparisonOperators", ALPHA, False),
    FeatureGate("TopologyAwareWorkloadScheduling", ALPHA, False),
    FeatureGate("VolumeAttributesClass", GA, True),
    FeatureGate("VolumeLimitScaling", BETA, True),
)
