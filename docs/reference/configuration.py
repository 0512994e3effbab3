"""The fields of the configuration files: names, types, defaults and meanings, from the classes that decode them.

A field's meaning is the comment beside it in the source, or the comment lines right above it.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterator

import msgspec

from docs.reference.markdown import code, escaped, sentence, table
from kscheduler.config.defaults import apply_defaults
from kscheduler.config.duration import Duration
from kscheduler.config.metric_policy import Quantity
from kscheduler.config.plugin_args import ALL_ARGS
from kscheduler.config.routing import RoutingConfig
from kscheduler.config.types import (
    ClientConnection,
    ConfigStruct,
    Extender,
    LeaderElection,
    PluginConfig,
    PodTopologySpreadArgs,
    Profile,
    ResourceSpec,
    SchedulerConfig,
)
from kscheduler.input.redaction import Secret, SecretURL

INTRODUCTION = """\
# Configuration files

`kscheduler run --config FILE` reads a KubeSchedulerConfiguration, kube-scheduler's own format, as YAML or JSON. An
unknown field, a wrong type or a wrong value is an error that names the field. `kscheduler config validate FILE` reports
it without a cluster, and `kscheduler config show FILE` prints the file with all defaults.

This page is made from the classes that decode the files.
"""
HIDDEN = {(SchedulerConfig, "release")}  # in no document

_FIELD = re.compile(r"^    (\w+): ")


def page() -> str:
    """Return the page: KubeSchedulerConfiguration, the arguments of each plugin, RoutingConfiguration."""
    seen: set[type[ConfigStruct]] = set()
    parts = [INTRODUCTION, "## KubeSchedulerConfiguration\n", _intro(SchedulerConfig), _fields(SchedulerConfig)]
    seen.add(SchedulerConfig)
    parts += _sections(_used(SchedulerConfig), seen)
    parts.append("## Arguments of plugins\n\nThey stand in a profile's `pluginConfig` under the plugin's name.\n")
    for plugin, kind in sorted(ALL_ARGS.items()):
        parts.append(f"### {plugin} {{: #{plugin.lower()} }}\n\n`kind: {kind.__name__}`. {_doc(kind)}\n")
        parts.append(_fields(kind))
        seen.add(kind)
    for kind in ALL_ARGS.values():
        parts += _sections(_used(kind), seen)
    parts.append("## RoutingConfiguration\n\nThe file of `kscheduler run --routing-config`.\n")
    parts.append(_fields(RoutingConfig))
    parts += _sections(_used(RoutingConfig), seen | {RoutingConfig})
    return "\n".join(part for part in parts if part)


def all_kinds() -> list[type[ConfigStruct]]:
    """Return every class of which a configuration file is made."""
    found: list[type[ConfigStruct]] = []
    waiting: list[type[ConfigStruct]] = [SchedulerConfig, *ALL_ARGS.values(), RoutingConfig]
    while waiting:
        kind = waiting.pop(0)
        if kind not in found:
            found.append(kind)
            waiting += _used(kind)
    return found


def fields(kind: type[ConfigStruct]) -> Iterator[tuple[str, str, str, str]]:
    """Yield (name in the file, type, default, meaning), all Markdown, of each field."""
    hints = typing.get_type_hints(kind, include_extras=True)
    texts = _meanings(kind)
    effective = _effective(kind)
    for field in msgspec.structs.fields(kind):
        if (kind, field.name) in HIDDEN:
            continue
        default = getattr(effective, field.name)
        yield (
            field.encode_name,
            _type(hints[field.name]),
            _default(default),
            sentence(escaped(texts.get(field.name, ""))),
        )


def _fields(kind: type[ConfigStruct]) -> str:
    rows = [(code(name), shown, default, meaning) for name, shown, default, meaning in fields(kind)]
    return table(("Field", "Type", "Default", "Meaning"), rows) if rows else "It has no fields.\n"


def _sections(kinds: list[type[ConfigStruct]], seen: set[type[ConfigStruct]]) -> list[str]:
    """Return a section for each class, and for those that it uses, which is not in `seen`; adds them there."""
    parts: list[str] = []
    for kind in kinds:
        if kind in seen:
            continue
        seen.add(kind)
        parts += [f"### {kind.__name__} {{: #{_anchor(kind)} }}\n", _intro(kind), _fields(kind)]
        parts += _sections(_used(kind), seen)
    return parts


def _intro(kind: type[ConfigStruct]) -> str:
    text = _doc(kind)
    return f"{text}\n" if text else ""


def _doc(kind: type[ConfigStruct]) -> str:
    own = kind.__dict__.get("__doc__") or ""
    return escaped(_camel(inspect.cleandoc(own)))


def _camel(text: str) -> str:
    """Return a docstring with names of fields, in backticks, as they are in the file."""
    return re.sub(r"`([a-z]+(?:_[a-z]+)+)`", lambda found: f"`{msgspec_name(found[1])}`", text)


def msgspec_name(name: str) -> str:
    """Return the name in the file of a field: `max_skew` becomes `maxSkew`."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _meanings(kind: type[ConfigStruct]) -> dict[str, str]:
    """Return field -> its comment in the source, of the class and those that it inherits from."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if not issubclass(each, ConfigStruct) or each is ConfigStruct:
            continue
        above: list[str] = []
        for line in inspect.getsource(each).splitlines():
            stripped = line.strip()
            if stripped.startswith("#"):
                above.append(stripped.lstrip("# "))
                continue
            if match := _FIELD.match(line):
                beside = line.partition("  # ")[2]
                if text := beside or " ".join(above):
                    found[match[1]] = _camel(text)
            above = []
    return found


def _effective(kind: type[ConfigStruct]) -> ConfigStruct:
    """Return a value of the class with the defaults that are set after decoding."""
    config = apply_defaults(SchedulerConfig(extenders=(Extender(),)))
    known: dict[type[ConfigStruct], ConfigStruct] = {
        LeaderElection: config.leader_election,
        ClientConnection: config.client_connection,
        Extender: config.extenders[0],
        ResourceSpec: ResourceSpec(weight=1),
        Profile: Profile(),
        PodTopologySpreadArgs: PodTopologySpreadArgs(defaulting_type="System"),
    }
    for plugin, args in ALL_ARGS.items():
        if kind is args and kind not in known:
            with_args = Profile(scheduler_name="x", plugin_config=(PluginConfig(name=plugin),))
            done = apply_defaults(SchedulerConfig(profiles=(with_args,))).profiles[0]
            return next(entry.args for entry in done.plugin_config if entry.name == plugin)  # type: ignore[no-any-return]
    return known.get(kind) or kind()


def _used(kind: type[ConfigStruct]) -> list[type[ConfigStruct]]:
    """Return the classes of the class's fields, in order."""
    found: list[type[ConfigStruct]] = []
    for name, hint in typing.get_type_hints(kind).items():
        if (kind, name) not in HIDDEN:
            found += [each for each in _classes(hint) if each not in found and each is not kind]
    return found


