"""Implements `kubectl kscheduler`: the program kubectl-kscheduler, which kubectl finds on PATH.

All of kscheduler's commands are there under their names (`kubectl kscheduler explain web-7 -n shop`). Besides, `drain
NODE...` says where the pods of nodes would go: it records the cluster for a second, and asks `whatif` about the record.
`queue` and `nodes` print what the running scheduler has (`live_views`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kscheduler.clock import SystemClock
from kscheduler.command.cli import exit_code_of
from kscheduler.command.cli import main as run_command
from kscheduler.command.live_views import VIEWS, view_text
from kscheduler.errors import ConfigError
from kscheduler.observability import logs

RECORD_FOR = "1s"
# What is here besides the program's own commands, which print a help of their own.
ADDED = """\
only in kubectl:
  queue         show the queue of a scheduler that runs with --ui
  nodes         show how full nodes are, as that scheduler sees them
  drain NODE... say where the pods of nodes would go
"""


def main(argv: Sequence[str] | None = None, run: Callable[[Sequence[str]], int] = run_command) -> int:
    """Run a command, given without `kubectl kscheduler` before it, and return its exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments[:1] and arguments[0] in VIEWS:
        return exit_code_of(lambda: _show(arguments[0], arguments[1:]))
    if arguments in (["--help"], ["-h"]):
        print(ADDED)
    if arguments[:1] == ["drain"]:
        return exit_code_of(lambda: _drain(arguments[1:], run))
    return run(arguments)


def _drain(arguments: Sequence[str], run: Callable[[Sequence[str]], int]) -> int:
    nodes, others, kubeconfig = _drained(arguments)
    with tempfile.TemporaryDirectory() as folder:
        record = str(Path(folder) / "cluster.zst")
        where = ["--kubeconfig", kubeconfig] if kubeconfig else []
        code = run(["record", "--out", record, "--duration", RECORD_FOR, *where])
        changes = [word for node in nodes for word in ("--remove-nodes", node)]
        return code or run(["whatif", "--record", record, *changes, *others])


def _show(view: str, arguments: Sequence[str]) -> int:
    logs.configure(verbosity=logs.QUIET)
    print(view_text(view, arguments, SystemClock()), end="")
    return 0


def drain_parser() -> argparse.ArgumentParser:
    """Return the parser of `drain`, which leaves the flags that it does not know to `whatif`."""
    parser = argparse.ArgumentParser(
        prog="kubectl kscheduler drain",
        description="say where the pods of nodes would go; other flags are those of whatif",
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument("nodes", nargs="*", metavar="NODE", help="names of the nodes to be drained")
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="of a user who may list; default: kubectl's")
    return parser


def _drained(arguments: Sequence[str]) -> tuple[list[str], list[str], str]:
    """Return the nodes to drain, other flags of `whatif`, and the kubeconfig; "": kubectl's. Raises ConfigError."""
    try:
        namespace, others = drain_parser().parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise ConfigError(f"drain: {error}") from error
    if not namespace.nodes:
        raise ConfigError("drain: expected names of nodes, got none (kubectl kscheduler drain NODE...)")
    return namespace.nodes, others, namespace.kubeconfig


if __name__ == "__main__":
    sys.exit(main())
