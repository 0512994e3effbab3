"""The flags of `kscheduler explain`."""

from __future__ import annotations

import argparse

from kscheduler.command.flags.parser import from_flags
from kscheduler.command.flags.shared import add_output, add_scheduler_flags, add_top_nodes
from kscheduler.explain.options import ExplainOptions


def add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pod", metavar="POD", help="a name, or NAMESPACE/NAME; with gang/ before it, a gang")
    parser.add_argument("-n", "--namespace", default="default", metavar="NAME", help="of the pod (default default)")
    add_scheduler_flags(parser)
    parser.add_argument("--nodes", choices=("top", "all"), default="top", help="all: also the verdict of each node")
    add_top_nodes(parser, "--top", "best nodes shown with their scores")
    add_output(parser)
    parser.set_defaults(make=_explain_options)


def _explain_options(namespace: argparse.Namespace) -> ExplainOptions:
    return from_flags(ExplainOptions, namespace, all_nodes=namespace.nodes == "all", top_nodes=namespace.top)
