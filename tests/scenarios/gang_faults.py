"""Many random runs of gangs under faults: bindings refused, answers lost, pods deleted, the scheduler killed.

    python -m tests.scenarios.gang_faults --cases 10000 --seed 1 --processes 2

A case is a seed of `gang_world.play`. A failure is printed with its seed, and the others go on.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence

from tests.scenarios.gang_world import play

EACH = 500  # cases between two lines that say how far it is


def run(seed: int) -> tuple[int, bool, str]:
    """Return the seed, whether a gang was stale, and what went wrong."""
    try:
        return seed, bool(play(seed, is_troubled=True)), ""
    except Exception as error:  # of any kind, since the scheduler's own faults come out here
        return seed, False, f"{type(error).__name__}: {error}"


def quiet() -> None:
    logging.disable(logging.CRITICAL)  # the scheduler's own words about injected faults


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.scenarios.gang_faults", description="gangs under random faults")
    parser.add_argument("--cases", type=int, default=10_000, help="how many (10,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the first (1)")
    parser.add_argument("--processes", type=int, default=2, help="side by side (2)")
    options = parser.parse_args(argv)
    seeds = range(options.seed, options.seed + options.cases)
    began_s = time.monotonic()
    tried = stale = failed = 0
    for seed, was_stale, fault in outcomes(seeds, options.processes):
        tried, stale, failed = tried + 1, stale + was_stale, failed + bool(fault)
        if fault:
            print(f"seed {seed}: {fault}", flush=True)
        if tried % EACH == 0 or tried == len(seeds):
            took = f"{time.monotonic() - began_s:.0f} s"
            print(f"{tried:,} cases in {took}: {stale} with a stale gang, {failed} failed", flush=True)
    return 1 if failed else 0


def outcomes(seeds: Sequence[int], processes: int) -> Iterator[tuple[int, bool, str]]:
    with multiprocessing.Pool(processes, initializer=quiet) as pool:
        yield from pool.imap_unordered(run, seeds, chunksize=10)


if __name__ == "__main__":
    sys.exit(main())
