"""All commands: the parser of their flags, and the options that it returns."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from kscheduler import __version__
from kscheduler.command.completion import SHELLS
from kscheduler.command.flags.config import ShowOptions, ValidateOptions, add_config
from kscheduler.command.flags.doctor import DoctorOptions, add_doctor
from kscheduler.command.flags.explain import add_explain
from kscheduler.command.flags.parser import Parser, describe, from_flags
from kscheduler.command.flags.plugin import InspectOptions, PluginTestOptions, add_plugin
from kscheduler.command.flags.record import RecordOptions, add_record
from kscheduler.command.flags.replay import ReplayOptions, add_replay
from kscheduler.command.flags.run import add_run
from kscheduler.command.flags.run_options import RunOptions
from kscheduler.command.flags.shared import add_output
from kscheduler.command.flags.simulations import (
    SWEEP_PARTS,
    CompareOptions,
    SimulateOptions,
    SweepOptions,
    WhatIfOptions,
    add_compare,
    add_simulate,
    add_sweep,
    add_whatif,
)
from kscheduler.command.flags.ui import UiOptions, add_ui
from kscheduler.command.flags.version import VersionOptions
from kscheduler.explain.options import ExplainOptions


@dataclass(frozen=True, slots=True)
class CompletionOptions:
    """The options of `kscheduler completion SHELL`."""

    shell: str


Options = (
    RunOptions
    | ValidateOptions
    | ShowOptions
    | SimulateOptions
    | SweepOptions
    | CompareOptions
    | WhatIfOptions
    | RecordOptions
    | ReplayOptions
    | UiOptions
    | ExplainOptions
    | InspectOptions
    | PluginTestOptions
    | CompletionOptions
    | DoctorOptions
    | VersionOptions
)


def parse(argv: Sequence[str] | None = None) -> Options:
    """Parse `argv`, or the process's own arguments if None.

    Raises ConfigError for wrong ones, SystemExit(0) for --help.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments[:1] == ["sweep"] and arguments[1:2] and (inner := f"sweep-{arguments[1]}") in SWEEP_PARTS:
        arguments[:2] = [inner]
    words = argparse.Namespace(words=tuple(arguments))  # as they were typed
    namespace = _parser(arguments[0] if arguments else "").parse_args(arguments, words)
    make: Callable[[argparse.Namespace], Options] = namespace.make
    return make(namespace)


def _parser(command: str = "") -> Parser:
    """Build the parser. Commands that simulate import and define their flags only if they are the `command`."""
    parser = Parser(prog="kscheduler", description="A Kubernetes scheduler and a simulator of one.")
    parser.add_argument("--version", action="version", version=f"kscheduler {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_run(commands.add_parser("run", help="schedule the pods of a cluster"))
    simulate = commands.add_parser("simulate", help="schedule a generated or recorded workload")
    add_simulate(simulate, command == "simulate")
    add_sweep(commands, command)
    add_compare(commands.add_parser("compare", help="say how two runs differ, and why"), command == "compare")
    whatif = commands.add_parser("whatif", help="simulate with other nodes or settings; plan capacity")
    add_whatif(whatif, command == "whatif")
    add_record(
        commands.add_parser("record", help="record a cluster's objects and their changes, for simulate and replay")
    )
    add_replay(commands.add_parser("replay", help="decide again what a record of a running scheduler decided"))
    add_ui(commands.add_parser("ui", help="look at a report, or compare two, in a browser"))
    add_explain(commands.add_parser("explain", help="ask a running scheduler why a pod is where it is, or nowhere"))
    add_config(commands.add_parser("config", help="check or show a configuration file"))
    add_plugin(commands.add_parser("plugin", help="look at a wasm plugin, or try it on a cluster from a file"))
    add_doctor(commands.add_parser("doctor", help="check a cluster, and report what is wrong and how to mend it"))
    completion = commands.add_parser("completion", help="print a script that completes commands in a shell")
    completion.add_argument("shell", choices=SHELLS, help="whose script is printed")
    completion.set_defaults(make=partial(from_flags, CompletionOptions))
    version = commands.add_parser("version", help="print the version")
    add_output(version)
    version.set_defaults(make=partial(from_flags, VersionOptions))
    describe(commands)
    return parser


def parsers_of_commands() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command, with all its flags. "" is the program, "config show" a subcommand."""
    found: dict[str, argparse.ArgumentParser] = {"": _parser()}
    for command in _below(found[""]):
        found[command] = parser = _below(_parser(command))[command]
        found |= {f"{command} {name}": below for name, below in _below(parser).items()}
    for inner, part in SWEEP_PARTS.items():
        found[f"sweep {part}"] = _below(_parser(inner))[inner]
    return found


def words_of_commands() -> dict[str, list[str]]:
    """Return what may follow each command: its flags and subcommands. "" is the program, "config show" a subcommand."""
    return {command: _words_of(parser) for command, parser in parsers_of_commands().items()}


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of a parser's commands."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def _words_of(parser: argparse.ArgumentParser) -> list[str]:
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    return [*_below(parser), *(flag for action in shown for flag in action.option_strings)]
