"""Makes a profile's plugins from its configuration, by name.

The plugins that no release runs by default are imported by their factories, so that a scheduler without them starts as
fast, and is as small, as if they did not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kscheduler._fast import MAX_SCORED_RESOURCES
from kscheduler.api import objects as api
from kscheduler.config.extension_points import OWN_PLUGINS, PointMap
from kscheduler.config.profiles import effective_plugins
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.config.types import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    Profile,
    SchedulerConfig,
    ScoringStrategy,
    VolumeBindingArgs,
)
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.framework.interface import EXTENSION_POINTS, Handle, Plugin
from kscheduler.framework.out_of_tree import GuestClasses, find_plugins, load_plugins, make_plugin
from kscheduler.framework.plugins.defaultbinder import DefaultBinder
from kscheduler.framework.plugins.defaultpreemption.plugin import DefaultPreemption
from kscheduler.framework.plugins.dynamicresources.binding import Timeouts
from kscheduler.framework.plugins.dynamicresources.plugin import DynamicResources
from kscheduler.framework.plugins.imagelocality import ImageLocality
from kscheduler.framework.plugins.interpodaffinity.plugin import InterPodAffinity
from kscheduler.framework.plugins.nodeaffinity import NodeAffinity, compile_added_affinity
from kscheduler.framework.plugins.nodedeclaredfeatures import NodeDeclaredFeatures
from kscheduler.framework.plugins.nodename import NodeName
from kscheduler.framework.plugins.nodeports import NodePorts
from kscheduler.framework.plugins.noderesources.balanced_allocation import BalancedAllocation
from kscheduler.framework.plugins.noderesources.fit import Fit
from kscheduler.framework.plugins.noderesources.strategies import (
    LeastAllocated,
    MostAllocated,
    RequestedToCapacityRatio,
    Strategy,
)
from kscheduler.framework.plugins.nodeunschedulable import NodeUnschedulable
from kscheduler.framework.plugins.nodevolumelimits.plugin import NodeVolumeLimits
from kscheduler.framework.plugins.podtopologyspread.plugin import PodTopologySpread
from kscheduler.framework.plugins.queuesort import PrioritySort
from kscheduler.framework.plugins.schedulinggates import SchedulingGates
from kscheduler.framework.plugins.tainttoleration import TaintToleration
from kscheduler.framework.plugins.volumebinding.plugin import VolumeBinding
from kscheduler.framework.plugins.volumebinding.scoring import DEFAULT_SHAPE, ScoringVolumeBinding
from kscheduler.framework.plugins.volumerestrictions import VolumeRestrictions
from kscheduler.framework.plugins.volumezone import VolumeZone
from kscheduler.input.decoding import convert

Factory = Callable[[Profile, Handle], Plugin]


def _fit(profile: Profile, handle: Handle) -> Plugin:
    args = profile.args("NodeResourcesFit", NodeResourcesFitArgs)
    resources = args.scoring_strategy.resources
    _check_number(profile, "NodeResourcesFit", "scoringStrategy.resources", len(resources))
    return Fit(
        handle,
        [(resource.name, resource.weight or 1) for resource in resources],
        frozenset(args.ignored_resources),
        frozenset(args.ignored_resource_groups),
        _strategy(args.scoring_strategy),
    )


def _strategy(configured: ScoringStrategy) -> Strategy:
    """Return the configured scoring strategy; validation has checked its type, and its shape if it needs one."""
    if configured.type == "MostAllocated":
        return MostAllocated()
    if configured.type == "RequestedToCapacityRatio":
        ratio = configured.requested_to_capacity_ratio
        return RequestedToCapacityRatio([(point.utilization, point.score) for point in ratio.shape] if ratio else [])
    return LeastAllocated()


def _balanced(profile: Profile, handle: Handle) -> Plugin:
    args = profile.args("NodeResourcesBalancedAllocation", NodeResourcesBalancedAllocationArgs)
    _check_number(profile, "NodeResourcesBalancedAllocation", "resources", len(args.resources))
    return BalancedAllocation(handle, [resource.name for resource in args.resources])


def _node_affinity(profile: Profile, handle: Handle) -> Plugin:
    added = profile.args("NodeAffinity", NodeAffinityArgs).added_affinity
    try:
        affinity = None if added is None else convert(added, api.NodeAffinity, from_attributes=True)
        return NodeAffinity(handle, compile_added_affinity(affinity))
    except DecodeError as error:
        raise _wrong(profile, "NodeAffinity", str(error)) from error


def _spread(profile: Profile, handle: Handle) -> Plugin:
    args = profile.args("PodTopologySpread", PodTopologySpreadArgs)
    if args.defaulting_type == "System":
        return PodTopologySpread(handle)
    constraint = api.TopologySpreadConstraint
    return PodTopologySpread(
        handle, [convert(each, constraint, from_attributes=True) for each in args.default_constraints]
    )


def _devices(profile: Profile, handle: Handle) -> Plugin:
    args = profile.args("DynamicResources", DynamicResourcesArgs)
    timeouts = Timeouts(args.filter_timeout.seconds, args.binding_timeout.seconds)
    return DynamicResources(handle, profile.scheduler_name, timeouts)


def _volume_binding(profile: Profile, handle: Handle) -> Plugin:
    args = profile.args("VolumeBinding", VolumeBindingArgs)
    if not handle.release.has("StorageCapacityScoring"):
        return VolumeBinding(handle, args.bind_timeout_seconds)
    shape = [(point.utilization, point.score) for point in args.shape or ()] or DEFAULT_SHAPE
    return ScoringVolumeBinding(handle, args.bind_timeout_seconds, shape)


def _capacity_scheduling(profile: Profile, handle: Handle) -> Plugin:
    from kscheduler.framework.plugins.capacityscheduling.plugin import CapacityScheduling

    return CapacityScheduling(handle)


def _coscheduling(profile: Profile, handle: Handle) -> Plugin:
    from kscheduler.framework.plugins.coscheduling import Coscheduling

    return Coscheduling()


def _metric_policy(profile: Profile, handle: Handle) -> Plugin:
    from kscheduler.framework.plugins.metricpolicy.plugin import MetricPolicy

    return MetricPolicy(handle)


def _queues(profile: Profile, handle: Handle) -> Plugin:
    from kscheduler.framework.plugins.queues.plugin import Queues

    return Queues(handle)


def _target_load_packing(profile: Profile, handle: Handle) -> Plugin:
    from kscheduler.config.trimaran import TargetLoadPackingArgs
    from kscheduler.framework.plugins.trimaran.target_load_packing import TargetLoadPacking

    return TargetLoadPacking(handle, profile.args("TargetLoadPacking", TargetLoadPackingArgs))


def _load_variation(profile: Profile, handle: Handle) -> Plugin:
    from kscheduler.config.trimaran import LoadVariationRiskBalancingArgs
    from kscheduler.framework.plugins.trimaran.load_variation_risk_balancing import LoadVariationRiskBalancing

    args = profile.args("LoadVariationRiskBalancing", LoadVariationRiskBalancingArgs)
    return LoadVariationRiskBalancing(handle, args)


def _check_number(profile: Profile, plugin: str, field: str, number: int) -> None:
    if number > MAX_SCORED_RESOURCES:
        raise _wrong(profile, plugin, f"{field}: expected at most {MAX_SCORED_RESOURCES} resources, got {number}")


def _wrong(profile: Profile, plugin: str, what: str) -> ConfigError:
    return ConfigError(f'profile "{profile.scheduler_name}": initializing plugin "{plugin}": {what}')


IN_TREE: Mapping[str, Factory] = {
    "SchedulingGates": lambda profile, handle: SchedulingGates(),
    "PrioritySort": lambda profile, handle: PrioritySort(),
    "NodeUnschedulable": lambda profile, handle: NodeUnschedulable(handle),
    "NodeName": lambda profile, handle: NodeName(),
    "TaintToleration": lambda profile, handle: TaintToleration(handle),
    "NodeAffinity": _node_affinity,
    "NodePorts": lambda profile, handle: NodePorts(handle),
    "NodeResourcesFit": _fit,
    "VolumeRestrictions": lambda profile, handle: VolumeRestrictions(handle),
    "NodeVolumeLimits": lambda profile, handle: NodeVolumeLimits(handle),
    "VolumeBinding": _volume_binding,
    "VolumeZone": lambda profile, handle: VolumeZone(handle),
    "PodTopologySpread": _spread,
    "NodeResourcesBalancedAllocation": _balanced,
    "ImageLocality": lambda profile, handle: ImageLocality(handle),
    "InterPodAffinity": lambda profile, handle: InterPodAffinity(
        handle, profile.args("InterPodAffinity", InterPodAffinityArgs)
    ),
    "DynamicResources": _devices,
    "DefaultPreemption": lambda profile, handle: DefaultPreemption(
        handle, profile.args("DefaultPreemption", DefaultPreemptionArgs)
    ),
    "DefaultBinder": lambda profile, handle: DefaultBinder(handle),
    "NodeDeclaredFeatures": lambda profile, handle: NodeDeclaredFeatures(handle),
    "CapacityScheduling": _capacity_scheduling,
    "Coscheduling": _coscheduling,
    "MetricPolicy": _metric_policy,
    "Queues": _queues,
    "TargetLoadPacking": _target_load_packing,
    "LoadVariationRiskBalancing": _load_variation,
}


def known_plugins(config: SchedulerConfig | None = None, guests: GuestClasses | None = None) -> PointMap:
    """Return the names of all plugins, each with the extension points that kube-scheduler's plugin of that name has.

    With a configuration, also the out-of-tree plugins that its profiles enable.
    """
    if config is None:
        return _in_tree(DEFAULT_RELEASE)
    return {**_in_tree(config.release), **find_plugins(config, guests)}


def _in_tree(release: Release) -> PointMap:
    points = {**release.points, **OWN_PLUGINS}
    return {name: points[name] for name in IN_TREE if name in points}


def build(profile: Profile, handle: Handle, guests: GuestClasses | None = None) -> dict[str, list[tuple[Plugin, int]]]:
    """Return extension point -> the profile's plugins in order, with weights. Raises ConfigError.

    A plugin is called at a point if the profile enables it there and it has the point's method; kube-scheduler's plugin
    may have a PreScore that ours does not need.
    """
    made: dict[str, Plugin] = {}
    points: dict[str, list[tuple[Plugin, int]]] = {}
    further = load_plugins(profile, f'profile "{profile.scheduler_name}"', guests)
    known = {**_in_tree(handle.release), **{name: loaded.points for name, loaded in further.items()}}
    for point, entries in effective_plugins(profile, known, handle.release).items():
        method = EXTENSION_POINTS.get(point.value)
        if method is None:
            continue
        for name, weight in entries:
            if name not in made:
                in_tree = IN_TREE.get(name)
                made[name] = in_tree(profile, handle) if in_tree else make_plugin(further[name], profile, handle)
            if hasattr(made[name], method):
                points.setdefault(point.value, []).append((made[name], weight))
    if "postFilter" in points:
        points["postFilter"].sort(key=lambda entry: not getattr(entry[0], "comes_before_preemption", False))
    return points
