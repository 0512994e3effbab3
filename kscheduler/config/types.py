"""KubeSchedulerConfiguration, kubescheduler.config.k8s.io/v1, as Python values.

Field names are the API's in snake case; `rename="camel"` gives the names in the file. A default given here is what an
absent field means. Defaults that depend on other fields are in `defaults`, and the allowed values in `validation`.
Enumerations are decoded as text, so that a wrong one is reported with the allowed values, together with all other
errors.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from kscheduler.config.duration import Duration
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.errors import ConfigError
from kscheduler.input.redaction import Secret, SecretURL

API_GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{API_GROUP}/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

ArgsT = TypeVar("ArgsT", bound="PluginArgs")


class ConfigStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The base class of all configuration values."""


# --- general part -----------------------------------------------------------------------------------------------


class ClientConnection(ConfigStruct, frozen=True):
    """The connection to the apiserver. For `qps` and `burst` 0 means the default; a negative `qps` means no limit."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""  # "" becomes application/vnd.kubernetes.protobuf
    qps: float = 0.0
    burst: Int32 = 0


class LeaderElection(ConfigStruct, frozen=True):
    leader_elect: bool = True
    lease_duration: Duration = Duration(0)  # here and below, `defaults` replaces zero and ""
    renew_deadline: Duration = Duration(0)
    retry_period: Duration = Duration(0)
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""


# --- profiles ---------------------------------------------------------------------------------------------------


class Plugin(ConfigStruct, frozen=True):
    name: str = ""
    weight: Int32 = 0  # 0 means 1; only Score uses it


class PluginSet(ConfigStruct, frozen=True):
    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()  # "*" disables all


class Plugins(ConfigStruct, frozen=True):
    """The plugins by extension point; `multi_point` stands for every point that a plugin implements."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()

    def enabled_names(self) -> set[str]:
        """Return the names of the plugins that are enabled at any extension point, or in multiPoint."""
        return {plugin.name for field in self.__struct_fields__ for plugin in getattr(self, field).enabled}


class PluginArgs(ConfigStruct, frozen=True):
    """The base class of arguments that are decoded by the plugin's name; `kind` is the class name."""


class PluginConfig(ConfigStruct, frozen=True):
    """The arguments of one plugin: a `PluginArgs` for kube-scheduler's plugins, a plain document for all others."""

    name: str = ""
    args: Any = None

    def __repr__(self) -> str:
        """Return a text without the arguments, since any value of a plain document may be a secret."""
        return f"PluginConfig(name={self.name!r}, args={self.args if isinstance(self.args, PluginArgs) else ...!r})"


class Profile(ConfigStruct, frozen=True):
    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = None  # None: the global value applies
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()

    def args(self, plugin: str, kind: type[ArgsT]) -> ArgsT:
        """Return the arguments of a plugin, or its defaults. Raises ConfigError if they are not of the type `kind`."""
        for entry in self.plugin_config:
            if entry.name == plugin:
                if not isinstance(entry.args, kind):
                    raise ConfigError(
                        f"arguments of plugin {plugin}: expected {kind.__name__}, got {type(entry.args).__name__}"
                    )
                return entry.args
        return kind()

    def raw_args(self, plugin: str) -> Any:
        """Return the arguments in the file for a plugin that is not kube-scheduler's; None if there are none."""
        return next((entry.args for entry in self.plugin_config if entry.name == plugin), None)


# --- extenders --------------------------------------------------------------------------------------------------


class ExtenderTLSConfig(ConfigStruct, frozen=True):
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""  # base64, as Go encodes bytes
    key_data: Secret = Secret()
    ca_data: str = ""


class ExtenderManagedResource(ConfigStruct, frozen=True):
    name: str = ""
    ignored_by_scheduler: bool = False


class Extender(ConfigStruct, frozen=True):
    url_prefix: SecretURL = SecretURL()
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration(0)
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


# --- arguments of plugins ---------------------------------------------------------------------------------------


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class DynamicResourcesArgs(PluginArgs, frozen=True):
    filter_timeout: Duration = Duration.of_seconds(10)  # zero: no limit
    binding_timeout: Duration = Duration.of_seconds(600)


class InterPodAffinityArgs(PluginArgs, frozen=True):
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class SelectorRequirement(ConfigStruct, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(ConfigStruct, frozen=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorRequirement, ...] = ()


class NodeSelectorTerm(ConfigStruct, frozen=True):
    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class NodeSelector(ConfigStruct, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(ConfigStruct, frozen=True):
    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ConfigStruct, frozen=True):
    """A node affinity with the fields of a pod's. It is decoded strictly here, so that a misspelt field is an error."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class NodeAffinityArgs(PluginArgs, frozen=True):
    added_affinity: NodeAffinity | None = None


class ResourceSpec(ConfigStruct, frozen=True):
    name: str = ""
    weight: Int64 = 0  # 0 means 1


DEFAULT_RESOURCES = (ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1))


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES


class UtilizationShapePoint(ConfigStruct, frozen=True):
    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatio(ConfigStruct, frozen=True):
    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(ConfigStruct, frozen=True):
    type: str = ""
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type="LeastAllocated")


class TopologySpreadConstraint(ConfigStruct, frozen=True):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = ""  # "" becomes System


class VolumeBindingArgs(PluginArgs, frozen=True):
    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None  # None if StorageCapacityScoring is off, which forbids it


PLUGIN_ARGS: dict[str, type[PluginArgs]] = {  # plugin name -> its arguments; other plugins of kube-scheduler have none
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}


# --- the whole --------------------------------------------------------------------------------------------------


class SchedulerConfig(ConfigStruct, frozen=True):
    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: Int32 = 0  # 0: depends on the size of the cluster
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    delay_cache_until_active: bool = False
    profiles: tuple[Profile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    release: Release = DEFAULT_RELEASE  # what its defaults are from, and what is emulated; in no document
