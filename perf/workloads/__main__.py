"""Runs workloads of the scheduler_perf suite with kscheduler and kube-scheduler, paired and interleaved in one run.

    python -m perf.workloads --list
    python -m perf.workloads PreemptionBasic --nodes 500 --rounds 3
    python -m perf.workloads --size medium --rounds 2 --half-rate --output results/       # all of them
    python -m perf.workloads --file my-case.yaml --size 500Nodes --targets embedded,kscheduler

A size is a name or a label in the file (small, medium, large); `--nodes 500` is short for `--size 500Nodes`. Ratios are
computed within a round. Ctrl-C stops all servers, and prints and keeps the complete rounds. See perf/README.md.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from kscheduler._fast import COMPILED
from kscheduler.testing.controlplane import HarnessError
from perf.ratios import ratios_of, write_ratios
from perf.result_table import whole_table
from perf.workloads.comparison import Comparison, compare, now, results_of, write_all
from perf.workloads.execution import TIMEOUT_S
from perf.workloads.faults import WorkloadError
from perf.workloads.suite import Plan, Suite
from perf.workloads.targets import ALL_TARGETS, TARGETS, Run, runner

INTERRUPTED = 130  # what a shell reports of a program that Ctrl-C ended
SHOWN_PROBLEMS = 10


def main(argv: Sequence[str] | None = None, run: Run | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        suite = Suite(options.file)
        if options.list:
            print(_listed(suite))
            return 0
        plans = _plans(suite, options)
    except WorkloadError as error:
        print(f"perf.workloads: error: {error}", file=sys.stderr)
        return 2
    if not COMPILED:
        print("perf.workloads: warning: the kernels are not compiled; `make build` compiles them", file=sys.stderr)
    started = now()
    comparisons: list[Comparison] = []

    def keep(until_now: Sequence[Comparison]) -> None:
        comparisons[:] = until_now
        if options.output:
            write_all(options.output, results_of(comparisons, started))

    carry_out = run or runner(options.qps, options.timeout)
    at_half, at_own_half = options.half_rate, options.own_half_rate
    code = _guarded(
        lambda: compare(
            plans, options.targets, options.rounds, carry_out, keep, at_half=at_half, at_own_half=at_own_half
        )
    )
    return _reported(comparisons, options, started) or code


def _reported(comparisons: Sequence[Comparison], options: argparse.Namespace, started: str) -> int:
    """Print what came of it; 1 when something is missing or wrong."""
    if not comparisons:
        return 1
    results = results_of(comparisons, started)
    print(whole_table(results))
    for name, failure in results.facts.failures.items():
        print(f"PARTIAL: {name}: {failure}")
    if options.baseline and not results.facts.partial:
        write_ratios(options.baseline, ratios_of(results))
    for problem in results.facts.problems[:SHOWN_PROBLEMS]:
        print(f"perf.workloads: error: {problem}", file=sys.stderr)
    return int(bool(results.facts.problems) or any(each.failure for each in comparisons))


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


def _plans(suite: Suite, options: argparse.Namespace) -> list[Plan]:
    names = options.names or [case.name for case in suite.cases]
    plans = [suite.plan(name, options.size) for name in names]
    return [plan.at_rate(options.rate, f"{options.rate:g} pods/s") for plan in plans] if options.rate else plans


def _listed(suite: Suite) -> str:
    return "\n".join(f"{case.name}: {', '.join(size.name for size in case.workloads)}" for case in suite.cases)


def _targets(text: str) -> tuple[str, ...]:
    found = tuple(text.split(","))
    for target in found:
        if target not in ALL_TARGETS:
            expected = ", ".join(ALL_TARGETS)
            raise argparse.ArgumentTypeError(f"there is no target {target!r}, expected some of {expected}")
    return found


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"expected more than zero, got {text}")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m perf.workloads", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases (default all)")
    parser.add_argument("--list", action="store_true", help="print cases and sizes")
    parser.add_argument("--targets", type=_targets, default=TARGETS, metavar="A,B", help=f"of {', '.join(ALL_TARGETS)}")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--size", default="500Nodes", help="name or label of a size (default 500Nodes)")
    size.add_argument("--nodes", type=lambda text: f"{int(text)}Nodes", dest="size", metavar="N", help="size NNodes")
    parser.add_argument("--rounds", type=int, default=3)
    rate = parser.add_mutually_exclusive_group()
    rate.add_argument("--rate", type=_positive, help="create the measured pods at this rate, pods/s, evenly spaced")
    rate.add_argument(
        "--half-rate", action="store_true", help="then once more, at half the rate of the slowest target's peak"
    )
    parser.add_argument(
        "--own-half-rate", action="store_true", help="then once more, each target at half the rate of its own peak"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="write results, ratios and plot, after each round")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="write the ratios there too, if all is complete")
    parser.add_argument("--file", action="append", type=Path, default=[], help="workload files instead of our own")
    parser.add_argument("--qps", type=int, default=10_000, help="client qps and burst of both (default 10000)")
    parser.add_argument("--timeout", type=_positive, default=TIMEOUT_S, help="seconds for the pods of one step")
    return parser


if __name__ == "__main__":
    sys.exit(main())
