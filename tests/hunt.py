"""Search for faults with fresh seeds: the parity with kube-scheduler, random scenarios and all tests by Hypothesis.

    make hunt MINUTES=60        # one seed after the other; a pass that has begun is ended
    make hunt SEEDS=17,42       # the same passes again

A pass is a run of pytest with the tests that search, each whole. A line says when a file of tests begins, and how long
it took. What was found is printed at the end of the pass; keep that as a case, and mend it.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from tests.support.seeds import HUNTED, KEPT

SEARCHES = "search or hypothesis"  # markers; Hypothesis sets its own
# As many processes as `make test` has; a file that ends its process by a crash does not begin again in another.
SIDE_BY_SIDE = ("-n", "auto", "--maxprocesses", "4", "--dist", "loadfile", "--no-loadscope-reorder")
NO_RESTART = ("--max-worker-restart", "0")
MOST_SEEDS = 1 << 40  # more than 600 searches of a hunt will ever meet twice
FAILED = 1  # pytest's exit code for tests that failed


def run_pass(seed: int) -> bool:
    """Whether all searches passed. RuntimeError if they could not be run."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.progress", *SIDE_BY_SIDE, *NO_RESTART]
    command += ["-m", SEARCHES, f"--hypothesis-seed={seed}"]
    environment = {**os.environ, HUNTED: str(seed), "PYTHONHASHSEED": str(seed % (1 << 32))}
    code = subprocess.run(command, env=environment, check=False).returncode
    if code not in (0, FAILED):
        raise RuntimeError(f"pytest ended with exit code {code}")
    return code == 0


def fresh_seeds(minutes: float, now: Callable[[], float] = time.monotonic) -> Iterator[int]:
    """Seeds, until the time is over; at least one."""
    end = now() + 60 * minutes
    while True:
        yield random.SystemRandom().randrange(MOST_SEEDS)
        if now() >= end:
            return


def hunt(seeds: Iterable[int], search: Callable[[int], bool]) -> int:
    """Print how to repeat each find; the exit code of the command."""
    tried, found = 0, []
    for seed in seeds:
        print(f"hunt: seed {seed}", flush=True)
        tried += 1
        began_s = time.monotonic()
        found_nothing = search(seed)
        print(f"hunt: seed {seed} took {time.monotonic() - began_s:.0f} s", flush=True)
        if not found_nothing:
            found.append(seed)
            print(f"hunt: seed {seed} found the above; `make hunt SEEDS={seed}` repeats it", flush=True)
    print(f"hunt: {tried} passes, {len(found)} with finds")
    if found:
        print(f"hunt: keep a seed of a failed comparison in tests/{KEPT.name}, an example of Hypothesis as an @example")
    return 1 if found else 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.hunt", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10, help="how long to begin new passes (10)")
    parser.add_argument("--seeds", help="these instead of fresh ones, separated by commas")
    options = parser.parse_args(argv)
    seeds = map(int, options.seeds.split(",")) if options.seeds else fresh_seeds(options.minutes)
    return hunt(seeds, run_pass)


if __name__ == "__main__":
    sys.exit(main())
