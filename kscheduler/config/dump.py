"""A configuration as the document it could have been read from: for /configz, `config show` and --write-config-to.

What is shown to people goes through `secrets.without_secrets` first.
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from kscheduler.config.duration import Duration
from kscheduler.config.types import API_VERSION, PluginArgs, PluginConfig, SchedulerConfig


def to_v1(config: SchedulerConfig) -> dict[str, Any]:
    """Plain values under the API's names; `load.decode_config` reads them back to an equal configuration."""
    document: dict[str, Any] = msgspec.to_builtins(config, enc_hook=_encode)
    for profile, source in zip(document["profiles"], config.profiles, strict=True):
        profile["plugins"] = {point: sets for point, sets in profile["plugins"].items() if any(sets.values())}
        profile["pluginConfig"] = [_plugin_config(entry) for entry in source.plugin_config]
    pruned: dict[str, Any] = _without_none(document)
    return pruned


def to_yaml(config: SchedulerConfig) -> str:
    return yaml.safe_dump(to_v1(config), sort_keys=False, default_flow_style=False, width=120)


def _plugin_config(entry: PluginConfig) -> dict[str, Any]:
    args = entry.args
    if isinstance(args, PluginArgs):
        kind = {"apiVersion": API_VERSION, "kind": type(args).__name__}
        args = kind | msgspec.to_builtins(args, enc_hook=_encode)
    return {"name": entry.name, "args": args}


def _encode(value: Any) -> Any:
    if isinstance(value, Duration):
        return str(value)
    raise NotImplementedError(f"no plain form of {type(value).__name__}")


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_without_none(item) for item in value]
    return value
