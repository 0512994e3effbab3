"""The feature gates that depend on others, which must be on if they are: kube-scheduler refuses to start otherwise.

As in pkg/features/kube_features.go of Kubernetes 1.36 and 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


def unmet_dependencies(is_on: Mapping[str, bool], version: str) -> list[str]:
    """Return a fault, in kube-scheduler's words, for each gate that is on while some that it depends on are off.

    `is_on`: all gates of the release. A gate that the release does not have is not asked for.
    """
    faults = []
    for gate in sorted(DEPENDENCIES):
        if not is_on.get(gate, False) or version in _INDEPENDENT.get(gate, ()):
            continue
        off = [name for name in DEPENDENCIES[gate] if not is_on.get(name, True)]
        if off:
            faults.append(f"{gate} is enabled, but depends on features that are disabled: [{' '.join(off)}]")
    return faults


def _read(table: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for paragraph in table.strip().split("\n\n"):
        words = paragraph.split()
        at = words.index("need")
        found |= dict.fromkeys(words[:at], tuple(words[at + 1 :]))
    return found


# Releases in which a gate depends on nothing yet, though the others are there.
_INDEPENDENT: Final[Mapping[str, tuple[str, ...]]] = {"EventedPLEG": ("1.36",)}
DEPENDENCIES: Final[Mapping[str, tuple[str, ...]]] = _read("""
StorageVersionAPI UnknownVersionInteroperabilityProxy need APIServerIdentity

NodeControllerLeaseCircuitBreaker StaleControllerConsistencyDaemonSet StaleControllerConsistencyHPA
StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
need AtomicFIFO

PodCertificateRequest need AuthorizeNodeWithSelectors

AuthorizeNodeWithSelectors need AuthorizeWithSelectors

ClusterTrustBundleProjection need ClusterTrustBundle

RestartAllContainersOnContainerExits need ContainerRestartRules NodeDeclaredFeatures

DRAFractionalCapacityRange need DRAConsumableCapacity

DRADeviceTaintRules need DRADeviceTaints

DRADeviceCompatibilityGroups need DRAPartitionableDevices DynamicResourceAllocation

DRAPartitionableDevicesType need DRAPartitionableDevices DRAResourcePoolStatus DynamicResourceAllocation

DRADeviceBindingConditions DRAResourceClaimGranularStatusAuthorization
need DRAResourceClaimDeviceStatus DynamicResourceAllocation

DeclarativeValidationBeta DeclarativeValidationTakeover need DeclarativeValidation

DRAAdminAccess DRAConsumableCapacity DRADerivedAttributes DRADeviceTaints DRAExtendedResource DRAListTypeAttributes
DRANodeAllocatableResources DRAPartitionableDevices DRAPrioritizedList DRAResourcePoolStatus
DRASchedulerFilterTimeout ResourceHealthStatus need DynamicResourceAllocation

DRAWorkloadResourceClaims need DynamicResourceAllocation GenericWorkload

DRAOptionalNodeOperations need DynamicResourceAllocation NodeDeclaredFeatures

WorkloadAwarePreemption need GangScheduling

GangScheduling PodGroupPreemptionPolicy TopologyAwareWorkloadScheduling WorkloadWithJob need GenericWorkload

CompositePodGroup need GenericWorkload TopologyAwareWorkloadScheduling

GracefulNodeShutdownBasedOnPodPriority WindowsGracefulNodeShutdown need GracefulNodeShutdown

ImageVolumeWithDigest need ImageVolume

InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
InPlacePodVerticalScalingSchedulerPreemption KubeletAllocatedPodsEndpoint need InPlacePodVerticalScaling

InPlacePodVerticalScalingInitContainers InPlacePodVerticalScalingMemoryBackedVolumes
need InPlacePodVerticalScaling NodeDeclaredFeatures

InPlacePodLevelResourcesVerticalScaling need InPlacePodVerticalScaling NodeDeclaredFeatures PodLevelResources

MatchLabelKeysInPodTopologySpreadSelectorMerge need MatchLabelKeysInPodTopologySpread

DisableAllocatorDualWrite need MultiCIDRServiceAllocator

ExtendWebSocketsToKubelet H2CContainerProbe need NodeDeclaredFeatures

UserNamespacesHostNetworkSupport need NodeDeclaredFeatures UserNamespacesSupport

EventedPLEG need PLEGOnDemandRelist

PodLevelResourceManagers PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass need PodLevelResources

PodLifecycleSleepActionAllowZero need PodLifecycleSleepAction

ResourceHealthStatusMessage need ResourceHealthStatus

ServiceAccountTokenNodeBinding need ServiceAccountTokenNodeBindingValidation

StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
need StructuredAuthenticationConfiguration

ProcMountType need UserNamespacesSupport
""")
