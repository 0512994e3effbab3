"""Implements `kscheduler compare A B`: runs or reads both sides, and prints how they differ."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext

import msgspec

from kscheduler.command.interruption import report_interruption
from kscheduler.command.report_files import check_writable, indented_json, save
from kscheduler.compare.comparing import compare, silently
from kscheduler.compare.options import CompareArguments
from kscheduler.compare.reading import read_sides
from kscheduler.compare.sides import Side
from kscheduler.compare.text import to_text
from kscheduler.simulator.progress import progress_on
from kscheduler.simulator.run import Progress
from kscheduler.ui.page_file import to_html

EXIT_DIFFERS = 1  # with --fail-on-difference, and for a violated invariant


def compare_runs(arguments: CompareArguments) -> int:
    """Compare both sides, print the result and return the exit code. Raises ConfigError for wrong input."""
    check_writable(arguments.html)
    a, b = read_sides(arguments)
    try:
        found = compare(a, b, arguments.limit, silently if arguments.quiet else _shown)
    except KeyboardInterrupt:
        return report_interruption("nothing is compared")
    if arguments.html is not None:
        save(arguments.html, to_html(msgspec.json.encode(found)))
    print(indented_json(found) if arguments.output == "json" else to_text(found), end="")
    violations = [violation for side in (found.a, found.b) for violation in side.report.violations]
    for violation in violations:
        print(f"kscheduler: error: invariant violated: {violation}", file=sys.stderr)
    return EXIT_DIFFERS if violations or (arguments.fail_on_difference and found.differs) else 0


def _shown(side: Side) -> AbstractContextManager[Progress | None]:
    if not side.arrivals:
        return nullcontext()
    print(f"running {side.name}", file=sys.stderr)
    return progress_on(side.arrivals)
