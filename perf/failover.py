"""How long nobody binds when the leader ends in mid-run: two replicas on one lease, on a real control plane.

    python -m perf.failover --signal TERM --pods 6000
    python -m perf.failover --signal KILL --lease short

Prints the longest pause between two bindings around the end of the leader, as a watch of the bindings saw it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from itertools import pairwise

from tests.controlplane.harness import ApiserverOptions, BindWatch, ControlPlane, verify
from tests.controlplane.harness.kscheduler import KScheduler
from tests.controlplane.harness.load import create, nodes, pods

TIMEOUT_S = 300.0
LEASES = {
    "default": {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"},  # kube-scheduler's
    "short": {"leaseDuration": "5s", "renewDeadline": "3s", "retryPeriod": "1s"},  # RATIONALE.md says when it is safe
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.failover", description=__doc__.splitlines()[0])
    parser.add_argument("--signal", choices=("TERM", "KILL"), default="TERM", help="what ends the leader")
    parser.add_argument("--lease", choices=sorted(LEASES), default="default", help="the Lease's durations")
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=6_000)
    options = parser.parse_args(argv)
    lease = LEASES[options.lease]
    with ControlPlane(ApiserverOptions()) as plane:
        create(plane.credentials, nodes(options.nodes))
        create(plane.credentials, pods(options.pods))
        with BindWatch(plane.credentials) as watch:
            leader = KScheduler(plane, name="leader", leader_elect=True, lease=lease)
            watch.wait(1, TIMEOUT_S)
            KScheduler(plane, name="standby", leader_elect=True, lease=lease)
            watch.wait(options.pods // 4, TIMEOUT_S)
            leader.process.signal(getattr(signal, f"SIG{options.signal}"))
            signalled = time.monotonic()
            watch.wait(options.pods, TIMEOUT_S)
            times = sorted(watch.times_s())
        problems = verify(plane.api, events=False).problems
    later = [at for at in times if at >= signalled - 1.0]
    pause_s = max(second - first for first, second in pairwise(later))
    print(
        f"SIG{options.signal}, {options.lease} lease: longest pause {pause_s:.2f} s, {len(times)} pods bound, "
        f"problems: {problems or 'none'}"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
