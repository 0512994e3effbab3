"""The flags of `kscheduler plugin`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial

from kscheduler.command.flags.parser import describe, from_flags
from kscheduler.command.flags.shared import add_output, add_plugin_cache
from kscheduler.config.emulated_version import add_emulated_version


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
    config: str | None = None  # guestConfig, in place of that in the arguments' file
    output: str = "text"
    allow_insecure: bool = False
    plugin_cache_dir: str | None = None
    emulated_version: str | None = None  # None: the default one


def add_plugin(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    show = commands.add_parser("inspect", help="print what a guest exports and imports; runs nothing of it")
    _add_guest(show)
    show.set_defaults(make=partial(from_flags, InspectOptions))
    test = commands.add_parser("test", help="run a guest, and print its answers about the nodes of a cluster for a pod")
    _add_guest(test)
    test.add_argument(
        "--cluster", required=True, metavar="FILE", help="nodes, and pods on them, as kubectl prints them"
    )
    test.add_argument("--pod", required=True, metavar="FILE", help="the pods to be judged")
    test.add_argument("--args", default="", metavar="FILE", help="the plugin's arguments, as in pluginConfig")
    test.add_argument(
        "--guest-config", dest="config", default=None, metavar="TEXT", help="in place of the arguments' guestConfig"
    )
    add_plugin_cache(test)
    add_emulated_version(test)
    test.set_defaults(make=partial(from_flags, PluginTestOptions))
    describe(commands)


def _add_guest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a path, or a URL: file://, https://, http://")
    parser.add_argument("--allow-insecure", action="store_true", help="take plain http from other machines too")
    add_output(parser)
