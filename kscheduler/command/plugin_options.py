"""The options of `kscheduler plugin`. Imports nothing of the plugin host, so that other commands start fast."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """The options of `kscheduler plugin inspect FILE`."""

    file: str  # a path or a URL
    output: str = "text"  # or "json"
    allow_insecure: bool = False


@dataclass(frozen=True, slots=True)
class PluginTestOptions:
    """The options of `kscheduler plugin test FILE --cluster CLUSTER --pod POD`."""

    file: str  # a path or a URL
    cluster: str  # file with nodes, and pods on them
    pod: str  # file with the pods to be scheduled
    args: str = ""  # file with the plugin's arguments as in pluginConfig, without guestURL
    config: str | None = None  # guestConfig, replaces that of the arguments' file
    output: str = "text"
    allow_insecure: bool = False
    plugin_cache_dir: str | None = None