def _classes(hint: object) -> Iterator[type[ConfigStruct]]:
    if isinstance(hint, type) and issubclass(hint, ConfigStruct):
        yield hint
    for argument in typing.get_args(hint):
        yield from _classes(argument)


def _anchor(kind: type[ConfigStruct]) -> str:
    for plugin, args in ALL_ARGS.items():
        if args is kind:
            return plugin.lower()
    return f"kind-{kind.__name__.lower()}"


_PLAIN: dict[object, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "`true` or `false`",
    Duration: "duration",
    Secret: "text, secret",
    SecretURL: "URL",
    typing.Any: "any",
}


def _type(hint: object) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if isinstance(hint, type) and issubclass(hint, ConfigStruct):
        return f"[{hint.__name__}](#{_anchor(hint)})"
    if origin in (types.UnionType, typing.Union):
        kinds = [each for each in arguments if each is not type(None)]
        if set(kinds) == set(typing.get_args(Quantity)):
            return "quantity"
        return " or ".join(_type(each) for each in kinds)
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return f"mapping of text to {_type(arguments[1])}"
    return _PLAIN[hint]


def _default(value: object) -> str:
    if value is None or value in ("", (), {}) or isinstance(value, (Secret, SecretURL)):
        return ""
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, ConfigStruct):
        return "" if value == type(value)() else code(_written(value))
    if isinstance(value, tuple):
        return code("[" + ", ".join(_written(each) for each in value) + "]")
    if isinstance(value, dict):
        return code("{" + ", ".join(f"{name}: {_written(each)}" for name, each in value.items()) + "}")
    return code(_written(value))


def _written(value: object) -> str:
    """Return a value as YAML writes it in one line, without fields that have their default."""
    if isinstance(value, ConfigStruct):
        default = type(value)()
        parts = [
            f"{field.encode_name}: {_written(getattr(value, field.name))}"
            for field in msgspec.structs.fields(type(value))
            if getattr(value, field.name) != getattr(default, field.name)
        ]
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
