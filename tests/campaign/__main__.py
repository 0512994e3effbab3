"""Runs fault campaigns, seed after seed, for so many minutes; exit code 1 when one found something.

python -m tests.campaign --minutes 30 --seed 1 --per-minute 110 --faults kill,lie,freeze
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

from tests.campaign.campaign import LEASE_S, run, write
from tests.campaign.plan import OTHER_FAULTS, PROXY_FAULTS

DIRECTORY = Path("build/campaign")
SEED_S = 90.0  # how long faults are made for a seed


def main() -> int:
    """The number of violations, and of pauses over their limit, decides the exit code."""
    arguments = _parser().parse_args()
    kinds = [kind for kind in arguments.faults.split(",") if kind]
    if unknown := set(kinds) - {*PROXY_FAULTS, *OTHER_FAULTS}:
        print(
            f"campaign: unknown faults {sorted(unknown)}; there are {[*PROXY_FAULTS, *OTHER_FAULTS]}", file=sys.stderr
        )
        return 2
    # The proxy in this process resets connections by design, and asyncio warns of each write to one that is closed.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    ends_s = time.monotonic() + arguments.minutes * 60
    seed, faults, bad = arguments.seed, 0, 0
    while True:
        duration_s = min(SEED_S, max(20.0, arguments.minutes * 60))
        report = run(seed, duration_s, arguments.per_minute, kinds=kinds, lease_s=arguments.lease)
        print(report.table(), flush=True)
        print(f"  written to {write(report, DIRECTORY)}", flush=True)
        faults += len(report.faults)
        bad += len(report.violations) + sum(pause.is_too_long for pause in report.pauses)
        seed += 1
        if time.monotonic() + duration_s > ends_s:
            break
    print(f"{faults} faults over {seed - arguments.seed} seeds: {bad} findings")
    return 1 if bad else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--per-minute", type=float, default=110.0, help="faults a minute")
    parser.add_argument("--faults", default="", help="kinds, with commas in between; all by default")
    parser.add_argument("--lease", type=float, default=LEASE_S, help="leaseDuration in seconds")
    return parser


if __name__ == "__main__":
    sys.exit(main())
