"""The flags of `kscheduler config`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

from kscheduler.command.flags.parser import describe, from_flags
from kscheduler.config.emulated_version import add_emulated_version
from kscheduler.config.gate_flag import add_feature_gates, parsed_gates


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """The options of `kscheduler config validate FILE`."""

    file: str
    emulated_version: str | None = None  # None: the default one
    feature_gates: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """The options of `kscheduler config show FILE [--expanded] [--secrets]`."""

    file: str
    expanded: bool = False  # also print the plugins of each extension point, in order and with weights
    secrets: bool = False  # print secrets as they are in the file
    emulated_version: str | None = None  # None: the default one
    feature_gates: dict[str, bool] = field(default_factory=dict)


def add_config(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    validate = commands.add_parser("validate", help="report what is wrong in a configuration file")
    validate.add_argument("file", metavar="FILE", help="a KubeSchedulerConfiguration or a RoutingConfiguration")
    add_emulated_version(validate)
    add_feature_gates(validate)
    validate.set_defaults(make=_validate_options)
    show = commands.add_parser("show", help="print a configuration file with all defaults")
    show.add_argument("file", metavar="FILE", help="a KubeSchedulerConfiguration")
    add_emulated_version(show)
    add_feature_gates(show)
    show.add_argument("--expanded", action="store_true", help="with the plugins that run at each extension point")
    show.add_argument("--secrets", action="store_true", help="with the tokens and keys that stand in the file")
    show.set_defaults(make=_show_options)
    describe(commands)


def _validate_options(namespace: argparse.Namespace) -> ValidateOptions:
    return from_flags(ValidateOptions, namespace, feature_gates=parsed_gates(namespace.feature_gates))


def _show_options(namespace: argparse.Namespace) -> ShowOptions:
    return from_flags(ShowOptions, namespace, feature_gates=parsed_gates(namespace.feature_gates))
