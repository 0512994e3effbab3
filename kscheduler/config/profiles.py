"""Expands the plugin sets of a profile to the plugins that run at each extension point, in order and with weights.

The rules are kube-scheduler's. At each point run, in this order: (1) plugins enabled both at the point and in
multiPoint, in the point's order, (2) the other plugins of multiPoint, (3) plugins enabled at the point only. A plugin
that a point disables (by name or "*") does not run there even if multiPoint has it. The weight is that of the point's
entry, else multiPoint's, else 1; 0 means 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.config.args_validation import validate_fit_args
from kscheduler.config.decode import aggregate
from kscheduler.config.extension_points import CONSTRUCTION_ORDER, OWN_PLUGINS, ExtensionPoint, PointMap
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.config.types import NodeResourcesFitArgs, Plugin, Profile, SchedulerConfig
from kscheduler.errors import ConfigError

_DEFAULT_BINDER = "DefaultBinder"
WeightedPlugin = tuple[str, int]  # plugin name, weight; weights count at Score and PlacementScore only


def effective_plugins(
    profile: Profile, known: PointMap, release: Release = DEFAULT_RELEASE
) -> dict[ExtensionPoint, list[WeightedPlugin]]:
    """Return the plugins of `known` that the profile runs at each extension point; every point of the release is a key.

    A plugin of kube-scheduler that is not in `known` is left out (see `unimplemented_plugins`). Raises ConfigError,
    worded as in kube-scheduler, for an unknown plugin, for one that does not implement the point or is enabled twice,
    and for a profile without a bind plugin or without exactly one queue sort plugin.
    """
    registry = {**release.points, **OWN_PLUGINS, **known}
    for point in CONSTRUCTION_ORDER:  # before any multiPoint list, as kube-scheduler does
        _check_explicit(getattr(profile.plugins, point.field).enabled, point, registry)
    lists = {
        point: [entry for entry in _plugins_at(profile, point, registry) if entry[0] in known]
        for point in CONSTRUCTION_ORDER
    }
    _check_cardinality(profile.scheduler_name, lists)
    if any(weight < 0 for _, weight in lists[ExtensionPoint.SCORE]):
        raise ConfigError("score plugins: total score of Score plugins could overflow")  # what Go makes of it
    return {point: lists[point] for point in release.extension_points}


def check_profiles(config: SchedulerConfig, extra: PointMap | None) -> None:
    """Raise ConfigError if a profile cannot be built from kube-scheduler's plugins and the `extra` ones.

    Only the first error is reported, in kube-scheduler's order: it makes a profile's plugins before it checks their
    extension points, and finishes one profile before the next.
    """
    known = {**config.release.points, **OWN_PLUGINS, **(extra or {})}
    first: tuple[str, object] | None = None  # queue sort plugin of the first profile, and its arguments
    for profile in config.profiles:
        name = profile.scheduler_name
        try:
            _check_fit_args(profile)
            lists = effective_plugins(profile, known, config.release)
        except ConfigError as error:
            fault = f"initializing profiles: creating profile for scheduler name {name}: {error}"
            raise ConfigError(fault + _misnamed(profile, known)) from error
        sorter = lists[ExtensionPoint.QUEUE_SORT][0][0]
        first = first or (sorter, profile.raw_args(sorter))
        if sorter != first[0]:
            text = f'different queue sort plugins for profile "{name}": "{sorter}", first: "{first[0]}"'
            raise ConfigError(f"initializing profiles: {text}")
        if profile.raw_args(sorter) != first[1]:
            raise ConfigError(f'initializing profiles: different queue sort plugin args for profile "{name}"')


def _misnamed(profile: Profile, known: PointMap) -> str:
    """Return a hint for the error about an unknown plugin, if a wasm plugin's arguments may have been meant for it."""
    enabled = profile.plugins.enabled_names()
    if enabled <= known.keys():
        return ""
    given = dict.fromkeys(entry.name for entry in profile.plugin_config)
    idle = [f'"{name}"' for name in given if name not in known and name not in enabled]
    return f" (pluginConfig has arguments of {', '.join(idle)}: the two names have to be the same)" if idle else ""


