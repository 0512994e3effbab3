"""Workloads of scheduler_perf's shapes under kscheduler and kube-scheduler, paired and interleaved in one run.

    python -m perf.workloads --list
    python -m perf.workloads --workload PreemptionBasic --nodes 500 --rounds 3
    python -m perf.workloads --size medium --output results.json     # all of them
    python -m perf.workloads --file my-case.yaml --size 500Nodes

A size is a name or a label of the file (small, medium, large); `--nodes 500` is short for `--size 500Nodes`. Ratios are
taken within a round. Ctrl-C stops all servers, and prints and keeps what is complete.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from perf.control_plane_run import Peer
from perf.pairs import OURS, THEIRS
from perf.workloads.comparison import Comparison, Run, compare, write
from perf.workloads.execution import TIMEOUT_S, measure
from perf.workloads.faults import WorkloadError
from perf.workloads.suite import Suite
from tests.controlplane.harness import ControlPlane, HarnessError, KubeScheduler
from tests.controlplane.harness.kscheduler import KScheduler

INTERRUPTED = 130  # what a shell reports of a program that Ctrl-C ended
SHOWN_PROBLEMS = 10


def main(argv: Sequence[str] | None = None, run: Run | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        suite = Suite(options.file)
        if options.list:
            print(_listed(suite))
            return 0
        names = options.workload or [case.name for case in suite.cases]
        plans = [suite.plan(name, options.size) for name in names]
    except WorkloadError as error:
        print(f"perf.workloads: error: {error}", file=sys.stderr)
        return 2
    results: list[Comparison] = []

    def keep(comparisons: Sequence[Comparison]) -> None:
        results[:] = comparisons
        if options.output:
            write(options.output, comparisons)

    code = _guarded(lambda: compare(plans, options.rounds, run or _runner(options), keep))
    for comparison in results:
        print(comparison.shown(), end="\n\n")
    problems = [problem for comparison in results for problem in comparison.problems]
    for problem in problems[:SHOWN_PROBLEMS]:
        print(f"perf.workloads: error: {problem}", file=sys.stderr)
    return code or int(bool(problems))


def _guarded(work: Callable[[], None]) -> int:
    """An exit code. SIGTERM ends the work as Ctrl-C does, through every `with` on the way."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        work()
    except HarnessError as error:
        print(f"perf.workloads: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("perf.workloads: interrupted", file=sys.stderr)
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _runner(options: argparse.Namespace) -> Run:
    starts: dict[str, Callable[[ControlPlane], Peer]] = {
        OURS: lambda plane: KScheduler(plane, qps=options.qps, burst=options.qps),
        THEIRS: lambda plane: KubeScheduler(plane, qps=options.qps, burst=options.qps),
    }
    return lambda name, plan: measure(name, starts[name], plan, options.timeout)


def _listed(suite: Suite) -> str:
    return "\n".join(f"{case.name}: {', '.join(size.name for size in case.workloads)}" for case in suite.cases)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m perf.workloads", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", action="append", metavar="NAME", help="a case; may be repeated (default all)")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--size", default="500Nodes", help="name or label of a size (default 500Nodes)")
    size.add_argument("--nodes", type=lambda text: f"{int(text)}Nodes", dest="size", metavar="N", help="size NNodes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--file", action="append", type=Path, default=[], help="workload files instead of our own")
    parser.add_argument("--qps", type=int, default=10_000, help="client qps and burst of both (default 10000)")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds for the pods of one step")
    parser.add_argument("--output", type=Path, help="write all results as JSON, after each round")
    parser.add_argument("--list", action="store_true", help="print cases and sizes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
