"""Out-of-tree plugins: found by the name in a profile, loaded, and constructed.

A plugin is a class. A profile names it `module:Class`, or by the name under which an installed package offers it in the
entry point group `kscheduler.plugins`; or its arguments describe a guest, a plugin compiled to wasm, for which
`GuestClasses` makes a class. kube-scheduler's names always mean kube-scheduler's plugins. The class is called with its
arguments and a Handle; its methods determine its extension points. Every configuration fault of a plugin is found here,
before the scheduler starts, and the error names the field of the profile.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kscheduler.api.decode import explain
from kscheduler.config.decode import describe, describe_kind
from kscheduler.config.duration import Duration
from kscheduler.config.extension_points import KNOWN_PLUGINS, ExtensionPoint, PointMap
from kscheduler.config.secrets import secret_texts, shown_arguments
from kscheduler.config.types import ConfigStruct, Profile, SchedulerConfig
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.framework.events import ClusterEvent, Registration
from kscheduler.framework.fence import ASYNCHRONOUS, Fence
from kscheduler.framework.interface import EXTENSION_POINTS, Handle, Plugin, extension_points
from kscheduler.input.decoding import convert
from kscheduler.input.redaction import Secret, hide_parts, hide_urls

ENTRY_POINTS = "kscheduler.plugins"
# Names that statuses and metrics use for something else.
RESERVED = KNOWN_PLUGINS.keys() | {"Extender", "Gangs"}

MULTI_POINT = "multiPoint"
_NEEDS = {"filter_table": "filter", "score_table": "score", "normalize_table": "score_table", "unreserve": "reserve"}


class PluginArgs(ConfigStruct, frozen=True):
    """Base class of a plugin's arguments: frozen; unknown fields are errors; field names are camelCase in the file."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded plugin class, with the name under which the profile configures it."""

    configured: str
    kind: type[Any]
    args: type[PluginArgs] | None  # None: the plugin takes the plain document
    is_guest: bool = False  # a wasm plugin, whose class was made for these arguments

    @property
    def points(self) -> frozenset[ExtensionPoint]:
        return frozenset(ExtensionPoint(point) for point in extension_points(self.kind))


class GuestClasses(Protocol):
    """Makes plugin classes for guests (plugins compiled to wasm), which are described by the plugin's arguments."""

    def is_guest(self, document: Any) -> bool:
        """Return True if a plugin's arguments describe a guest, i.e. a plugin compiled to wasm."""
        ...

    def class_of(self, name: str, document: Any, path: str) -> type[Any]:
        """Return the guest's class, named `name`; equal input gives the same class.

        Raises ConfigError that names `path`.
        """
        ...


def find_plugins(config: SchedulerConfig, guests: GuestClasses | None = None) -> PointMap:
    """Return the out-of-tree plugins that some profile enables, with their extension points; checks their arguments.

    Raises ConfigError, with the path of the field, for what cannot be loaded. A name that is neither kube-scheduler's,
    nor `module:Class`, nor an entry point is left out: the check of the profiles reports it as unknown.
    """
    found: dict[str, frozenset[ExtensionPoint]] = {}
    kinds: dict[str, Loaded] = {}  # a plugin's own name -> the class that has it in some profile
    for index, profile in enumerate(config.profiles):
        where = f"profiles[{index}]"
        for loaded in load_plugins(profile, where, guests).values():
            decode_args(loaded, profile, where)
            other = kinds.setdefault(loaded.kind.name, loaded)
            if other.kind is not loaded.kind and not (other.is_guest and loaded.is_guest):
                raise _same_name(f"{where}.plugins", loaded, other)
            if other.points != loaded.points:
                raise _other_points(f"{where}.plugins", loaded, other)
            found[loaded.configured] = loaded.points
    return found


def load_plugins(profile: Profile, where: str, guests: GuestClasses | None) -> Mapping[str, Loaded]:
    """Return the out-of-tree plugins of a profile by configured name.

    `where`: the profile's path, for error messages.
    """
    loaded: dict[str, Loaded] = {}
    owner: dict[str, Loaded] = {}  # a plugin's own name -> the plugin
    for point, name in _enabled(profile):
        if name in loaded or name in KNOWN_PLUGINS:
            continue
        found = _load_guest(name, profile, where, guests) or _load(name, f"{where}.plugins.{point}")
        if found is None:
            continue
        other = owner.setdefault(found.kind.name, found)
        if other is not found:
            raise _same_name(f"{where}.plugins.{point}", found, other)
        loaded[name] = found
    return loaded


