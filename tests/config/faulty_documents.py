"""Configurations with one fault each, and how it is named."""

from __future__ import annotations

GENERAL: dict[str, tuple[str, str]] = {  # case -> body, message
    "parallelism": (
        "parallelism: 0",
        "parallelism: Invalid value: 0: should be an integer value greater than zero",
    ),
    "lock": (
        "leaderElection: {resourceLock: endpoints}",
        'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"',
    ),
    "lease order prints the deadline": (
        "leaderElection: {leaseDuration: 9s}",
        'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`',
    ),
    "negative spans": (
        "leaderElection: {retryPeriod: -1s}",
        'leaderElection.retryPeriod: Invalid value: "-1s": must be greater than zero',
    ),
    "burst": (
        "clientConnection: {burst: -1}",
        "clientConnection.burst: Invalid value: -1: must be non-negative",
    ),
    "duplicate profile": (
        "profiles: [{schedulerName: a}, {schedulerName: a}]",
        "profiles[1].schedulerName: Duplicate value: {}",
    ),
    "profile without name": (
        "profiles: [{schedulerName: a}, {}]",
        "profiles[1].schedulerName: Required value",
    ),
    "single profile with empty name": (
        "profiles: [{schedulerName: ''}]",
        "profiles[0].schedulerName: Required value",
    ),
    "percentage": (
        "percentageOfNodesToScore: 101",
        "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
    ),
    "percentage of a profile": (
        "profiles: [{percentageOfNodesToScore: -1}]",
        "profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
    ),
    "initial backoff": (
        "podInitialBackoffSeconds: 0",
        "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
    ),
    "longest backoff": (
        "podInitialBackoffSeconds: 2\npodMaxBackoffSeconds: 1",
        "podMaxBackoffSeconds: Invalid value: 1: must be greater than or equal to PodInitialBackoffSeconds",
    ),
    "queue sort": (
        """
        profiles:
        - schedulerName: a
        - schedulerName: b
          plugins: {queueSort: {enabled: [{name: X}], disabled: [{name: "*"}]}}
        """,
        "profiles[1].plugins.queueSort: Invalid value: "
        '{"Enabled":[{"Name":"X","Weight":0}],"Disabled":[{"Name":"*","Weight":0}]}: must be the same for all profiles',
    ),
    "removed plugin": (
        "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
        'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version "v1" '
        '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")',
    ),
    "duplicate pluginConfig": (
        "profiles: [{pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]}]",
        'profiles[0].pluginConfig[1]: Duplicate value: "NodeAffinity"',
    ),
    "several at once": (
        "parallelism: 0\nclientConnection: {burst: -1}",
        "[clientConnection.burst: Invalid value: -1: must be non-negative, "
        "parallelism: Invalid value: 0: should be an integer value greater than zero]",
    ),
    "extender weight": (
        "extenders: [{prioritizeVerb: p}]",
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
    ),
    "two binding extenders": (
        "extenders: [{bindVerb: b}, {bindVerb: b}]",
        'extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind',
    ),
    "extender resources": (
        "extenders: [{managedResources: [{name: cpu}, {name: a/b}, {name: a/b}]}]",
        '[extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name, '
        'extenders[0].managedResources[2].name: Invalid value: "a/b": duplicate extender managed resource name]',
    ),
}
ARGS: dict[str, tuple[str, str, str]] = {  # case -> plugin, args, message after `profiles[0].pluginConfig[0].args.`
    "hard weight": (
        "InterPodAffinity",
        "{hardPodAffinityWeight: 101}",
        "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
    ),
    "balanced weight": (
        "NodeResourcesBalancedAllocation",
        "{resources: [{name: cpu, weight: 2}]}",
        "resources[0].weight: Invalid value: 2: must be 1",
    ),
    "balanced twice": (
        "NodeResourcesBalancedAllocation",
        "{resources: [{name: cpu, weight: 1}, {name: cpu, weight: 1}]}",
        'resources[1].name: Duplicate value: "cpu"',
    ),
    "spread of the system": (
        "PodTopologySpread",
        "{defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}",
        'defaultingType: Invalid value: "System": when .defaultConstraints are not empty',
    ),
    "spread twice": (
        "PodTopologySpread",
        "{defaultingType: List, defaultConstraints: "
        "[&c {maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, *c]}",
        'defaultConstraints[1]: Duplicate value: "{a, DoNotSchedule}"',
    ),
    "spread selector": (
        "PodTopologySpread",
        "{defaultingType: List, defaultConstraints: "
        "[{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]}",
        "defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, "
        "as they deduced for each pod",
    ),
    "bind timeout": (
        "VolumeBinding",
        "{bindTimeoutSeconds: -1}",
        "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
    ),
    "volume shape": (
        "VolumeBinding",
        "{shape: [{utilization: 0, score: 0}]}",
        'shape: Invalid value: [{"Utilization":0,"Score":0}]: unexpected field `shape`, remove it or turn on the '
        "feature gate StorageCapacityScoring",
    ),
    "empty volume shape": (
        "VolumeBinding",
        "{shape: []}",
        "shape: Invalid value: []: unexpected field `shape`, remove it or turn on the feature gate "
        "StorageCapacityScoring",
    ),
    "spread type": (
        "PodTopologySpread",
        "{defaultingType: Foo}",
        'defaultingType: Unsupported value: "Foo": supported values: "System", "List"',
    ),
    "affinity operator": (
        "NodeAffinity",
        "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
        "[{matchExpressions: [{key: a, operator: Foo}]}]}}}",
        "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]."
        'operator: Unsupported value: "Foo": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
    ),
    "filter timeout": (
        "DynamicResources",
        "{filterTimeout: -1s}",
        'filterTimeout: Invalid value: "-1s": must be zero or positive',
    ),
    "binding timeout": (
        "DynamicResources",
        "{bindingTimeout: 0s}",
        'bindingTimeout: Invalid value: "0s": must be at least 1 second',
    ),
}
FIT: dict[str, tuple[str, str]] = {  # case -> args of NodeResourcesFit, message after the plugin's name
    "type": (
        "{scoringStrategy: {type: Foo}}",
        'scoringStrategy.type: Unsupported value: "Foo": supported values: "LeastAllocated", "MostAllocated", '
        '"RequestedToCapacityRatio"',
    ),
    "shape": (
        "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: "
        "{shape: [{utilization: 50, score: 11}, {utilization: 40, score: 0}]}}}",
        "[scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 40: values must be sorted in "
        "increasing order, scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: "
        "not in valid range [0, 10]]",
    ),
    "shape of another strategy": (
        "{scoringStrategy: {type: LeastAllocated, requestedToCapacityRatio: {shape: [{utilization: 101}]}}}",
        "scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio",
    ),
    "utilization": (
        "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 101}]}}}",
        "scoringStrategy.requestedToCapacityRatio.shape[0].utilization: Invalid value: 101: "
        "not in valid range [0, 100]",
    ),
    "no points": (
        "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {}}}",
        "scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified",
    ),
    "no shape": (
        "{scoringStrategy: {type: RequestedToCapacityRatio}}",
        "scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is "
        "RequestedToCapacityRatio",
    ),
    "weight": (
        "{scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 101}]}}",
        "scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]",
    ),
    "ignored group": (
        "{ignoredResourceGroups: [a/b]}",
        "ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'",
    ),
}
