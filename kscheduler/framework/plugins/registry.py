"""Plugin name -> how it is made from a profile; and a profile's plugins, made."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kscheduler.config.extension_points import KUBE_PLUGINS, PointMap
from kscheduler.config.profiles import effective_plugins
from kscheduler.config.types import (
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    Profile,
)
from kscheduler.errors import ConfigError
from kscheduler.framework.interface import EXTENSION_POINTS, Handle, Plugin
from kscheduler.framework.plugins.defaultbinder import DefaultBinder
from kscheduler.framework.plugins.imagelocality import ImageLocality
from kscheduler.framework.plugins.nodeaffinity import NodeAffinity
from kscheduler.framework.plugins.nodename import NodeName
from kscheduler.framework.plugins.nodeports import NodePorts
from kscheduler.framework.plugins.noderesources.balanced_allocation import BalancedAllocation
from kscheduler.framework.plugins.noderesources.fit import Fit
from kscheduler.framework.plugins.nodeunschedulable import NodeUnschedulable
from kscheduler.framework.plugins.queuesort import PrioritySort
from kscheduler.framework.plugins.schedulinggates import SchedulingGates
from kscheduler.framework.plugins.tainttoleration import TaintToleration
from kscheduler.framework.plugins.unsupported import Unsupported

Factory = Callable[[Profile, Handle], Plugin]


def _fit(profile: Profile, handle: Handle) -> Plugin:
    args = profile.args("NodeResourcesFit", NodeResourcesFitArgs)
    strategy = args.scoring_strategy
    if strategy.type != "LeastAllocated":
        raise _not_yet(profile, "NodeResourcesFit", f"scoringStrategy.type {strategy.type}")
    return Fit(
        handle,
        [(resource.name, resource.weight or 1) for resource in strategy.resources],
        frozenset(args.ignored_resources),
        frozenset(args.ignored_resource_groups),
    )


def _balanced(profile: Profile, handle: Handle) -> Plugin:
    args = profile.args("NodeResourcesBalancedAllocation", NodeResourcesBalancedAllocationArgs)
    return BalancedAllocation(handle, [resource.name for resource in args.resources])


def _node_affinity(profile: Profile, handle: Handle) -> Plugin:
    if profile.args("NodeAffinity", NodeAffinityArgs).added_affinity is not None:
        raise _not_yet(profile, "NodeAffinity", "addedAffinity")
    return NodeAffinity(handle)


def _not_yet(profile: Profile, plugin: str, what: str) -> ConfigError:
    """Refused, since ignoring it would place pods where the user forbade it."""
    return ConfigError(f'profile "{profile.scheduler_name}": plugin "{plugin}": {what} is not supported yet')


IN_TREE: Mapping[str, Factory] = {
    "SchedulingGates": lambda profile, handle: SchedulingGates(),
    "PrioritySort": lambda profile, handle: PrioritySort(),
    "NodeUnschedulable": lambda profile, handle: NodeUnschedulable(handle),
    "NodeName": lambda profile, handle: NodeName(),
    "TaintToleration": lambda profile, handle: TaintToleration(handle),
    "NodeAffinity": _node_affinity,
    "NodePorts": lambda profile, handle: NodePorts(handle),
    "NodeResourcesFit": _fit,
    "NodeResourcesBalancedAllocation": _balanced,
    "ImageLocality": lambda profile, handle: ImageLocality(handle),
    "DefaultBinder": lambda profile, handle: DefaultBinder(handle),
}


def known_plugins() -> PointMap:
    """Names of the plugins that exist here, with the points kube-scheduler's plugins of these names extend."""
    return {name: KUBE_PLUGINS[name] for name in IN_TREE}


def build(profile: Profile, handle: Handle) -> dict[str, list[tuple[Plugin, int]]]:
    """Extension point -> the profile's plugins in order, with weights. Raises ConfigError for a profile that is wrong.

    A plugin runs at a point when the profile has it there and it has something to do there: kube-scheduler's
    PreScore of a plugin may only prepare what ours keeps at hand.
    """
    made: dict[str, Plugin] = {}
    points: dict[str, list[tuple[Plugin, int]]] = {}
    for point, entries in effective_plugins(profile, known_plugins()).items():
        method = EXTENSION_POINTS.get(point.value)
        if method is None:
            continue
        for name, weight in entries:
            if name not in made:
                made[name] = IN_TREE[name](profile, handle)
            if hasattr(made[name], method):
                points.setdefault(point.value, []).append((made[name], weight))
    points.setdefault("preFilter", []).append((Unsupported(), 1))
    return points