def _same_name(path: str, one: Loaded, other: Loaded) -> ConfigError:
    """Return the error for two plugins under one name: statuses, events and metrics could not distinguish them."""
    names = f'"{one.configured}" and "{other.configured}"'
    return ConfigError(f'{path}: {names} are both plugins of the name "{one.kind.name}"')


def _other_points(path: str, one: Loaded, other: Loaded) -> ConfigError:
    """Return the error for two wasm plugins with one name but different extension points in two profiles."""
    points = f"{', '.join(sorted(other.points))}, as in another profile, got {', '.join(sorted(one.points))}"
    return ConfigError(f'{path}: "{one.configured}": expected the extension points {points}')


def _enabled(profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield (extension point, plugin name) of each enabled plugin.

    Positions in the configuration file are not known any more, since the defaults are merged in.
    """
    sets = {MULTI_POINT: profile.plugins.multi_point}
    sets |= {point.value: getattr(profile.plugins, point.field) for point in ExtensionPoint}
    for point, plugins in sets.items():
        for plugin in plugins.enabled:
            yield point, plugin.name


# --- finding the class --------------------------------------------------------------------------------------------


def _load(name: str, path: str) -> Loaded | None:
    reference = name if ":" in name else _entry_point(name, path)
    if reference is None:
        return None
    module, _, attribute = reference.partition(":")
    where = f'{path}: "{name}"'
    return inspect_plugin(name, _attribute(_import(module, where), attribute, where), where)


def _load_guest(name: str, profile: Profile, where: str, guests: GuestClasses | None) -> Loaded | None:
    index, document = _document(name, profile)
    if guests is None or index is None or ":" in name or not guests.is_guest(document):
        return None
    path = f"{where}.pluginConfig[{index}].args"
    found = inspect_plugin(name, guests.class_of(name, document, path), path)
    return Loaded(found.configured, found.kind, found.args, is_guest=True)


def inspect_plugin(name: str, kind: type[Any], where: str) -> Loaded:
    """Return the plugin class with the name it is configured under. Raises ConfigError if the class is not a plugin."""
    return Loaded(name, kind, _checked(kind, where))


def _entry_point(name: str, path: str) -> str | None:
    """Return the plugin that an installed package offers under this entry point name, as `module:Class`, or None."""
    from importlib.metadata import entry_points  # 9 ms, and most profiles name no plugin by an entry point

    entries = entry_points(group=ENTRY_POINTS, name=name)
    offers = {f"{entry.module}:{entry.attr}" for entry in entries}  # one package can be found twice on the path
    if len(offers) > 1:
        raise ConfigError(
            f'{path}: "{name}": several packages offer a plugin of this name: {", ".join(sorted(offers))}'
        )
    return next(iter(offers), None)


def _import(module: str, where: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            hint = "install its package, or put its directory on PYTHONPATH"
            raise ConfigError(f'{where}: no module "{module}": {hint}') from error
        raise ConfigError(f'{where}: module "{module}" needs a module that is missing: "{error.name}"') from error
    except (Exception, SystemExit) as error:
        # Importing runs the author's code, so anything can come out of it.
        raise ConfigError(f'{where}: importing module "{module}" failed: {type(error).__name__}: {error}') from error


def _attribute(module: Any, attribute: str, where: str) -> type[Any]:
    target = module
    for part in attribute.split("."):
        target = getattr(target, part, None)
        if target is None:
            raise ConfigError(f'{where}: module "{module.__name__}" has no class "{attribute}"')
    if not isinstance(target, type):
        raise ConfigError(f'{where}: expected a class, "{attribute}" is of type {type(target).__name__}')
    return target


def _checked(kind: type[Any], where: str) -> type[PluginArgs] | None:
    """Return the type of a plugin class's arguments (`Args`), or None.

    Raises ConfigError if the class is not a plugin.
    """
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not name:
        raise ConfigError(f'{where}: expected a class attribute "name" that is a text, got {describe_attribute(name)}')
    if name in RESERVED:
        raise ConfigError(f'{where}: the name "{name}" is taken; give the plugin another one')
    for method, needed in _NEEDS.items():
        if hasattr(kind, method) and not hasattr(kind, needed):
            raise ConfigError(f'{where}: the plugin has "{method}", which needs "{needed}" beside it')
    for method in EXTENSION_POINTS.values():
        if not callable(getattr(kind, method, extension_points)):
            raise ConfigError(f"{where}: {method}: expected a method, got {describe_attribute(getattr(kind, method))}")
    for method in (*EXTENSION_POINTS.values(), *_NEEDS):
        # Nobody would await it: what it does would never be done.
        if method not in ASYNCHRONOUS and inspect.iscoroutinefunction(getattr(kind, method, None)):
            may_wait = " and ".join(sorted(ASYNCHRONOUS))
            raise ConfigError(
                f"{where}: {method}: expected a plain method, got a coroutine (async def); {may_wait} may wait"
            )
    if not extension_points(kind):
        methods = ", ".join(EXTENSION_POINTS.values())
        raise ConfigError(f"{where}: expected a method of at least one extension point ({methods}), found none")
    args = getattr(kind, "Args", None)
    if args is not None and not (isinstance(args, type) and issubclass(args, PluginArgs)):
        raise ConfigError(f"{where}: Args: expected a subclass of kscheduler.framework.PluginArgs")
    return args


def describe_attribute(value: object) -> str:
    return "none" if value is None else describe(value) if isinstance(value, (str, int, float)) else repr(value)[:60]


# --- arguments ----------------------------------------------------------------------------------------------------


def decode_args(loaded: Loaded, profile: Profile, where: str) -> Any:
    """Return the plugin's arguments as an instance of its `Args`; without such a class, as the plain document or {}.

    apiVersion and kind, which kube-scheduler's own arguments carry, are left out.
    """
    index, document = _document(loaded.configured, profile)
    path = f"{where}.pluginConfig[{index}].args" if index is not None else f"{where}.pluginConfig"
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected a mapping, got {describe_kind(document)}")
    given = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    if loaded.args is None:
        return given
    try:
        return convert(given, loaded.args, dec_hook=_decode_custom)
    except DecodeError as error:
        why = explain(error, shown_arguments(given))
        raise ConfigError(f'{path}: arguments of plugin "{loaded.configured}": {why}') from error
    except (TypeError, NotImplementedError) as error:
        raise ConfigError(f'plugin "{loaded.configured}": Args has a field no file can fill: {error}') from error


def _document(name: str, profile: Profile) -> tuple[int | None, Any]:
    for index, entry in enumerate(profile.plugin_config):
        if entry.name == name:
            return index, {} if entry.args is None else entry.args
    return None, {}


def _decode_custom(kind: type[Any], value: Any) -> Any:
    if kind is Duration:
        return Duration.parse(value)
    if issubclass(kind, Secret):
        if not isinstance(value, str):
            raise ValueError("expected a string")
        return kind(value)
    raise NotImplementedError(f"no way to read a {kind.__name__}")


# --- constructing -------------------------------------------------------------------------------------------------


def make_plugin(loaded: Loaded, profile: Profile, handle: Handle) -> Plugin:
    """Construct the plugin, and return it in a `Fence`, which checks its answers.

    ConfigError if its constructor fails.
    """
    where = f'profile "{profile.scheduler_name}"'
    args = decode_args(loaded, profile, where)
    where = f'{where}: initializing plugin "{loaded.configured}"'
    events: Any = ()
    try:
        plugin = loaded.kind(args, handle)
        fence = Fence(plugin, handle)
        if hasattr(plugin, "events_to_register"):
            where = f"{where}: events_to_register"
            events = plugin.events_to_register()
            if isinstance(events, Iterable):
                events = list(events)  # which runs the plugin's code, if it is a generator
    except (Exception, SystemExit) as error:
        text = hide_parts(hide_urls(str(error)), secret_texts(_document(loaded.configured, profile)[1]))
        raise ConfigError(f"{where}: {type(error).__name__}: {text}") from error
    _check_events(events, where)
    return fence


def _check_events(events: Any, where: str) -> None:
    """Raise ConfigError unless these are what a plugin may register."""
    if not isinstance(events, Iterable):
        raise ConfigError(f"{where}: expected ClusterEvents, got {describe_attribute(events)}")
    if not all(isinstance(event, (ClusterEvent, Registration)) for event in events):
        raise ConfigError(f"{where}: expected ClusterEvents, got {str(events)[:80]}")
    for event in events:
        hint = event.hint if isinstance(event, Registration) else None
        if inspect.iscoroutinefunction(hint):  # nobody would await it, and what it returns is never False
            raise ConfigError(f"{where}: expected a plain function as queueing hint, got a coroutine (async def)")
        if hint is not None and not callable(hint):
            raise ConfigError(f"{where}: expected a function as queueing hint, got {describe_attribute(hint)}")
