"""The flags of `kscheduler replay`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

from kscheduler.command.flags.parser import from_flags
from kscheduler.command.flags.shared import add_output
from kscheduler.command.flags.values import count
from kscheduler.config.emulated_version import add_emulated_version
from kscheduler.config.gate_flag import add_feature_gates, parsed_gates


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of `kscheduler replay RECORD`."""

    record: str
    config: str = ""  # configuration file; "": the configuration in the record
    nodes: str = ""  # file with nodes that are added to the recorded ones
    output: str = "text"
    shown: int = 1  # how many differences are printed
    emulated_version: str | None = None  # None: the release in the record
    feature_gates: dict[str, bool] = field(default_factory=dict)  # besides those in the record


def add_replay(parser: argparse.ArgumentParser) -> None:
    kinds = "the first file of a record of kscheduler run --record, or one of kscheduler record"
    parser.add_argument("record", metavar="RECORD", help=kinds)
    parser.add_argument("--config", default="", metavar="FILE", help="another configuration than the recorded one")
    add_emulated_version(parser, "the record's")
    add_feature_gates(parser, beside=", besides the record's if it has the same release")
    parser.add_argument("--nodes", default="", metavar="FILE", help="manifests of further nodes, there from the start")
    parser.add_argument(
        "--show", dest="shown", type=count, default=1, metavar="N", help="differences to print (default 1)"
    )
    add_output(parser)
    parser.set_defaults(make=_replay_options)


def _replay_options(namespace: argparse.Namespace) -> ReplayOptions:
    return from_flags(ReplayOptions, namespace, feature_gates=parsed_gates(namespace.feature_gates))
