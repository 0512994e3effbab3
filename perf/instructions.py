"""Counts the machine instructions per pod on the cluster in memory with callgrind, which gives a figure without noise.

    python -m perf.instructions                 # beside the last baseline, perf/instructions.json
    python -m perf.instructions --write         # make this the baseline
    make bench-counts

`perf.decisions` runs twice for each shape, with few and with more pods; the difference of the counts, per pod, leaves
out the start and the nodes. It includes the pod's creation, watch events, binding and Event. Time is virtual, so that
two runs differ by less than one in a thousand, on a busy machine as well; another CPython or processor gives other
counts. Needs valgrind.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

BASELINE = Path(__file__).parent / "instructions.json"
SHAPES = ("basic", "mixed", "spread")
NODES = 200
FEW, MORE = 500, 2_500  # pods
MOST_GROWTH = 0.05
_COLLECTED = re.compile(r"Collected : (\d+)")


def main(argv: Sequence[str] | None = None) -> int:
    """Count, and print the comparison; 1 if a shape needs more instructions than its baseline by over MOST_GROWTH."""
    parser = argparse.ArgumentParser(prog="perf.instructions", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--write", action="store_true", help="make the counts the baseline")
    options = parser.parse_args(argv)
    if shutil.which("valgrind") is None:
        print("perf.instructions: valgrind is not installed", file=sys.stderr)
        return 2
    baseline: dict[str, int] = json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.exists() else {}
    has_grown = False
    for shape in options.shapes:
        now = round((instructions(shape, MORE) - instructions(shape, FEW)) / (MORE - FEW))
        print(compared(shape, now, baseline.get(shape)), flush=True)
        has_grown = has_grown or grew(now, baseline.get(shape))
        if options.write:
            baseline[shape] = now
    if options.write:
        BASELINE.write_text(json.dumps(baseline, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    return int(has_grown and not options.write)


def instructions(shape: str, pods: int) -> int:
    """Return how many instructions a run of `perf.decisions` takes. Raises RuntimeError if it fails."""
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    run = [sys.executable, "-m", "perf.decisions", "--nodes", str(NODES), "--pods", str(pods), "--shapes", shape]
    run += ["--rounds", "1", "--virtual"]
    # The same hashes, hence the same way through dicts, in each run.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run([*tool, *run], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"perf.decisions under callgrind ended with {done.returncode}: {done.stderr[-500:]}")
    return collected(done.stderr)


def collected(report: str) -> int:
    """Return the count in callgrind's report. Raises ValueError without one."""
    found = _COLLECTED.search(report)
    if found is None:
        raise ValueError(f"expected a line `Collected : N` of callgrind, got {report[-200:]!r}")
    return int(found[1])


def grew(now: int, before: int | None) -> bool:
    """Return whether there are more instructions than the baseline allows."""
    return before is not None and now > (1 + MOST_GROWTH) * before


def compared(shape: str, now: int, before: int | None) -> str:
    """Return the instructions a pod beside the baseline's."""
    if before is None:
        return f"{shape}: {now:,} instructions a pod; there is no baseline"
    return f"{shape}: {now:,} instructions a pod, {before:,} in the baseline ({100 * now / before - 100:+.1f} %)"


if __name__ == "__main__":
    sys.exit(main())