def unimplemented_plugins(config: SchedulerConfig, known: PointMap) -> list[str]:
    """Return, sorted, the plugins of kube-scheduler that a profile enables but `known` does not have."""
    everything = {**config.release.points, **OWN_PLUGINS, **known}
    of_groups = {ExtensionPoint.PLACEMENT_GENERATE, ExtensionPoint.PLACEMENT_SCORE}  # these are not built as plugins
    enabled = {
        name
        for profile in config.profiles
        for entries in effective_plugins(profile, everything, config.release).values()
        for name, _ in entries
    }
    return sorted(name for name in enabled - known.keys() if not everything[name] <= of_groups)


def unreached_binders(config: SchedulerConfig, known: PointMap) -> list[tuple[str, str]]:
    """Return the Bind plugins that come behind DefaultBinder, each with its profile's scheduler name.

    They are never asked: DefaultBinder binds every pod.
    """
    found = []
    for profile in config.profiles:
        binders = [name for name, _ in effective_plugins(profile, known, config.release)[ExtensionPoint.BIND]]
        if _DEFAULT_BINDER in binders:
            behind = binders[binders.index(_DEFAULT_BINDER) + 1 :]
            found += [(profile.scheduler_name, name) for name in behind]
    return found


def _check_fit_args(profile: Profile) -> None:
    """Raise ConfigError for wrong NodeResourcesFit arguments, if it is enabled; kube-scheduler checks only then."""
    args = profile.raw_args("NodeResourcesFit")
    needed = "NodeResourcesFit" in profile.plugins.enabled_names()
    if needed and isinstance(args, NodeResourcesFitArgs) and (faults := validate_fit_args(args)):
        raise ConfigError(f'initializing plugin "NodeResourcesFit": {aggregate(faults)}')


def _plugins_at(profile: Profile, point: ExtensionPoint, registry: PointMap) -> list[WeightedPlugin]:
    explicit = getattr(profile.plugins, point.field)
    expanded = _expand_multi_point(profile, point, registry)
    overriding = [plugin for plugin in explicit.enabled if plugin.name in expanded]
    only_explicit = [plugin for plugin in explicit.enabled if plugin.name not in expanded]
    overridden = {plugin.name for plugin in overriding}
    inherited = [plugin for name, plugin in expanded.items() if name not in overridden]
    return [(plugin.name, plugin.weight or 1) for plugin in overriding + inherited + only_explicit]


def _check_explicit(enabled: tuple[Plugin, ...], point: ExtensionPoint, registry: PointMap) -> None:
    seen: set[str] = set()
    for plugin in enabled:
        if plugin.name not in registry:
            raise ConfigError(f'{point.interface} "{plugin.name}" does not exist')
        if point not in registry[plugin.name]:
            raise ConfigError(f'plugin "{plugin.name}" does not extend {point.interface} plugin')
        _add_once(plugin.name, point, seen)


def _expand_multi_point(profile: Profile, point: ExtensionPoint, registry: PointMap) -> Mapping[str, Plugin]:
    """Return, by name and in order, the multiPoint plugins that run at this point and are not disabled there."""
    explicit = getattr(profile.plugins, point.field)
    disabled = {plugin.name for plugin in explicit.disabled}
    if "*" in disabled:
        return {}
    overridden = {plugin.name for plugin in explicit.enabled}
    expanded: dict[str, Plugin] = {}
    seen: set[str] = set()
    for plugin in profile.plugins.multi_point.enabled:
        if plugin.name not in registry:
            raise ConfigError(f'{point.interface} "{plugin.name}" does not exist')
        if point not in registry[plugin.name] or plugin.name in disabled:
            continue
        if plugin.name not in overridden:  # naming it at the point is an override, and may repeat
            _add_once(plugin.name, point, seen)
        expanded.setdefault(plugin.name, plugin)
    return expanded


def _add_once(name: str, point: ExtensionPoint, seen: set[str]) -> None:
    if name in seen:
        raise ConfigError(f'plugin "{name}" already registered as "{point.interface}"')
    seen.add(name)


def _check_cardinality(scheduler: str, lists: Mapping[ExtensionPoint, list[WeightedPlugin]]) -> None:
    sorters = len(lists[ExtensionPoint.QUEUE_SORT])
    if sorters != 1:
        raise ConfigError(
            f'only one queue sort plugin required for profile with scheduler name "{scheduler}", but got {sorters}'
        )
    if not lists[ExtensionPoint.BIND]:
        raise ConfigError(f'at least one bind plugin is needed for profile with scheduler name "{scheduler}"')
    if len(lists[ExtensionPoint.PLACEMENT_GENERATE]) > 1:
        raise ConfigError(
            f'at most one placement generate plugin is allowed for profile with scheduler name "{scheduler}"'
        )
