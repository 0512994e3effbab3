"""All feature gates that kube-scheduler knows, by release: stage, default, and whether the default is locked.

Most of them are of other parts of Kubernetes; kube-scheduler accepts them all, so that one value of --feature-gates can
be given to every part of a control plane.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kscheduler.config.feature_gates import ALPHA, BETA, GA

DEPRECATED: Final = "DEPRECATED"


class KnownGate(NamedTuple):
    """A feature gate in one release of Kubernetes."""

    stage: str
    is_on: bool  # by default
    is_locked: bool  # the default cannot be changed


def known_gates(version: str) -> dict[str, KnownGate]:
    """Return the gates of a release such as "1.37" by name, without AllAlpha and AllBeta. Raises ValueError."""
    column = _RELEASES.index(version)
    return {name: gate for name, gates in _read() if (gate := gates[column]) is not None}


def _read() -> list[tuple[str, list[KnownGate | None]]]:
    rows: list[tuple[str, list[KnownGate | None]]] = []
    gates: list[KnownGate | None] = []
    for word in _TABLE.split():
        if word.endswith(":") or word in _CODES:
            if len(gates) == len(_RELEASES):
                gates = []
            gates.append(_CODES[word.removesuffix(":")])
        else:
            rows.append((word, gates))
    return rows


_STAGES = {"a": ALPHA, "b": BETA, "g": GA, "d": DEPRECATED}
_CODES: dict[str, KnownGate | None] = {"absent": None} | {
    f"{letter}{sign}{lock}": KnownGate(stage, sign == "+", lock == "!")
    for letter, stage in _STAGES.items()
    for sign in "+-"
    for lock in ("", "!")
}
_RELEASES = ("1.36", "1.37")
# A code for each release, then the names of the gates it is true of. A code is the first letter of the stage, "+" or
# "-" for on or off by default, and "!" for a locked default; or the word "absent".
_TABLE = """
absent a-: APIServerWebhookAuthenticationToken AtomicWriteVolumeUserFields CompositePodGroup
  ConsistentListFromCacheSkipTimeoutFallback DRADerivedAttributes DRADeviceCompatibilityGroups
  DRAOptionalNodeOperations DRAPartitionableDevicesType DefaultPodSysctls EmptyDirVolumeMode EvictionRequestAPI
  GRPCContainerProbeTLS H2CContainerProbe InPlacePodVerticalScalingMemoryBackedVolumes
  InPlacePodVerticalScalingSchedulerPreemption InterPodAffinityHostnameFastPath KubeProxyNFTablesLocalhostNodePorts
  KubeletAllocatedPodsEndpoint NodeLifecycleConditions PodGroupPreemptionPolicy SchedulerPreQueueingHints
  StatefulSetRecreateStrategy VolumeBindMountOptions
absent b+: EtcdRangeStream ExcludeAdmissionWebhookVirtualResources HPAGeneration HPAOptimizedSelectorStore
  HugepageAwareEviction NFTablesNetlink NodeControllerLeaseCircuitBreaker PodLevelResourcesFixDefaulting
  PodLevelResourcesFixKubeletQOSClass StaleControllerConsistencyHPA WatchListCompression
  WebhookRoundTripLoadBalancing
absent b-: DRAFractionalCapacityRange
absent d+: KubeProxyIPVS
a- absent: GangScheduling WorkloadAwarePreemption
a- a-: APIServingWithRoutine CBORServingAndStorage CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth
  ClientsAllowCBOR ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation
  CloudControllerManagerWebhook ContainerStopSignals CrossNamespaceVolumeDataSource DRAListTypeAttributes
  DRANodeAllocatableResources DRAResourcePoolStatus EventedPLEG ImageVolumeWithDigest
  InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory LoggingAlphaOptions
  MutablePVNodeAffinity PodLogsQuerySplitStreams QOSReserved ReduceDefaultCrashLoopBackOffDecay
  RuntimeClassInImageCriApi ShardedListAndWatch StorageVersionAPI TaintTolerationComparisonOperators
  TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport
  WindowsCPUAndMemoryAffinity WorkloadWithJob
a- b+: AllowUnsafeMalformedObjectDeletion HPAScaleToZero KubeletInUserNamespace ManifestBasedAdmissionControlConfig
  MemoryQoS NativeHistograms PersistentVolumeClaimUnusedSinceTime PodsAPI StorageCapacityScoring VolumeLimitScaling
