"""Sets kube-scheduler's defaults before validation: for zero values, the default profile, plugin lists and arguments.

The plugin list is completed to all of kube-scheduler's, even those not implemented here; `profiles` decides which run.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from kscheduler.config.duration import Duration
from kscheduler.config.plugin_args import ALL_ARGS
from kscheduler.config.releases import Release
from kscheduler.config.trimaran import TrimaranArgs, default_trimaran_args
from kscheduler.config.types import (
    DEFAULT_RESOURCES,
    DEFAULT_SCHEDULER_NAME,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    Plugin,
    PluginConfig,
    PluginSet,
    PodTopologySpreadArgs,
    Profile,
    ResourceSpec,
    SchedulerConfig,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

T = TypeVar("T", bound=msgspec.Struct)

LEADER_ELECTION: dict[str, Any] = {  # field -> value in place of zero or ""
    "lease_duration": Duration.of_seconds(15),
    "renew_deadline": Duration.of_seconds(10),
    "retry_period": Duration.of_seconds(2),
    "resource_lock": "leases",
    "resource_name": "kube-scheduler",
    "resource_namespace": "kube-system",
}
CLIENT_CONNECTION: dict[str, Any] = {
    "content_type": "application/vnd.kubernetes.protobuf",
    "qps": 50.0,
    "burst": 100,
}
# Scores of VolumeBinding where StorageCapacityScoring is on: it prefers nodes with much free capacity.
CAPACITY_SHAPE = (UtilizationShapePoint(utilization=0, score=10), UtilizationShapePoint(utilization=100, score=0))
EXTENDER: dict[str, Any] = {"http_timeout": Duration.of_seconds(5)}


def apply_defaults(config: SchedulerConfig) -> SchedulerConfig:
    """Return the configuration with every default of its release written out. Applying it again changes nothing."""
    profiles = config.profiles or (Profile(scheduler_name=DEFAULT_SCHEDULER_NAME),)
    return msgspec.structs.replace(
        config,
        leader_election=_fill_zero(config.leader_election, LEADER_ELECTION),
        client_connection=_fill_zero(config.client_connection, CLIENT_CONNECTION),
        profiles=tuple(_default_profile(profile, config.release) for profile in profiles),
        extenders=tuple(_fill_zero(extender, EXTENDER) for extender in config.extenders),
    )


PLACEMENTS = "TopologyAwareWorkloadScheduling"


def without_defaults(config: SchedulerConfig) -> SchedulerConfig:
    """Return the configuration without those defaults that only some releases have.

    The default plugins may stay: `apply_defaults` puts them in the order of its release.
    """
    profiles = tuple(
        msgspec.structs.replace(profile, plugin_config=tuple(map(_without_shape, profile.plugin_config)))
        for profile in config.profiles
    )
    return msgspec.structs.replace(config, profiles=profiles)


def _without_shape(entry: PluginConfig) -> PluginConfig:
    args = entry.args
    if isinstance(args, VolumeBindingArgs) and args.shape == CAPACITY_SHAPE:
        return PluginConfig(name=entry.name, args=msgspec.structs.replace(args, shape=None))
    return entry


def default_plugins(release: Release) -> tuple[Plugin, ...]:
    """Return multiPoint of the default profile. Its order decides which plugin filters first.

    Of the plugins that feature gates add it has those that profiles may weigh or disable with an effect.
    """
    by_default = tuple(Plugin(name=name, weight=weight) for name, weight in release.plugins)
    if not release.has(PLACEMENTS):
        return by_default
    return (*by_default, Plugin(name="TopologyPlacementGenerator"), Plugin(name="PodGroupPodsCount", weight=1))


def _default_profile(profile: Profile, release: Release) -> Profile:
    """Complete multiPoint and the arguments of a profile; the lists of other extension points stay as they are."""
    multi_point = merge_plugin_set(default_plugins(release), profile.plugins.multi_point)
    plugins = msgspec.structs.replace(profile.plugins, multi_point=multi_point)
    configured = {entry.name for entry in profile.plugin_config}
    given = tuple(_default_entry(entry, release) for entry in profile.plugin_config)
    absent = (name for name in sorted(plugins.enabled_names()) if name in ALL_ARGS and name not in configured)
    added = tuple(_default_entry(PluginConfig(name=name), release) for name in absent)
    return msgspec.structs.replace(profile, plugins=plugins, plugin_config=given + added)


def merge_plugin_set(defaults: tuple[Plugin, ...], custom: PluginSet) -> PluginSet:
    """Return the default plugins that are not disabled, each replaced by an entry of its name; then the other entries.

    A list that already contains its defaults is returned unchanged.
    """
    disabled = {plugin.name for plugin in custom.disabled}
    last = {plugin.name: index for index, plugin in enumerate(custom.enabled)}  # name -> the entry that counts
    kept = () if "*" in disabled else tuple(plugin for plugin in defaults if plugin.name not in disabled)
    replacing = {last[plugin.name] for plugin in kept if plugin.name in last}
    merged = [custom.enabled[last[plugin.name]] if plugin.name in last else plugin for plugin in kept]
    merged += [plugin for index, plugin in enumerate(custom.enabled) if index not in replacing]
    return PluginSet(enabled=tuple(merged), disabled=tuple(Plugin(name=plugin.name) for plugin in custom.disabled))


def _default_entry(entry: PluginConfig, release: Release) -> PluginConfig:
    kind = ALL_ARGS.get(entry.name)
    if kind is None:
        return entry
    args = kind() if entry.args is None else entry.args
    return PluginConfig(name=entry.name, args=_default_args(args, release))


def _default_args(args: Any, release: Release) -> Any:
    if isinstance(args, NodeResourcesBalancedAllocationArgs):
        return msgspec.structs.replace(args, resources=_default_resources(args.resources))
    if isinstance(args, NodeResourcesFitArgs):
        strategy = args.scoring_strategy
        strategy = msgspec.structs.replace(strategy, resources=_default_resources(strategy.resources))
        return msgspec.structs.replace(args, scoring_strategy=strategy)
    if isinstance(args, PodTopologySpreadArgs):
        return _fill_zero(args, {"defaulting_type": "System"})
    if isinstance(args, VolumeBindingArgs) and release.has("StorageCapacityScoring"):
        return _fill_zero(args, {"shape": CAPACITY_SHAPE})
    if isinstance(args, TrimaranArgs):
        return default_trimaran_args(args)
    return args


def _default_resources(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    return tuple(_fill_zero(resource, {"weight": 1}) for resource in resources or DEFAULT_RESOURCES)


def _fill_zero(value: T, defaults: dict[str, Any]) -> T:
    """Return `value` with each field that is zero, "" or empty replaced by its default."""
    zero = {field: default for field, default in defaults.items() if not getattr(value, field)}
    return msgspec.structs.replace(value, **zero) if zero else value
