"""Writes a configuration as a document, for /configz, `config show` and --write-config-to.

Secrets are shown as `<hidden>` unless they are requested. With them the document can be used as a configuration file,
but must only be shown to its owner.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kscheduler.config.duration import Duration
from kscheduler.config.secrets import shown_arguments
from kscheduler.config.types import API_VERSION, PluginArgs, PluginConfig, SchedulerConfig
from kscheduler.input.redaction import Secret
from kscheduler.input.yaml_documents import write_yaml


def to_v1(config: SchedulerConfig, *, with_secrets: bool = False) -> dict[str, Any]:
    """Return plain values under the API's names; with secrets, `load.decode_config` reads an equal object from them.

    Without secrets they can still be read as a configuration, but the `<hidden>` values do not work as credentials.
    """
    document: dict[str, Any] = msgspec.to_builtins(config, enc_hook=_encode_all if with_secrets else _encode)
    del document["release"]
    for profile, source in zip(document["profiles"], config.profiles, strict=True):
        profile["plugins"] = {point: sets for point, sets in profile["plugins"].items() if any(sets.values())}
        profile["pluginConfig"] = [_plugin_config(entry, with_secrets) for entry in source.plugin_config]
    pruned: dict[str, Any] = _without_none(document)
    return pruned


def to_yaml(config: SchedulerConfig, *, with_secrets: bool = False) -> str:
    return write_yaml(to_v1(config, with_secrets=with_secrets))


def _plugin_config(entry: PluginConfig, with_secrets: bool) -> dict[str, Any]:
    args = entry.args
    if isinstance(args, PluginArgs):
        kind = {"apiVersion": API_VERSION, "kind": type(args).__name__}
        args = kind | msgspec.to_builtins(args, enc_hook=_encode_all if with_secrets else _encode)
    elif not with_secrets:
        args = shown_arguments(args)
    return {"name": entry.name, "args": args}


def _encode_all(value: Any) -> Any:
    return value.reveal() if isinstance(value, Secret) else _encode(value)


def _encode(value: Any) -> Any:
    if isinstance(value, (Duration, Secret)):
        return str(value)
    raise NotImplementedError(f"no plain form of {type(value).__name__}")


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_without_none(item) for item in value]
    return value
