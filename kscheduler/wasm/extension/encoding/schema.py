"""The protobuf schema of Pod, Node and NodeList: field numbers and kinds, as in Kubernetes' own definitions.

Each line is a message. Each field is `name=number:kind` with its name in JSON; without a name, the message's fields are
inlined in the enclosing JSON object. A mark follows: none for a field that is always written even if it is empty, `?`
for one that may be absent, `*` for a list, `%` for a map from strings. metadata.managedFields is left out, as in
kube-scheduler.

The release is Kubernetes 1.36. Guests skip fields that are newer than they are.
"""

from __future__ import annotations

TABLE = """
AWSElasticBlockStoreVolumeSource: volumeID=1:string fsType=2:string partition=3:int readOnly=4:bool
Affinity: nodeAffinity=1:NodeAffinity? podAffinity=2:PodAffinity? podAntiAffinity=3:PodAntiAffinity?
AppArmorProfile: type=1:string localhostProfile=2:string?
AttachedVolume: name=1:string devicePath=2:string
AzureDiskVolumeSource: diskName=1:string diskURI=2:string cachingMode=3:string? fsType=4:string? readOnly=5:bool?
  kind=6:string?
AzureFileVolumeSource: secretName=1:string shareName=2:string readOnly=3:bool
CSIVolumeSource: driver=1:string readOnly=2:bool? fsType=3:string? volumeAttributes=4:string%
  nodePublishSecretRef=5:LocalObjectReference?
Capabilities: add=1:string* drop=2:string*
CephFSVolumeSource: monitors=1:string* path=2:string user=3:string secretFile=4:string
  secretRef=5:LocalObjectReference? readOnly=6:bool
CinderVolumeSource: volumeID=1:string fsType=2:string readOnly=3:bool secretRef=4:LocalObjectReference?
ClusterTrustBundleProjection: name=1:string? signerName=2:string? labelSelector=3:LabelSelector? path=4:string
  optional=5:bool?
ConfigMapEnvSource: =1:LocalObjectReference optional=2:bool?
ConfigMapKeySelector: =1:LocalObjectReference key=2:string optional=3:bool?
ConfigMapNodeConfigSource: namespace=1:string name=2:string uid=3:string resourceVersion=4:string
  kubeletConfigKey=5:string
ConfigMapProjection: =1:LocalObjectReference items=2:KeyToPath* optional=4:bool?
ConfigMapVolumeSource: =1:LocalObjectReference items=2:KeyToPath* defaultMode=3:int? optional=4:bool?
Container: name=1:string image=2:string command=3:string* args=4:string* workingDir=5:string ports=6:ContainerPort*
  env=7:EnvVar* resources=8:ResourceRequirements volumeMounts=9:VolumeMount* livenessProbe=10:Probe?
  readinessProbe=11:Probe? lifecycle=12:Lifecycle? terminationMessagePath=13:string imagePullPolicy=14:string
  securityContext=15:SecurityContext? stdin=16:bool stdinOnce=17:bool tty=18:bool envFrom=19:EnvFromSource*
  terminationMessagePolicy=20:string volumeDevices=21:VolumeDevice* startupProbe=22:Probe?
  resizePolicy=23:ContainerResizePolicy* restartPolicy=24:string? restartPolicyRules=25:ContainerRestartRule*
ContainerExtendedResourceRequest: containerName=1:string resourceName=2:string requestName=3:string
ContainerImage: names=1:string* sizeBytes=2:int
ContainerPort: name=1:string hostPort=2:int containerPort=3:int protocol=4:string hostIP=5:string
ContainerResizePolicy: resourceName=1:string restartPolicy=2:string
ContainerRestartRule: action=1:string exitCodes=2:ContainerRestartRuleOnExitCodes?
ContainerRestartRuleOnExitCodes: operator=1:string values=2:int*
ContainerState: waiting=1:ContainerStateWaiting? running=2:ContainerStateRunning?
  terminated=3:ContainerStateTerminated?
ContainerStateRunning: startedAt=1:Time
ContainerStateTerminated: exitCode=1:int signal=2:int reason=3:string message=4:string startedAt=5:Time
  finishedAt=6:Time containerID=7:string
ContainerStateWaiting: reason=1:string message=2:string
ContainerStatus: name=1:string state=2:ContainerState lastState=3:ContainerState ready=4:bool restartCount=5:int
  image=6:string imageID=7:string containerID=8:string started=9:bool? allocatedResources=10:Quantity%
  resources=11:ResourceRequirements? volumeMounts=12:VolumeMountStatus* user=13:ContainerUser?
  allocatedResourcesStatus=14:ResourceStatus* stopSignal=15:string?
ContainerUser: linux=1:LinuxContainerUser?
DaemonEndpoint: Port=1:int
DownwardAPIProjection: items=1:DownwardAPIVolumeFile*
DownwardAPIVolumeFile: path=1:string fieldRef=2:ObjectFieldSelector? resourceFieldRef=3:ResourceFieldSelector?
  mode=4:int?
DownwardAPIVolumeSource: items=1:DownwardAPIVolumeFile* defaultMode=2:int?
EmptyDirVolumeSource: medium=1:string sizeLimit=2:Quantity?
EnvFromSource: prefix=1:string configMapRef=2:ConfigMapEnvSource? secretRef=3:SecretEnvSource?
EnvVar: name=1:string value=2:string valueFrom=3:EnvVarSource?
EnvVarSource: fieldRef=1:ObjectFieldSelector? resourceFieldRef=2:ResourceFieldSelector?
  configMapKeyRef=3:ConfigMapKeySelector? secretKeyRef=4:SecretKeySelector? fileKeyRef=5:FileKeySelector?
EphemeralContainer: =1:EphemeralContainerCommon targetContainerName=2:string
EphemeralContainerCommon: name=1:string image=2:string command=3:string* args=4:string* workingDir=5:string
  ports=6:ContainerPort* env=7:EnvVar* resources=8:ResourceRequirements volumeMounts=9:VolumeMount*
  livenessProbe=10:Probe? readinessProbe=11:Probe? lifecycle=12:Lifecycle? terminationMessagePath=13:string
  imagePullPolicy=14:string securityContext=15:SecurityContext? stdin=16:bool stdinOnce=17:bool tty=18:bool
  envFrom=19:EnvFromSource* terminationMessagePolicy=20:string volumeDevices=21:VolumeDevice* startupProbe=22:Probe?
  resizePolicy=23:ContainerResizePolicy* restartPolicy=24:string? restartPolicyRules=25:ContainerRestartRule*
EphemeralVolumeSource: volumeClaimTemplate=1:PersistentVolumeClaimTemplate?
ExecAction: command=1:string*
FCVolumeSource: targetWWNs=1:string* lun=2:int? fsType=3:string readOnly=4:bool wwids=5:string*
FileKeySelector: volumeName=1:string path=2:string key=3:string optional=4:bool?
FlexVolumeSource: driver=1:string fsType=2:string secretRef=3:LocalObjectReference? readOnly=4:bool options=5:string%
FlockerVolumeSource: datasetName=1:string datasetUUID=2:string
GCEPersistentDiskVolumeSource: pdName=1:string fsType=2:string partition=3:int readOnly=4:bool
GRPCAction: port=1:int service=2:string?
GitRepoVolumeSource: repository=1:string revision=2:string directory=3:string
GlusterfsVolumeSource: endpoints=1:string path=2:string readOnly=3:bool
HTTPGetAction: path=1:string port=2:IntOrString host=3:string scheme=4:string httpHeaders=5:HTTPHeader*
HTTPHeader: name=1:string value=2:string
HostAlias: ip=1:string hostnames=2:string*
HostIP: ip=1:string
HostPathVolumeSource: path=1:string type=2:string?
ISCSIVolumeSource: targetPortal=1:string iqn=2:string lun=3:int iscsiInterface=4:string fsType=5:string
  readOnly=6:bool portals=7:string* chapAuthDiscovery=8:bool secretRef=10:LocalObjectReference?
  chapAuthSession=11:bool initiatorName=12:string?
ImageVolumeSource: reference=1:string pullPolicy=2:string
ImageVolumeStatus: imageRef=1:string
KeyToPath: key=1:string path=2:string mode=3:int?
LabelSelector: matchLabels=1:string% matchExpressions=2:LabelSelectorRequirement*
LabelSelectorRequirement: key=1:string operator=2:string values=3:string*
Lifecycle: postStart=1:LifecycleHandler? preStop=2:LifecycleHandler? stopSignal=3:string?
LifecycleHandler: exec=1:ExecAction? httpGet=2:HTTPGetAction? tcpSocket=3:TCPSocketAction? sleep=4:SleepAction?
LinuxContainerUser: uid=1:int gid=2:int supplementalGroups=3:int*
ListMeta: selfLink=1:string resourceVersion=2:string continue=3:string remainingItemCount=4:int?
  shardInfo=5:ShardInfo?
LocalObjectReference: name=1:string
NFSVolumeSource: server=1:string path=2:string readOnly=3:bool
Node: metadata=1:ObjectMeta spec=2:NodeSpec status=3:NodeStatus
NodeAddress: type=1:string address=2:string
NodeAffinity: requiredDuringSchedulingIgnoredDuringExecution=1:NodeSelector?
  preferredDuringSchedulingIgnoredDuringExecution=2:PreferredSchedulingTerm*
NodeAllocatableResourceClaimStatus: resourceClaimName=1:string containers=2:string* resources=3:Quantity%
NodeCondition: type=1:string status=2:string lastHeartbeatTime=3:Time lastTransitionTime=4:Time reason=5:string
  message=6:string
NodeConfigSource: configMap=2:ConfigMapNodeConfigSource?
NodeConfigStatus: assigned=1:NodeConfigSource? active=2:NodeConfigSource? lastKnownGood=3:NodeConfigSource?
  error=4:string
NodeDaemonEndpoints: kubeletEndpoint=1:DaemonEndpoint
NodeFeatures: supplementalGroupsPolicy=1:bool?
NodeList: metadata=1:ListMeta items=2:Node*
NodeRuntimeHandler: name=1:string features=2:NodeRuntimeHandlerFeatures?
NodeRuntimeHandlerFeatures: recursiveReadOnlyMounts=1:bool? userNamespaces=2:bool?
NodeSelector: nodeSelectorTerms=1:NodeSelectorTerm*
NodeSelectorRequirement: key=1:string operator=2:string values=3:string*
NodeSelectorTerm: matchExpressions=1:NodeSelectorRequirement* matchFields=2:NodeSelectorRequirement*
NodeSpec: podCIDR=1:string externalID=2:string providerID=3:string unschedulable=4:bool taints=5:Taint*
  configSource=6:NodeConfigSource? podCIDRs=7:string*
NodeStatus: capacity=1:Quantity% allocatable=2:Quantity% phase=3:string conditions=4:NodeCondition*
  addresses=5:NodeAddress* daemonEndpoints=6:NodeDaemonEndpoints nodeInfo=7:NodeSystemInfo images=8:ContainerImage*
  volumesInUse=9:string* volumesAttached=10:AttachedVolume* config=11:NodeConfigStatus?
  runtimeHandlers=12:NodeRuntimeHandler* features=13:NodeFeatures? declaredFeatures=14:string*
NodeSwapStatus: capacity=1:int?
NodeSystemInfo: machineID=1:string systemUUID=2:string bootID=3:string kernelVersion=4:string osImage=5:string
  containerRuntimeVersion=6:string kubeletVersion=7:string kubeProxyVersion=8:string operatingSystem=9:string
  architecture=10:string swap=11:NodeSwapStatus?
ObjectFieldSelector: apiVersion=1:string fieldPath=2:string
ObjectMeta: name=1:string generateName=2:string namespace=3:string selfLink=4:string uid=5:string
  resourceVersion=6:string generation=7:int creationTimestamp=8:Time deletionTimestamp=9:Time?
  deletionGracePeriodSeconds=10:int? labels=11:string% annotations=12:string% ownerReferences=13:OwnerReference*
  finalizers=14:string*
OwnerReference: kind=1:string name=3:string uid=4:string apiVersion=5:string controller=6:bool?
  blockOwnerDeletion=7:bool?
PersistentVolumeClaimSpec: accessModes=1:string* resources=2:VolumeResourceRequirements volumeName=3:string
  selector=4:LabelSelector? storageClassName=5:string? volumeMode=6:string? dataSource=7:TypedLocalObjectReference?
  dataSourceRef=8:TypedObjectReference? volumeAttributesClassName=9:string?
PersistentVolumeClaimTemplate: metadata=1:ObjectMeta spec=2:PersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource: claimName=1:string readOnly=2:bool
PhotonPersistentDiskVolumeSource: pdID=1:string fsType=2:string
Pod: metadata=1:ObjectMeta spec=2:PodSpec status=3:PodStatus
PodAffinity: requiredDuringSchedulingIgnoredDuringExecution=1:PodAffinityTerm*
  preferredDuringSchedulingIgnoredDuringExecution=2:WeightedPodAffinityTerm*
PodAffinityTerm: labelSelector=1:LabelSelector? namespaces=2:string* topologyKey=3:string
  namespaceSelector=4:LabelSelector? matchLabelKeys=5:string* mismatchLabelKeys=6:string*
PodAntiAffinity: requiredDuringSchedulingIgnoredDuringExecution=1:PodAffinityTerm*
  preferredDuringSchedulingIgnoredDuringExecution=2:WeightedPodAffinityTerm*
PodCertificateProjection: signerName=1:string keyType=2:string maxExpirationSeconds=3:int?
  credentialBundlePath=4:string keyPath=5:string certificateChainPath=6:string userAnnotations=7:string%
PodCondition: type=1:string status=2:string lastProbeTime=3:Time lastTransitionTime=4:Time reason=5:string
  message=6:string observedGeneration=7:int
PodDNSConfig: nameservers=1:string* searches=2:string* options=3:PodDNSConfigOption*
PodDNSConfigOption: name=1:string value=2:string?
PodExtendedResourceClaimStatus: requestMappings=1:ContainerExtendedResourceRequest* resourceClaimName=2:string
PodIP: ip=1:string
PodOS: name=1:string
PodReadinessGate: conditionType=1:string
PodResourceClaim: name=1:string resourceClaimName=3:string? resourceClaimTemplateName=4:string?
PodResourceClaimStatus: name=1:string resourceClaimName=2:string?
PodSchedulingGate: name=1:string
PodSchedulingGroup: podGroupName=1:string?
PodSecurityContext: seLinuxOptions=1:SELinuxOptions? runAsUser=2:int? runAsNonRoot=3:bool? supplementalGroups=4:int*
  fsGroup=5:int? runAsGroup=6:int? sysctls=7:Sysctl* windowsOptions=8:WindowsSecurityContextOptions?
  fsGroupChangePolicy=9:string? seccompProfile=10:SeccompProfile? appArmorProfile=11:AppArmorProfile?
  supplementalGroupsPolicy=12:string? seLinuxChangePolicy=13:string?
PodSpec: volumes=1:Volume* containers=2:Container* restartPolicy=3:string terminationGracePeriodSeconds=4:int?
  activeDeadlineSeconds=5:int? dnsPolicy=6:string nodeSelector=7:string% serviceAccountName=8:string
  serviceAccount=9:string nodeName=10:string hostNetwork=11:bool hostPID=12:bool hostIPC=13:bool
  securityContext=14:PodSecurityContext? imagePullSecrets=15:LocalObjectReference* hostname=16:string
  subdomain=17:string affinity=18:Affinity? schedulerName=19:string initContainers=20:Container*
  automountServiceAccountToken=21:bool? tolerations=22:Toleration* hostAliases=23:HostAlias*
  priorityClassName=24:string priority=25:int? dnsConfig=26:PodDNSConfig? shareProcessNamespace=27:bool?
  readinessGates=28:PodReadinessGate* runtimeClassName=29:string? enableServiceLinks=30:bool?
  preemptionPolicy=31:string? overhead=32:Quantity% topologySpreadConstraints=33:TopologySpreadConstraint*
  ephemeralContainers=34:EphemeralContainer* setHostnameAsFQDN=35:bool? os=36:PodOS? hostUsers=37:bool?
  schedulingGates=38:PodSchedulingGate* resourceClaims=39:PodResourceClaim* resources=40:ResourceRequirements?
  hostnameOverride=41:string? schedulingGroup=43:PodSchedulingGroup?
PodStatus: phase=1:string conditions=2:PodCondition* message=3:string reason=4:string hostIP=5:string podIP=6:string
  startTime=7:Time? containerStatuses=8:ContainerStatus* qosClass=9:string initContainerStatuses=10:ContainerStatus*
  nominatedNodeName=11:string podIPs=12:PodIP* ephemeralContainerStatuses=13:ContainerStatus* resize=14:string
  resourceClaimStatuses=15:PodResourceClaimStatus* hostIPs=16:HostIP* observedGeneration=17:int
  extendedResourceClaimStatus=18:PodExtendedResourceClaimStatus? allocatedResources=19:Quantity%
  resources=20:ResourceRequirements? nodeAllocatableResourceClaimStatuses=21:NodeAllocatableResourceClaimStatus*
PortworxVolumeSource: volumeID=1:string fsType=2:string readOnly=3:bool
PreferredSchedulingTerm: weight=1:int preference=2:NodeSelectorTerm
Probe: =1:ProbeHandler initialDelaySeconds=2:int timeoutSeconds=3:int periodSeconds=4:int successThreshold=5:int
  failureThreshold=6:int terminationGracePeriodSeconds=7:int?
ProbeHandler: exec=1:ExecAction? httpGet=2:HTTPGetAction? tcpSocket=3:TCPSocketAction? grpc=4:GRPCAction?
ProjectedVolumeSource: sources=1:VolumeProjection* defaultMode=2:int?
QuobyteVolumeSource: registry=1:string volume=2:string readOnly=3:bool user=4:string group=5:string tenant=6:string
RBDVolumeSource: monitors=1:string* image=2:string fsType=3:string pool=4:string user=5:string keyring=6:string
  secretRef=7:LocalObjectReference? readOnly=8:bool
ResourceClaim: name=1:string request=2:string
ResourceFieldSelector: containerName=1:string resource=2:string divisor=3:Quantity
ResourceHealth: resourceID=1:string health=2:string message=6:string?
ResourceRequirements: limits=1:Quantity% requests=2:Quantity% claims=3:ResourceClaim*
ResourceStatus: name=1:string resources=2:ResourceHealth*
SELinuxOptions: user=1:string role=2:string type=3:string level=4:string
ScaleIOVolumeSource: gateway=1:string system=2:string secretRef=3:LocalObjectReference? sslEnabled=4:bool
  protectionDomain=5:string storagePool=6:string storageMode=7:string volumeName=8:string fsType=9:string
  readOnly=10:bool
SeccompProfile: type=1:string localhostProfile=2:string?
SecretEnvSource: =1:LocalObjectReference optional=2:bool?
SecretKeySelector: =1:LocalObjectReference key=2:string optional=3:bool?
SecretProjection: =1:LocalObjectReference items=2:KeyToPath* optional=4:bool?
SecretVolumeSource: secretName=1:string items=2:KeyToPath* defaultMode=3:int? optional=4:bool?
SecurityContext: capabilities=1:Capabilities? privileged=2:bool? seLinuxOptions=3:SELinuxOptions? runAsUser=4:int?
  runAsNonRoot=5:bool? readOnlyRootFilesystem=6:bool? allowPrivilegeEscalation=7:bool? runAsGroup=8:int?
  procMount=9:string? windowsOptions=10:WindowsSecurityContextOptions? seccompProfile=11:SeccompProfile?
  appArmorProfile=12:AppArmorProfile?
ServiceAccountTokenProjection: audience=1:string expirationSeconds=2:int? path=3:string
ShardInfo: selector=1:string
SleepAction: seconds=1:int
StorageOSVolumeSource: volumeName=1:string volumeNamespace=2:string fsType=3:string readOnly=4:bool
  secretRef=5:LocalObjectReference?
Sysctl: name=1:string value=2:string
TCPSocketAction: port=1:IntOrString host=2:string
Taint: key=1:string value=2:string effect=3:string timeAdded=4:Time?
Toleration: key=1:string operator=2:string value=3:string effect=4:string tolerationSeconds=5:int?
TopologySpreadConstraint: maxSkew=1:int topologyKey=2:string whenUnsatisfiable=3:string labelSelector=4:LabelSelector?
  minDomains=5:int? nodeAffinityPolicy=6:string? nodeTaintsPolicy=7:string? matchLabelKeys=8:string*
TypedLocalObjectReference: apiGroup=1:string? kind=2:string name=3:string
TypedObjectReference: apiGroup=1:string? kind=2:string name=3:string namespace=4:string?
Volume: name=1:string =2:VolumeSource
VolumeDevice: name=1:string devicePath=2:string
VolumeMount: name=1:string readOnly=2:bool mountPath=3:string subPath=4:string mountPropagation=5:string?
  subPathExpr=6:string recursiveReadOnly=7:string?
VolumeMountStatus: name=1:string mountPath=2:string readOnly=3:bool recursiveReadOnly=4:string?
  volumeStatus=5:VolumeStatus?
VolumeProjection: secret=1:SecretProjection? downwardAPI=2:DownwardAPIProjection? configMap=3:ConfigMapProjection?
  serviceAccountToken=4:ServiceAccountTokenProjection? clusterTrustBundle=5:ClusterTrustBundleProjection?
  podCertificate=6:PodCertificateProjection?
VolumeResourceRequirements: limits=1:Quantity% requests=2:Quantity%
VolumeSource: hostPath=1:HostPathVolumeSource? emptyDir=2:EmptyDirVolumeSource?
  gcePersistentDisk=3:GCEPersistentDiskVolumeSource? awsElasticBlockStore=4:AWSElasticBlockStoreVolumeSource?
  gitRepo=5:GitRepoVolumeSource? secret=6:SecretVolumeSource? nfs=7:NFSVolumeSource? iscsi=8:ISCSIVolumeSource?
  glusterfs=9:GlusterfsVolumeSource? persistentVolumeClaim=10:PersistentVolumeClaimVolumeSource?
  rbd=11:RBDVolumeSource? flexVolume=12:FlexVolumeSource? cinder=13:CinderVolumeSource? cephfs=14:CephFSVolumeSource?
  flocker=15:FlockerVolumeSource? downwardAPI=16:DownwardAPIVolumeSource? fc=17:FCVolumeSource?
  azureFile=18:AzureFileVolumeSource? configMap=19:ConfigMapVolumeSource?
  vsphereVolume=20:VsphereVirtualDiskVolumeSource? quobyte=21:QuobyteVolumeSource? azureDisk=22:AzureDiskVolumeSource?
  photonPersistentDisk=23:PhotonPersistentDiskVolumeSource? portworxVolume=24:PortworxVolumeSource?
  scaleIO=25:ScaleIOVolumeSource? projected=26:ProjectedVolumeSource? storageos=27:StorageOSVolumeSource?
  csi=28:CSIVolumeSource? ephemeral=29:EphemeralVolumeSource? image=30:ImageVolumeSource?
VolumeStatus: image=1:ImageVolumeStatus?
VsphereVirtualDiskVolumeSource: volumePath=1:string fsType=2:string storagePolicyName=3:string
  storagePolicyID=4:string
WeightedPodAffinityTerm: weight=1:int podAffinityTerm=2:PodAffinityTerm
WindowsSecurityContextOptions: gmsaCredentialSpecName=1:string? gmsaCredentialSpec=2:string? runAsUserName=3:string?
  hostProcess=4:bool?
"""