a- b-: DRAWorkloadResourceClaims GenericWorkload PodAndContainerStatsFromCRI PodLevelResourceManagers
b+ absent: PreventStaticPodAPIReferences
b+ b+: APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO
  AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions CRDObservedGenerationTracking
  ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz
  ComponentStatusz ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContextualLogging
  DRAConsumableCapacity DRADeviceBindingConditions DRAPartitionableDevices
  DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout DeclarativeValidationBeta
  DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency EnvFiles ExtendWebSocketsToKubelet
  GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority InOrderInformersBatchProcess
  InPlacePodLevelResourcesVerticalScaling KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
  KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot LoggingBetaOptions
  MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
  MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs NominatedNodeNameForExpectation
  OpenAPIEnums OpportunisticBatching PodDeletionCost PodLevelResources PodTopologyLabelsAdmission
  PortForwardWebsockets ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile RemoteRequestHeaderUID
  ResourceHealthStatus ResourceHealthStatusMessage RestartAllContainersOnContainerExits
  RotateKubeletServerCertificate SchedulerAsyncPreemption SchedulerPopFromBackoffQ
  ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate StaleControllerConsistencyDaemonSet
  StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
  StatefulSetSemanticRevisionComparison StorageVersionHash StrictIPCIDRValidation
  StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
  TokenRequestServiceAccountUIDValidation TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests
  UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO WatchList
  WatchListClient WindowsGracefulNodeShutdown
b+ g+: DRADeviceTaints
b+ g+!: DRAExtendedResource DRAResourceClaimDeviceStatus HPAConfigurableTolerance HostnameOverride
  InPlacePodVerticalScalingInitContainers NodeDeclaredFeatures PLEGOnDemandRelist PodReadyToStartContainersCondition
  RelaxedServiceNameValidation WatchCacheInitializationPostStartHook
b- b+: ConcurrentWatchObjectDecode MaxUnavailableStatefulSet
b- b-: CoordinatedLeaderElection LocalStorageCapacityIsolationFSQuotaMonitoring SchedulerAsyncAPICalls
b- g+: ClusterTrustBundle ClusterTrustBundleProjection DRADeviceTaintRules PodCertificateRequest SELinuxMount
  StorageVersionMigrator
d+ d+: KubeletPodResourcesListUseActivePods ServiceCIDRStatusFieldWiping StorageNamespaceIndex
d+ d+!: DisableCPUQuotaWithExclusiveCPUs
d+! d+!: AggregatedDiscoveryRemoveBetaType DisableNodeKubeProxyVersion
d- d-: AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests ChangeContainerStatusOnKubeletRestart
  KMSv1 KubeletRegistrationGetOnExistsOnly WindowsHostNetwork
d- d-!: DeclarativeValidationTakeover
d-! d-!: AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver SeparateCacheWatchRPC
g+ g+: AllowServiceExternalIPs CustomCPUCFSQuotaPeriod InformerResourceVersion MutatingAdmissionPolicy
g+ g+!: DRAPrioritizedList
g+! absent: APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors
  AuthorizeWithSelectors BtreeWatchCache ConsistentListFromCache JobBackoffLimitPerIndex JobPodReplacementPolicy
  JobSuccessPolicy LogarithmicScaleDown OrderedNamespaceDeletion PodLifecycleSleepAction
  PodLifecycleSleepActionAllowZero RelaxedDNSSearchValidation ResilientWatchCacheInitialization RetryGenerateName
  SchedulerQueueingHints SidecarContainers StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf
  StructuredAuthenticationConfiguration
g+! g+!: CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets CustomResourceFieldSelectors
  DRAAdminAccess DeclarativeValidation DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout
  ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume InOrderInformers InPlacePodVerticalScaling
  JobManagedBy KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources
  KubeletPodResourcesGet KubeletTracing MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator
  MutableCSINodeAllocatableCount NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap
  PodObservedGenerationTracking PodSchedulingReadiness PreferSameTrafficDistribution ProcMountType
  RecoverVolumeExpansionFailure RecursiveReadOnlyMounts RelaxedEnvironmentVariableValidation SELinuxChangePolicy
  SELinuxMountReadWriteOncePod SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
  ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SupplementalGroupsPolicy SystemdWatchdog
  TopologyManagerPolicyOptions UserNamespacesSupport VolumeAttributesClass WinDSR WinOverlay
"""
