"""Loads a configuration file to a validated `SchedulerConfig`.

The steps are:
1. Read the document.
2. Check apiVersion and kind.
3. Decode strictly; plugin arguments are decoded by the plugin's name.
4. Set defaults.
5. Validate.
6. Try to expand the profiles.

A step that finds errors reports all of them, and is the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kscheduler.config.decode import Faults, aggregate, decode, describe, describe_kind, strict_error
from kscheduler.config.defaults import apply_defaults, without_defaults
from kscheduler.config.document import parse_document, read_document
from kscheduler.config.extension_points import ExtensionPoint, PointMap
from kscheduler.config.plugin_args import ALL_ARGS
from kscheduler.config.profiles import check_profiles
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.config.types import (
    API_GROUP,
    API_VERSION,
    DEFAULT_SCHEDULER_NAME,
    KIND,
    PluginConfig,
    Profile,
    SchedulerConfig,
)
from kscheduler.config.validation import validate
from kscheduler.errors import ConfigError, InternalError

# The plugins beyond kube-scheduler's that the profiles of a configuration name; ConfigError if one cannot be loaded.
FindPlugins = Callable[[SchedulerConfig], PointMap]


def load_config(
    path: str, *, find_plugins: FindPlugins | None = None, release: Release = DEFAULT_RELEASE
) -> SchedulerConfig:
    """Return the configuration of a YAML or JSON file, with the defaults of a release, and validated.

    Without `find_plugins` profiles may only use kube-scheduler's plugins. ConfigError names the file and, in
    kube-scheduler's notation, every field that is wrong.
    """
    return config_of(read_document(path), path, find_plugins, release)


def config_reader(path: str, find_plugins: FindPlugins) -> Callable[[Release], SchedulerConfig]:
    """Return a function that returns the configuration of a file in a release; of "" it is the default one.

    The file is read once, now: it may be a pipe, and may change before the release is known.
    """
    if not path:
        return default_config
    document = read_document(path)
    return lambda release: config_of(document, path, find_plugins, release)


def parse_config(
    text: str,
    source: str = "configuration",
    *,
    find_plugins: FindPlugins | None = None,
    release: Release = DEFAULT_RELEASE,
) -> SchedulerConfig:
    """Parse a configuration as `load_config` does, but from a text; `source` names its origin in messages."""
    return config_of(parse_document(text.encode(), source), source, find_plugins, release)


def default_config(release: Release = DEFAULT_RELEASE) -> SchedulerConfig:
    """Return the configuration that an empty file stands for in a release."""
    return apply_defaults(SchedulerConfig(release=release))


def in_release(
    config: SchedulerConfig, release: Release, source: str, find_plugins: FindPlugins | None = None
) -> SchedulerConfig:
    """Return a configuration as it is in another release: defaults of its own release become those of the other.

    Raises ConfigError, naming `source`, if it is not valid there.
    """
    if release == config.release:
        return config
    try:
        changed = apply_defaults(msgspec.structs.replace(without_defaults(config), release=release))
        check_config(changed, find_plugins)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    return changed


def config_of(
    document: dict[str, Any], source: str, find_plugins: FindPlugins | None, release: Release
) -> SchedulerConfig:
    """Return the configuration in a document, as `load_config` does."""
    try:
        config = apply_defaults(decode_config(document, release))
        check_config(config, find_plugins)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    return config


def check_config(config: SchedulerConfig, find_plugins: FindPlugins | None) -> None:
    """Raise ConfigError with all errors of a decoded configuration whose defaults are set."""
    if faults := validate(config):
        raise ConfigError(aggregate(faults))
    check_profiles(config, find_plugins(config) if find_plugins else None)


def decode_config(document: dict[str, Any], release: Release = DEFAULT_RELEASE) -> SchedulerConfig:
    """Return a document as typed values: with defaults only for absent fields, and without validation.

    Fields that the release does not have are unknown.
    """
    _check_kind(document)
    faults = Faults()
    faults.unknown += _later_points(document, release)
    config = decode(SchedulerConfig, _name_single_profile(document), faults=faults)
    if config is None:
        faults.raise_if_any()
        raise InternalError("a configuration was not read, and nothing says why")
    profiles = tuple(_decode_plugin_config(profile, index, faults) for index, profile in enumerate(config.profiles))
    faults.raise_if_any()
    return msgspec.structs.replace(config, profiles=profiles, release=release)


def _later_points(document: dict[str, Any], release: Release) -> list[str]:
    """Return the errors for extension points that only later releases have."""
    later = [point.value for point in ExtensionPoint if point not in release.extension_points]
    profiles = document.get("profiles")
    return [
        f'unknown field "profiles[{index}].plugins.{point}"'
        for index, profile in enumerate(profiles if isinstance(profiles, list) else ())
        if isinstance(profile, dict) and isinstance(plugins := profile.get("plugins"), dict)
        for point in later
        if point in plugins
    ]


def _check_kind(document: dict[str, Any]) -> None:
    for key, expected in (("kind", KIND), ("apiVersion", API_VERSION)):
        value = document.get(key)
        if value is None or value == "":
            raise ConfigError(f'{key}: expected "{expected}", but it is missing')
        if not isinstance(value, str):
            raise ConfigError(f'{key}: expected "{expected}", got {describe(value)}')
    version, kind = document["apiVersion"], document["kind"]
    if version != API_VERSION:
        raise ConfigError(
            f'no kind "{kind}" is registered for version "{version}": expected {KIND} of version "{API_VERSION}"'
        )
    if kind != KIND:
        raise ConfigError(f"couldn't decode as {KIND}, got {version}, Kind={kind}")


def _name_single_profile(document: dict[str, Any]) -> dict[str, Any]:
    """Name the only profile `default-scheduler` if it has no name field; an empty name stays, and is refused later."""
    profiles = document.get("profiles")
    if isinstance(profiles, list) and len(profiles) == 1:
        profile = profiles[0] if profiles[0] is not None else {}
        if isinstance(profile, dict) and profile.get("schedulerName") is None:
            return {**document, "profiles": [{**profile, "schedulerName": DEFAULT_SCHEDULER_NAME}]}
    return document


def _decode_plugin_config(profile: Profile, index: int, faults: Faults) -> Profile:
    entries = (
        _decode_args(entry, f".profiles[{index}].pluginConfig[{position}]", faults)
        for position, entry in enumerate(profile.plugin_config)
    )
    return msgspec.structs.replace(profile, plugin_config=tuple(entries))


def _decode_args(entry: PluginConfig, path: str, faults: Faults) -> PluginConfig:
    kind = ALL_ARGS.get(entry.name)
    if kind is None or entry.args is None:
        return entry
    if not isinstance(entry.args, dict):
        faults.wrong.append(f"decoding {path}: args: expected a mapping, got {describe_kind(entry.args)}")
        return entry
    document = dict(entry.args)
    fault = _args_kind_fault(entry.name, document.pop("apiVersion", None), document.pop("kind", None))
    if fault:
        faults.wrong.append(f"decoding {path}: {fault}")
        return entry
    inner = Faults()
    args = decode(kind, document, faults=inner)
    prefix = f"decoding args for plugin {entry.name}"
    faults.wrong += [f"decoding {path}: {prefix}: {message}" for message in inner.wrong]
    if inner.unknown:  # the doubled words are kube-scheduler's
        faults.unknown.append(f"decoding {path}: {strict_error([f'{prefix}: {strict_error(inner.unknown)}'])}")
    return PluginConfig(name=entry.name, args=args)


_ARGS_KINDS = frozenset(kind.__name__ for kind in ALL_ARGS.values())


def _args_kind_fault(plugin: str, version: Any, kind: Any) -> str:
    """Return why this apiVersion and kind do not belong to the plugin's arguments, or "". Both may be absent."""
    expected = f"{plugin}Args"
    if version not in (None, "", API_VERSION):
        return f'args for plugin {plugin}: apiVersion: expected "{API_VERSION}", got {describe(version)}'
    if kind not in (None, "", expected):
        if kind not in _ARGS_KINDS:
            return f'decoding args for plugin {plugin}: no kind "{kind}" is registered for version "{API_VERSION}"'
        return f"args for plugin {plugin} were not of type {expected}.{API_GROUP}, got {kind}.{API_GROUP}"
    return ""
