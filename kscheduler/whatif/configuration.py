"""Changes a configuration: weights and plugins of its profiles, and values at paths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from kscheduler.config.document import parse_document
from kscheduler.config.dump import to_v1
from kscheduler.config.extension_points import OWN_PLUGINS, ExtensionPoint, PointMap
from kscheduler.config.load import decode_config, parse_config
from kscheduler.config.profiles import effective_plugins
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.framework.plugins.registry import known_plugins
from kscheduler.input.int32 import MAX_INT32
from kscheduler.simulator.configuration import check_simulated
from kscheduler.sweep.patches import parse_path, patched
from kscheduler.sweep.spelling import did_you_mean
from kscheduler.wasm.plugins import GuestPlugins

SOURCE = "the changed configuration"


@dataclass(frozen=True, slots=True)
class ConfigurationChanges:
    """What is to be different about the configuration, in all of its profiles; values at paths are set last."""

    weights: tuple[tuple[str, int], ...] = ()  # (plugin, its weight at Score)
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    values: tuple[tuple[str, Any], ...] = ()  # (path, value)

    @property
    def is_empty(self) -> bool:
        return not (self.weights or self.enabled or self.disabled or self.values)


def parse_weight(flag: str, text: str) -> tuple[str, int]:
    """Parse `PLUGIN=N`. Raises ConfigError."""
    plugin, _, number = text.rpartition("=")
    if not plugin or not number.isdecimal() or not number.isascii() or not 0 < int(number[:12]) <= MAX_INT32:
        raise ConfigError(f'{flag}: expected a plugin and its weight, such as NodeResourcesFit=5, got "{text}"')
    return plugin, int(number)


def parse_value(flag: str, text: str) -> tuple[str, Any]:
    """Parse `PATH=VALUE`, where the value is YAML. Raises ConfigError."""
    depth = 0
    for at, character in enumerate(text):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "=" and not depth:
            path, value = text[:at], text[at + 1 :]
            break
    else:
        raise ConfigError(f'{flag}: expected PATH=VALUE, such as podMaxBackoffSeconds=5, got "{text}"')
    try:
        parse_path(path)
        return path, parse_document(f"value: {value}".encode(), flag)["value"]
    except ConfigError as error:
        raise ConfigError(f"{flag}: {error}" if flag not in str(error) else str(error)) from None


def changed_config(config: SchedulerConfig, changes: ConfigurationChanges, guests: GuestPlugins) -> SchedulerConfig:
    """Return the changed configuration. Raises ConfigError for an unknown plugin, or if the result is invalid."""
    if changes.is_empty:
        return config
    document = to_v1(config, with_secrets=True)
    for profile in document["profiles"]:
        for plugin in changes.enabled:
            _enable(profile, plugin)
        for plugin in changes.disabled:
            _disable(profile, plugin)
        for plugin, weight in changes.weights:
            _set_weight(profile, plugin, weight)
    find = partial(find_plugins, guests=guests)
    try:
        document = patched(document, dict(changes.values))
        further = {**find(config), **find(decode_config(document, config.release))}  # beyond kube-scheduler's
    except ConfigError as error:
        raise ConfigError(f"{SOURCE}: {error}") from error
    _check_names(changes, {*config.release.points, *OWN_PLUGINS, *further})
    text = msgspec.json.encode(document).decode()
    changed = parse_config(text, SOURCE, find_plugins=find, release=config.release)
    check_simulated(changed, SOURCE, guests)
    _check_weights(changes, changed, guests)
    return changed


# --- a profile, as a document -----------------------------------------------------------------------------------


def _plugin_sets(profile: dict[str, Any]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    plugins: dict[str, dict[str, list[dict[str, Any]]]] = profile.setdefault("plugins", {})
    return plugins


def _listed(profile: dict[str, Any], point: str, kind: str) -> list[dict[str, Any]]:
    return _plugin_sets(profile).setdefault(point, {}).setdefault(kind, [])


def _enable(profile: dict[str, Any], plugin: str) -> None:
    """Enable a plugin at all of its extension points."""
    for sets in _plugin_sets(profile).values():
        sets["disabled"] = [each for each in sets.get("disabled", ()) if each["name"] != plugin]
    enabled = _listed(profile, "multiPoint", "enabled")
    if all(each["name"] != plugin for each in enabled):
        enabled.append({"name": plugin})


def _disable(profile: dict[str, Any], plugin: str) -> None:
    for sets in _plugin_sets(profile).values():
        sets["enabled"] = [each for each in sets.get("enabled", ()) if each["name"] != plugin]
    _listed(profile, "multiPoint", "disabled").append({"name": plugin})


def _set_weight(profile: dict[str, Any], plugin: str, weight: int) -> None:
    """Set the weight where it counts: at Score if the plugin is listed there, else in multiPoint."""
    for point in ("score", "multiPoint"):
        for entry in _plugin_sets(profile).get(point, {}).get("enabled", ()):
            if entry["name"] == plugin:
                entry["weight"] = weight
                return


# --- checks -----------------------------------------------------------------------------------------------------


def _check_names(changes: ConfigurationChanges, known: set[str]) -> None:
    """Raise ConfigError, with the nearest name, for a plugin that does not exist."""
    named = [
        *(("--plugin", name) for name in changes.enabled),
        *(("--no-plugin", name) for name in changes.disabled),
        *(("--weight", name) for name, _ in changes.weights),
    ]
    for flag, name in named:
        if name not in known:
            raise ConfigError(f"{flag}: {did_you_mean('plugin', name, sorted(known))}")


def _check_weights(changes: ConfigurationChanges, config: SchedulerConfig, guests: GuestPlugins) -> None:
    """Raise ConfigError for a weight that changes nothing, because the plugin scores in no profile."""
    known: PointMap = known_plugins(config, guests)
    scoring = {
        name
        for profile in config.profiles
        for name, _ in effective_plugins(profile, known, config.release)[ExtensionPoint.SCORE]
    }
    for name, _ in changes.weights:
        if name not in scoring:
            raise ConfigError(f'--weight: expected a plugin that scores in a profile, got "{name}" (see --plugin)')
