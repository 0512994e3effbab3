"""Many random runs of gangs under faults: bindings refused, answers lost, pods deleted, the scheduler killed.

    python -m tests.scenarios.gang_faults --cases 10000 --seed 1 --processes 2 [--rooms one | --composites]

A case is a seed of `gang_world.play`, or of `composite_world.play_composites`. A failure is printed with its seed, and
the others go on.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence

from tests.scenarios.composite_world import play_composites
from tests.scenarios.gang_world import Rooms, Seen, play

EACH = 500  # cases between two lines that say how far it is


Case = tuple[int, Rooms | None]  # a seed, and for whom room is reserved; None: composite groups


def run(case: Case) -> tuple[int, Seen, str]:
    """Return the seed, how often a gang was stale or had a reservation, and what went wrong."""
    seed, rooms = case
    try:
        if rooms is None:
            return seed, play_composites(seed, is_troubled=True), ""
        return seed, play(seed, is_troubled=True, rooms=rooms), ""
    except Exception as error:  # of any kind, since the scheduler's own faults come out here
        return seed, Seen(0, 0), f"{type(error).__name__}: {error}"


def quiet() -> None:
    logging.disable(logging.CRITICAL)  # the scheduler's own words about injected faults


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.scenarios.gang_faults", description="gangs under random faults")
    parser.add_argument("--cases", type=int, default=10_000, help="how many (10,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the first (1)")
    parser.add_argument("--processes", type=int, default=2, help="side by side (2)")
    parser.add_argument(
        "--rooms", type=Rooms, default=Rooms.NONE, help="room is reserved for gangs that fail: none, one, queues (none)"
    )
    parser.add_argument("--composites", action="store_true", help="trees of PodGroups, by the rules of Kubernetes 1.37")
    options = parser.parse_args(argv)
    rooms = None if options.composites else options.rooms
    seeds = range(options.seed, options.seed + options.cases)
    began_s = time.monotonic()
    tried = stale = reserved = failed = 0
    for seed, seen, fault in outcomes([(seed, rooms) for seed in seeds], options.processes):
        tried, stale, failed = tried + 1, stale + bool(seen.stale), failed + bool(fault)
        reserved += bool(seen.reserved)
        if fault:
            print(f"seed {seed}: {fault}", flush=True)
        if tried % EACH == 0 or tried == len(seeds):
            took = f"{time.monotonic() - began_s:.0f} s"
            print(
                f"{tried:,} cases in {took}: {stale} with a stale gang, {reserved} with a reservation, {failed} failed",
                flush=True,
            )
    return 1 if failed else 0


def outcomes(cases: Sequence[Case], processes: int) -> Iterator[tuple[int, Seen, str]]:
    with multiprocessing.Pool(processes, initializer=quiet) as pool:
        yield from pool.imap_unordered(run, cases, chunksize=10)


if __name__ == "__main__":
    sys.exit(main())
