"""The feature gates that kube-scheduler 1.36's scheduling code reads, and whether kscheduler implements them.

Names and stages are those of `kubernetes_feature_enabled` on kube-scheduler's /metrics. `is_on` differs from
kube-scheduler's default for dynamic resource allocation, because pods that need it are refused here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

GA: Final = ""  # how component-base writes the stage of a feature that is generally available
BETA: Final = "BETA"
ALPHA: Final = "ALPHA"


class FeatureGate(NamedTuple):
    """A feature gate, its stage in Kubernetes 1.36, and whether its behaviour is implemented and enabled."""

    name: str
    stage: str
    is_on: bool


FEATURE_GATES: Final = (
    FeatureGate("DRAAdminAccess", GA, False),
    FeatureGate("DRAConsumableCapacity", BETA, False),
    FeatureGate("DRADeviceBindingConditions", BETA, False),
    FeatureGate("DRADeviceTaintRules", BETA, False),
    FeatureGate("DRADeviceTaints", BETA, False),
    FeatureGate("DRAExtendedResource", BETA, False),
    FeatureGate("DRAListTypeAttributes", ALPHA, False),
    FeatureGate("DRANodeAllocatableResources", ALPHA, False),
    FeatureGate("DRAPartitionableDevices", BETA, False),
    FeatureGate("DRAPrioritizedList", GA, False),
    FeatureGate("DRAResourceClaimDeviceStatus", BETA, False),
    FeatureGate("DRASchedulerFilterTimeout", BETA, False),
    FeatureGate("DRAWorkloadResourceClaims", ALPHA, False),
    FeatureGate("DynamicResourceAllocation", GA, False),
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
