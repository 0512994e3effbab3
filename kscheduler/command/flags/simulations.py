"""The flags of the commands that simulate, which define these themselves: they are imported for them only."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial

from kscheduler.command.flags.parser import Parser


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """The options of `kscheduler simulate`, as parsed; the simulator defines these flags and interprets them."""

    arguments: argparse.Namespace


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """The options of `kscheduler sweep`, as parsed; the sweep defines these flags and interprets them."""

    arguments: argparse.Namespace
    part: str = "grid"  # or "collect", or "index"


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """The options of `kscheduler compare`, as parsed; the comparison defines these flags and interprets them."""

    arguments: argparse.Namespace


@dataclass(frozen=True, slots=True)
class WhatIfOptions:
    """The options of `kscheduler whatif`, as parsed; the what-if defines these flags and interprets them."""

    arguments: argparse.Namespace


# Inner name of a command below `sweep`, which has arguments of its own -> its name. `parse` alone uses the inner ones.
SWEEP_PARTS = {"sweep-collect": "collect", "sweep-index": "index"}


def add_simulate(parser: argparse.ArgumentParser, wanted: bool) -> None:
    if wanted:
        from kscheduler.simulator.options import add_arguments

        add_arguments(parser)
    parser.set_defaults(make=SimulateOptions)


def add_sweep(commands: argparse._SubParsersAction[Parser], command: str) -> None:
    parser = commands.add_parser("sweep", help="simulate a grid of traces, clusters, configurations and seeds; compare")
    parser.set_defaults(make=SweepOptions)
    if command == "sweep":
        from kscheduler.sweep.options import add_arguments

        add_arguments(parser)
    elif command in SWEEP_PARTS:  # only then, so that no error message lists the inner name
        from kscheduler.sweep.options import add_collect_arguments, add_index_arguments

        part = SWEEP_PARTS[command]
        below = commands.add_parser(command, prog=f"kscheduler sweep {part}")
        {"collect": add_collect_arguments, "index": add_index_arguments}[part](below)
        below.set_defaults(make=partial(SweepOptions, part=part))


def add_compare(parser: argparse.ArgumentParser, wanted: bool) -> None:
    if wanted:
        from kscheduler.compare.options import add_arguments

        add_arguments(parser)
    parser.set_defaults(make=CompareOptions)


def add_whatif(parser: argparse.ArgumentParser, wanted: bool) -> None:
    if wanted:
        from kscheduler.whatif.options import add_arguments

        add_arguments(parser)
    parser.set_defaults(make=WhatIfOptions)
