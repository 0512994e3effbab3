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
from kscheduler.input.int32 import MAX_INT32, MIN_INT32
from kscheduler.input.redaction import Secret, SecretURL

API_GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{API_GROUP}/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"

Int32 = Annotated[int, msgspec.Meta(ge=MIN_INT32, le=MAX_INT32)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

ArgsT = TypeVar("ArgsT", bound="PluginArgs")


class ConfigStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The base class of all configuration values."""


# --- general part -----------------------------------------------------------------------------------------------


class ClientConnection(ConfigStruct, frozen=True):
    """The connection to the apiserver. For `qps` and `burst` 0 means the default; a negative `qps` means no limit."""

    kubeconfig: str = ""  # of the scheduler's user; "": in-cluster
    accept_content_types: str = ""  # accepted, and without effect
    content_type: str = ""  # shown at /configz, nothing else; "" becomes application/vnd.kubernetes.protobuf
    qps: float = 0.0  # writes a second to the apiserver: bindings, and separately Events
    burst: Int32 = 0  # writes at once on top of it


class LeaderElection(ConfigStruct, frozen=True):
    leader_elect: bool = True  # schedule only while holding the Lease
    lease_duration: Duration = Duration(0)  # how long a Lease lasts that its holder does not renew
    renew_deadline: Duration = Duration(0)  # how long the leader tries to renew it before it ends
    retry_period: Duration = Duration(0)  # pause between two tries to acquire or renew it
    resource_lock: str = ""  # kind of the object: leases, the only one
    resource_name: str = ""  # of the Lease
    resource_namespace: str = ""  # of the Lease


# --- profiles ---------------------------------------------------------------------------------------------------


class Plugin(ConfigStruct, frozen=True):
    name: str = ""  # of the plugin: in-tree, `module:Class`, an entry point, or a wasm plugin's
    weight: Int32 = 0  # 0 means 1; only Score uses it


class PluginSet(ConfigStruct, frozen=True):
    enabled: tuple[Plugin, ...] = ()  # in the order in which they run
    disabled: tuple[Plugin, ...] = ()  # "*" disables all


class Plugins(ConfigStruct, frozen=True):
    """The plugins by extension point; `multi_point` stands for every point that a plugin implements."""

    pre_enqueue: PluginSet = PluginSet()  # plugins at PreEnqueue
    queue_sort: PluginSet = PluginSet()  # plugins at QueueSort; one, the same in all profiles
    pre_filter: PluginSet = PluginSet()  # plugins at PreFilter
    filter: PluginSet = PluginSet()  # plugins at Filter
    post_filter: PluginSet = PluginSet()  # plugins at PostFilter
    pre_score: PluginSet = PluginSet()  # plugins at PreScore
    score: PluginSet = PluginSet()  # plugins at Score
    reserve: PluginSet = PluginSet()  # plugins at Reserve
    permit: PluginSet = PluginSet()  # plugins at Permit
    pre_bind: PluginSet = PluginSet()  # plugins at PreBind
    bind: PluginSet = PluginSet()  # plugins at Bind; the first that does not skip the pod binds it
    post_bind: PluginSet = PluginSet()  # plugins at PostBind
    placement_generate: PluginSet = PluginSet()  # of kube-scheduler 1.37: whether PodGroups are kept in one domain
    placement_score: PluginSet = PluginSet()  # of kube-scheduler 1.37: how domains for PodGroups are weighed
    pod_group_post_filter: PluginSet = PluginSet()  # of kube-scheduler 1.37; accepted, and without effect
    # plugins at every point that they implement; enabled ones are added to the default ones
    multi_point: PluginSet = PluginSet()

    def enabled_names(self) -> set[str]:
        """Return the names of the plugins that are enabled at any extension point, or in multiPoint."""
        return {plugin.name for field in self.__struct_fields__ for plugin in getattr(self, field).enabled}


class PluginArgs(ConfigStruct, frozen=True):
    """The base class of arguments that are decoded by the plugin's name; `kind` is the class name."""


class PluginConfig(ConfigStruct, frozen=True):
    """The arguments of one plugin: a `PluginArgs` for kube-scheduler's plugins, a plain document for all others."""

    name: str = ""  # of the plugin
    args: Any = None  # its arguments

    def __repr__(self) -> str:
        """Return a text without the arguments, since any value of a plain document may be a secret."""
        return f"PluginConfig(name={self.name!r}, args={self.args if isinstance(self.args, PluginArgs) else ...!r})"


class Profile(ConfigStruct, frozen=True):
    scheduler_name: str = ""  # pods with this `spec.schedulerName` belong to the profile
    percentage_of_nodes_to_score: Int32 | None = None  # in place of the global value
    plugins: Plugins = Plugins()  # which plugins run, and where
    plugin_config: tuple[PluginConfig, ...] = ()  # arguments of plugins

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
    insecure: bool = False  # do not verify the server's certificate
    server_name: str = ""  # expected in the certificate, in place of the URL's host
    cert_file: str = ""  # client certificate, PEM
    key_file: str = ""  # its private key, PEM
    ca_file: str = ""  # authorities that vouch for the server, PEM
    cert_data: str = ""  # client certificate in base64; has precedence over the file
    key_data: Secret = Secret()  # its private key in base64
    ca_data: str = ""  # authorities in base64


class ExtenderManagedResource(ConfigStruct, frozen=True):
    name: str = ""  # of the resource, such as example.com/gpu
    ignored_by_scheduler: bool = False  # the scheduler itself does not check it


class Extender(ConfigStruct, frozen=True):
    url_prefix: SecretURL = SecretURL()  # of the webhook; the verbs are appended
    filter_verb: str = ""  # path for filtering; "": it does not filter
    preempt_verb: str = ""  # path for preemption; "": it is not asked
    prioritize_verb: str = ""  # path for scores; "": it gives none
    weight: Int64 = 0  # of its scores; above zero if prioritizeVerb is set
    bind_verb: str = ""  # path for binding; "": it does not bind. One extender at most
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")  # use https
    tls_config: ExtenderTLSConfig | None = None  # for https
    http_timeout: Duration = Duration(0)  # of a request
    node_cache_capable: bool = False  # send names of nodes only
    # ask only about pods that request one of these; none: about all pods
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False  # go on without it when it fails


# --- arguments of plugins ---------------------------------------------------------------------------------------


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    min_candidate_nodes_percentage: Int32 = 10  # of the nodes that a dry run looks at, at least
    min_candidate_nodes_absolute: Int32 = 100  # how many nodes a dry run looks at, at least


class DynamicResourcesArgs(PluginArgs, frozen=True):
    filter_timeout: Duration = Duration.of_seconds(10)  # of the search for devices on one node; zero: no limit
    binding_timeout: Duration = Duration.of_seconds(600)  # how long PreBind waits for binding conditions of devices


class InterPodAffinityArgs(PluginArgs, frozen=True):
    hard_pod_affinity_weight: Int32 = 1  # of required affinity terms of existing pods in scores, 0 to 100
    ignore_preferred_terms_of_existing_pods: bool = False  # do not score by them


class SelectorRequirement(ConfigStruct, frozen=True):
    key: str = ""  # of the label
    operator: str = ""  # In, NotIn, Exists, DoesNotExist; of node selectors also Gt and Lt
    values: tuple[str, ...] = ()  # of the label


class LabelSelector(ConfigStruct, frozen=True):
    match_labels: dict[str, str] = {}  # labels that must be there with these values
    match_expressions: tuple[SelectorRequirement, ...] = ()  # all must hold


class NodeSelectorTerm(ConfigStruct, frozen=True):
    match_expressions: tuple[SelectorRequirement, ...] = ()  # about labels; all must hold
    match_fields: tuple[SelectorRequirement, ...] = ()  # about metadata.name; all must hold


class NodeSelector(ConfigStruct, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()  # of which one must hold


class PreferredSchedulingTerm(ConfigStruct, frozen=True):
    weight: Int32 = 0  # 1 to 100
    preference: NodeSelectorTerm = NodeSelectorTerm()  # which nodes are preferred


class NodeAffinity(ConfigStruct, frozen=True):
    """A node affinity with the fields of a pod's. It is decoded strictly here, so that a misspelt field is an error."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None  # must hold
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()  # counts in scores


class NodeAffinityArgs(PluginArgs, frozen=True):
    added_affinity: NodeAffinity | None = None  # holds for all pods of the profile, besides their own


class ResourceSpec(ConfigStruct, frozen=True):
    name: str = ""  # of the resource
    weight: Int64 = 0  # 0 means 1


DEFAULT_RESOURCES = (ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1))


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES  # whose shares are balanced; the weight must be 1


class UtilizationShapePoint(ConfigStruct, frozen=True):
    utilization: Int32 = 0  # percent, 0 to 100, rising from point to point
    score: Int32 = 0  # 0 to 10


class RequestedToCapacityRatio(ConfigStruct, frozen=True):
    shape: tuple[UtilizationShapePoint, ...] = ()  # the score at some utilisations, linear in between


class ScoringStrategy(ConfigStruct, frozen=True):
    type: str = ""  # LeastAllocated, MostAllocated or RequestedToCapacityRatio
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES  # that count, and how much
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None  # for the type of this name


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    ignored_resources: tuple[str, ...] = ()  # extended resources that are not checked
    ignored_resource_groups: tuple[str, ...] = ()  # groups, such as example.com, whose resources are not checked
    scoring_strategy: ScoringStrategy = ScoringStrategy(type="LeastAllocated")  # how nodes are scored


class TopologySpreadConstraint(ConfigStruct, frozen=True):
    max_skew: Int32 = 0  # how many more matching pods a domain may have than the emptiest; above zero
    topology_key: str = ""  # the node label whose values are the domains
    when_unsatisfiable: str = ""  # DoNotSchedule or ScheduleAnyway
    label_selector: LabelSelector | None = None  # must be absent: it follows from the pod's owners
    min_domains: Int32 | None = None  # domains that count at least
    node_affinity_policy: str | None = None  # Honor or Ignore
    node_taints_policy: str | None = None  # Honor or Ignore
    match_label_keys: tuple[str, ...] = ()  # pod labels whose values must be equal, too


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    # of pods that state none; only with defaultingType List
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = ""  # System: kube-scheduler's own defaults; List: defaultConstraints


class VolumeBindingArgs(PluginArgs, frozen=True):
    bind_timeout_seconds: Int64 = 600  # how long PreBind waits for volumes
    # scores by storage utilisation; needs the feature gate StorageCapacityScoring
    shape: tuple[UtilizationShapePoint, ...] | None = None


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
    api_version: str = API_VERSION  # of the file
    kind: str = KIND  # of the file
    parallelism: Int32 = 16  # checked, and without effect: kernels look at all nodes
    leader_election: LeaderElection = LeaderElection()  # which replica schedules
    client_connection: ClientConnection = ClientConnection()  # to the apiserver
    enable_profiling: bool = True  # serve /debug/flags/v, by which the verbosity of the log is changed; no profiles
    enable_contention_profiling: bool = True  # accepted, and without effect
    percentage_of_nodes_to_score: Int32 = 0  # 0: all nodes, where kernels filter them
    pod_initial_backoff_seconds: Int64 = 1  # the wait after a pod's first failed attempt; it doubles each time
    pod_max_backoff_seconds: Int64 = 10  # the longest such wait
    delay_cache_until_active: bool = False  # a standby does not fill its cache before it leads
    profiles: tuple[Profile, ...] = ()  # schedulers by name; none: one with the default plugins
    extenders: tuple[Extender, ...] = ()  # webhooks that take part in decisions of all profiles
    release: Release = DEFAULT_RELEASE  # what its defaults are from, and what is emulated; in no document
