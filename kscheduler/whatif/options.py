"""The arguments of `kscheduler whatif`."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from kscheduler.config.emulated_version import add_emulated_version
from kscheduler.config.gate_flag import add_feature_gates, parsed_gates
from kscheduler.errors import ConfigError
from kscheduler.simulator.options import (
    SimulateArguments,
    add_input_arguments,
    add_scheduler_arguments,
    arguments_of,
    check_arguments,
)
from kscheduler.whatif.capacity import DEFAULT_MOST, check_search
from kscheduler.whatif.configuration import ConfigurationChanges, parse_value, parse_weight
from kscheduler.whatif.node_changes import NodeChanges, parse_addition, parse_tainting
from kscheduler.whatif.objective import EXAMPLE, Objective
from kscheduler.whatif.selection import NodeSelection

DEFAULT_LIMIT, MAX_LIMIT = 10, 10_000
NEW_GATES = "--new-feature-gates"
FIND = ("min-nodes",)


@dataclass(frozen=True, slots=True)
class WhatIfArguments:
    """The arguments of `kscheduler whatif`. `simulate`: the input, and how the scheduler runs."""

    simulate: SimulateArguments
    nodes: NodeChanges
    configuration: ConfigurationChanges
    new_config: str | None = None  # configuration file of the changed scenario; None: that of the scenario as it is
    new_emulated_version: str | None = None  # of the changed scenario; None: that of the scenario as it is
    new_feature_gates: tuple[tuple[str, bool], ...] = ()  # (name, is on), that the changed scenario has besides
    find: str = ""  # "" or one of FIND
    objectives: tuple[Objective, ...] = ()
    most: int = DEFAULT_MOST
    limit: int = DEFAULT_LIMIT
    by_chance: bool = True
    output: str = "text"  # or "json"
    html: str | None = None  # a file for the page
    quiet: bool = False
    command: str = ""  # as it was typed, to repeat it

    @property
    def changes_nothing(self) -> bool:
        files = self.new_config is None and self.new_emulated_version is None and not self.new_feature_gates
        return files and self.nodes.is_empty and self.configuration.is_empty

    @property
    def sought(self) -> str:
        """The shape whose number is to be found; "" if there is none."""
        return next((addition.shape for addition in self.nodes.add if addition.count is None), "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Simulate a record, or any input of `kscheduler simulate`, once as it is and once with other nodes or another "
        "configuration, and show the difference; or find the fewest nodes that meet an objective. NODES is a node, a "
        'shape (the label node-shape or the instance type), a label selector, or "all"; N:NODES is the first N of them.'
    )
    _add_nodes(parser.add_argument_group("other nodes"))
    _add_configuration(parser.add_argument_group("another configuration"))
    _add_search(parser.add_argument_group("capacity"))
    _add_output(parser.add_argument_group("answer"))
    add_input_arguments(parser.add_argument_group("the input: nodes and pods"))
    scheduler = parser.add_argument_group("scheduler")
    scheduler.add_argument("--config", metavar="FILE", help="a KubeSchedulerConfiguration; the record's without")
    add_scheduler_arguments(scheduler)


def _add_nodes(group: argparse._ArgumentGroup) -> None:
    several = {"action": "append", "default": []}
    group.add_argument(
        "--add-nodes",
        **several,  # type: ignore[arg-type]
        metavar="N:SHAPE",
        help="nodes like those of a shape or like a node of the input, with its devices and pods of DaemonSets, or one "
        "of simulate's shapes; SHAPE without a number: as many as --find finds",
    )
    group.add_argument("--remove-nodes", **several, metavar="NODES", help="their pods arrive as pending pods")  # type: ignore[arg-type]
    group.add_argument("--cordon", **several, metavar="NODES", help="make them unschedulable")  # type: ignore[arg-type]
    group.add_argument("--uncordon", **several, metavar="NODES", help="make them schedulable")  # type: ignore[arg-type]
    group.add_argument(
        "--taint",
        **several,  # type: ignore[arg-type]
        nargs=2,
        metavar=("NODES", "TAINT"),
        help="as for kubectl: KEY=VALUE:EFFECT, and KEY:EFFECT- to remove it",
    )


def _add_configuration(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--new-config", metavar="FILE", help="a KubeSchedulerConfiguration in place of the present one")
    add_emulated_version(group, "as it is", flag="--new-emulated-version")
    add_feature_gates(group, flag=NEW_GATES, beside=", besides those as it is if it has the same release")
    group.add_argument("--weight", action="append", default=[], metavar="PLUGIN=N", help="of a plugin at Score")
    group.add_argument("--plugin", action="append", default=[], metavar="NAME", help="enable it")
    group.add_argument("--no-plugin", action="append", default=[], metavar="NAME", help="disable it")
    group.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", help="any value, by a path as in a sweep's patches"
    )


def _add_search(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--find", choices=FIND, default="", help="the fewest nodes with which the objectives are met")
    group.add_argument(
        "--slo",
        action="append",
        default=[],
        metavar="OBJECTIVE",
        help=f"such as '{EXAMPLE}', 'pending max <= 5m', 'unplaced <= 0', 'allocated:cpu < 80%%'; several: all of them",
    )
    group.add_argument(
        "--most", type=int, default=DEFAULT_MOST, metavar="N", help=f"nodes to add at most (default {DEFAULT_MOST:,})"
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="text for people, json for programs (default text)",
    )
    group.add_argument("--html", metavar="FILE", help="write the answer as one HTML page, too")
    group.add_argument(
        "--limit",
        type=int,
        default=DEFAULT_LIMIT,
        metavar="N",
        help=f"pods that are listed and explained, the first that land elsewhere (default {DEFAULT_LIMIT})",
    )
    group.add_argument(
        "--no-chance",
        dest="by_chance",
        action="store_false",
        help="do not simulate a third time, to see how many pods land elsewhere with another seed",
    )
    group.add_argument("--quiet", action="store_true", help="no progress")


def read_arguments(namespace: argparse.Namespace) -> WhatIfArguments:
    """Convert the parsed arguments. Raises ConfigError that names the flag, what was expected and what was given."""
    # `output`, `html` and `quiet` are of this command; other arguments of the report of `simulate` have no flags here.
    ours = ("output", "html", "quiet")
    simulate = arguments_of(namespace, [name for name in SimulateArguments.__slots__ if name not in ours])
    check_arguments(simulate)
    arguments = WhatIfArguments(
        simulate,
        _nodes(namespace),
        ConfigurationChanges(
            weights=tuple(parse_weight("--weight", text) for text in namespace.weight),
            enabled=tuple(namespace.plugin),
            disabled=tuple(namespace.no_plugin),
            values=tuple(parse_value("--set", text) for text in namespace.set),
        ),
        namespace.new_config,
        namespace.new_emulated_version,
        tuple(sorted(parsed_gates(namespace.new_feature_gates, NEW_GATES).items())),
        namespace.find,
        tuple(Objective.parse("--slo", text) for text in namespace.slo),
        namespace.most,
        namespace.limit,
        namespace.by_chance and not simulate.first_on_tie,
        namespace.output,
        namespace.html,
        namespace.quiet,
        _typed(namespace.words),
    )
    _check(arguments)
    return arguments


def _typed(words: Iterable[str]) -> str:
    """Return the command line; bytes of it that are no UTF-8 are escaped, as JSON cannot hold them."""
    return shlex.join(["kscheduler", *words]).encode(errors="backslashreplace").decode()


def _nodes(namespace: argparse.Namespace) -> NodeChanges:
    def selections(flag: str, texts: list[str]) -> tuple[NodeSelection, ...]:
        return tuple(NodeSelection.parse(flag, text) for text in texts)

    return NodeChanges(
        remove=selections("--remove-nodes", namespace.remove_nodes),
        add=tuple(parse_addition("--add-nodes", text) for text in namespace.add_nodes),
        cordon=selections("--cordon", namespace.cordon),
        uncordon=selections("--uncordon", namespace.uncordon),
        taints=tuple(parse_tainting("--taint", nodes, taint) for nodes, taint in namespace.taint),
    )


def _check(arguments: WhatIfArguments) -> None:
    if not 0 <= arguments.limit <= MAX_LIMIT:
        raise ConfigError(f"--limit: expected 0 to {MAX_LIMIT:,}, got {arguments.limit}")
    sought = [addition.shape for addition in arguments.nodes.add if addition.count is None]
    if arguments.find:
        check_search(arguments.objectives, sought, arguments.most)
    elif sought:
        raise ConfigError(
            f'--add-nodes: expected a number and a shape, such as 20:{sought[0]}, got "{sought[0]}": '
            "only --find finds the number"
        )
    elif arguments.objectives:
        raise ConfigError("--slo: expected --find min-nodes beside it")
    elif arguments.changes_nothing:
        raise ConfigError("expected something to change, such as --add-nodes 20:general-32 or --weight NodeAffinity=5")
