"""Runs kscheduler and kube-scheduler in turn with the same work, each time on a fresh control plane.

    python -m perf.compare_kube_scheduler --nodes 5000 --pods 10000 --rounds 3

Both get the same client qps and burst, high enough not to affect the result. Ratios are computed within a round, since
a machine's speed drifts; their median is printed with the lowest and the highest. With `--bare` a client that decides
nothing, but writes the same Events, runs as well, once without and once with a watch of the pods, and shows how close
kscheduler comes to what the control plane can handle. `--only-bare` leaves kube-scheduler out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from kscheduler.testing.controlplane import ControlPlane, HarnessError, KubeScheduler
from kscheduler.testing.controlplane.kscheduler import KScheduler
from perf.bare_client import NAME as BARE
from perf.bare_client import SEEING, BareClient
from perf.control_plane_run import Load, Peer, Result, measure
from perf.pairs import OURS, THEIRS, Measure, table
from perf.pod_shapes import SHAPES

MEASURES: tuple[Measure[Result], ...] = (
    Measure("pods/s", lambda result: result.pods_per_s, True),
    Measure("scheduler CPU, ms a pod", lambda result: result.cpu_ms_per_pod, False),
    Measure("  from the first binding on", lambda result: 1e3 * result.binding_cpu_s / result.pods, False),
    Measure("scheduler peak memory, MiB", lambda result: result.peak_memory_mib, False),
    Measure("apiserver CPU, ms a pod", lambda result: result.apiserver_cpu_ms_per_pod, False),
    Measure("start to first binding, s", lambda result: result.until_first_s, False),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.compare_kube_scheduler", description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--shape", choices=SHAPES, default="basic", help="what the pods ask for")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--qps", type=int, default=10_000, help="client qps and burst of both (default 10000)")
    parser.add_argument("--bare", action="store_true", help="run clients that decide nothing, too")
    parser.add_argument("--only-bare", action="store_true", help="run them in place of kube-scheduler")
    parser.add_argument("--output", type=Path, help="write all results as JSON")
    options = parser.parse_args(argv)
    starts: dict[str, Callable[[ControlPlane], Peer]] = {
        OURS: lambda plane: KScheduler(plane, qps=options.qps, burst=options.qps),
        THEIRS: lambda plane: KubeScheduler(plane, qps=options.qps, burst=options.qps),
    }
    if options.only_bare:
        del starts[THEIRS]
    if options.bare or options.only_bare:
        starts[BARE] = partial(BareClient, events=True)
        starts[SEEING] = partial(BareClient, events=True, see_bound=True)
    rounds: list[dict[str, Result]] = []
    try:
        for number in range(options.rounds):
            rounds += [_round(number, starts, Load(options.nodes, options.pods, shape=options.shape))]
    except HarnessError as error:
        print(f"perf: error: {error}; {len(rounds)} of {options.rounds} rounds are complete", file=sys.stderr)
    if rounds:
        title = f"{options.nodes} nodes, {options.pods} {options.shape} pods, qps and burst {options.qps}"
        title += f"; median of {len(rounds)} interleaved rounds"
        print(table(rounds, MEASURES, title) if THEIRS in starts else title)
        for bare in [name for name in (BARE, SEEING) if name in starts]:
            print(_room_used(rounds, bare))
    if options.output:
        document = {"partial": len(rounds) < options.rounds, "rounds": [_plain(entry) for entry in rounds]}
        options.output.write_text(json.dumps(document, indent=1))
    wrong = [
        problem
        for entry in rounds
        for name, result in entry.items()
        for problem in result.problems
        if name not in (BARE, SEEING)  # which knows no capacity and writes no Events
    ]
    for problem in wrong[:10]:
        print(f"perf: error: {problem}", file=sys.stderr)
    return 1 if wrong or len(rounds) < options.rounds else 0


def _round(number: int, starts: dict[str, Callable[[ControlPlane], Peer]], load: Load) -> dict[str, Result]:
    """One run of each, the order turned round every time."""
    names = list(starts) if number % 2 == 0 else list(reversed(starts))
    results = {}
    for name in names:
        result = results[name] = measure(name, starts[name], load)
        print(
            f"round {number + 1}: {name}: {result.pods_per_s:.0f} pods/s, {result.cpu_ms_per_pod:.2f} ms CPU a pod, "
            f"{result.peak_memory_mib:.0f} MiB",
            file=sys.stderr,
        )
    return results


def _room_used(rounds: Sequence[dict[str, Result]], bare: str) -> str:
    """kscheduler's rate as a share of that of a client that decides nothing."""
    shares = [entry[OURS].pods_per_s / entry[bare].pods_per_s for entry in rounds]
    rate = statistics.median(entry[bare].pods_per_s for entry in rounds)
    spread = f"{statistics.median(shares):.2f} ({min(shares):.2f} .. {max(shares):.2f})"
    return f"a {bare} binds {rate:.0f} pods/s; kscheduler binds {spread} of that"


def _plain(entry: dict[str, Result]) -> dict[str, dict[str, object]]:
    return {name: asdict(result) for name, result in entry.items()}


if __name__ == "__main__":
    sys.exit(main())
