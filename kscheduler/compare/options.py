"""The arguments of `kscheduler compare`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from kscheduler.errors import ConfigError
from kscheduler.simulator.options import (
    SimulateArguments,
    add_input_arguments,
    add_scheduler_arguments,
    arguments_of,
    check_arguments,
)

DEFAULT_LIMIT, MAX_LIMIT = 20, 10_000
_INPUT = ("nodes", "pods", "record", "workload")


@dataclass(frozen=True, slots=True)
class CompareArguments:
    """The arguments of `kscheduler compare A B`. `simulate`: how configurations are simulated, and on which input."""

    a: str
    b: str
    simulate: SimulateArguments
    limit: int = DEFAULT_LIMIT
    output: str = "text"  # or "json"
    html: str | None = None  # a file for the page
    fail_on_difference: bool = False
    quiet: bool = False

    @property
    def has_input(self) -> bool:
        """True if a flag says what configurations are to be simulated on."""
        return any(getattr(self.simulate, name) is not None for name in _INPUT)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Compare two runs: which pods landed elsewhere, the first plugin that says why, and figures side by side. "
        "Configurations are simulated on a common input with the same seed: the one that the flags name, or else the "
        "record on the other side."
    )
    sides = "a record, a report of simulate --output, a KubeSchedulerConfiguration, or `default`"
    parser.add_argument("a", metavar="A", help=sides)
    parser.add_argument("b", metavar="B", help="what it is compared with")
    parser.add_argument(
        "--limit",
        type=int,
        default=DEFAULT_LIMIT,
        metavar="N",
        help=f"pods that are listed and explained, the first that landed elsewhere (default {DEFAULT_LIMIT})",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="text for people, json for programs (default text)",
    )
    parser.add_argument("--html", metavar="FILE", help="write the comparison as one HTML page, too")
    parser.add_argument("--fail-on-difference", action="store_true", help="exit with 1 if a pod landed elsewhere")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_input_arguments(parser.add_argument_group("the input of configurations: nodes and pods"))
    add_scheduler_arguments(parser.add_argument_group("scheduler"))


def read_arguments(namespace: argparse.Namespace) -> CompareArguments:
    """Convert the parsed arguments. Raises ConfigError that names the flag, what was expected and what was given."""
    # `output` and `quiet` are of this command; arguments of the report of `simulate` have no flags here.
    ours = ("output", "html", "quiet")
    simulate = arguments_of(namespace, [name for name in SimulateArguments.__slots__ if name not in ours])
    check_arguments(simulate)
    if not 0 <= namespace.limit <= MAX_LIMIT:
        raise ConfigError(f"--limit: expected 0 to {MAX_LIMIT:,}, got {namespace.limit}")
    return CompareArguments(
        namespace.a,
        namespace.b,
        simulate,
        namespace.limit,
        namespace.output,
        namespace.html,
        namespace.fail_on_difference,
        namespace.quiet,
    )
