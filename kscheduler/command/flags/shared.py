"""Flags that several commands have."""

from __future__ import annotations

import argparse

from kscheduler.command.flags.values import boolean, namespaced_name, top_nodes, url
from kscheduler.explain.options import DEFAULT_LEASE, DEFAULT_SERVER, DEFAULT_TOP_NODES

OUTPUT_HELP = "text for people, json for programs (default text)"


def add_plugin_cache(to: argparse._ActionsContainer) -> None:
    to.add_argument(
        "--plugin-cache-dir",
        default=None,
        metavar="DIR",
        help='where compiled wasm plugins are kept for the next start; "" for nowhere '
        "(default $XDG_CACHE_HOME/kscheduler/plugins or ~/.cache/kscheduler/plugins, if it can be written to)",
    )


def add_scheduler_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say which running scheduler is asked, and as whom."""
    parser.add_argument(
        "--server", type=url, default=DEFAULT_SERVER, metavar="URL", help=f"the scheduler (default {DEFAULT_SERVER})"
    )
    parser.add_argument(
        "--kubeconfig", default="", metavar="FILE", help="show the scheduler its user's token or client certificate"
    )
    add_endpoint(parser)


def add_endpoint(to: argparse._ActionsContainer) -> None:
    """Add the flags that say how a scheduler's endpoint is asked, besides its URL and --kubeconfig."""
    to.add_argument(
        "--lease",
        type=namespaced_name,
        default=DEFAULT_LEASE,
        metavar="NAMESPACE/NAME",
        help=f"read with the kubeconfig to name the leader, if nobody answers (default {DEFAULT_LEASE})",
    )
    to.add_argument("--token-file", default="", metavar="FILE", help="show the scheduler this token")
    to.add_argument("--certificate-authority", default="", metavar="FILE", help="that vouches for the scheduler")
    to.add_argument("--insecure-skip-tls-verify", action="store_true", help="as is done on this machine anyway")


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help=OUTPUT_HELP)


def add_boolean(group: argparse._ArgumentGroup, flag: str, text: str, *, default: bool | None = False) -> None:
    """Add a boolean flag, which may be given without a value, as in Go. `text` is its help."""
    group.add_argument(flag, type=boolean, nargs="?", const=True, default=default, metavar="true|false", help=text)


def add_top_nodes(to: argparse._ActionsContainer, flag: str, what: str) -> None:
    to.add_argument(
        flag,
        type=top_nodes,
        default=DEFAULT_TOP_NODES,
        metavar="N",
        help=f"{what} (default {DEFAULT_TOP_NODES})",
    )
