"""Measures how long no pod is bound when the leader ends under load, with two replicas on a real control plane.

    python -m perf.failover --signal TERM --pods 6000
    python -m perf.failover --signal KILL --lease short
    python -m perf.failover --signal KILL --report-after 1
    python -m perf.failover --nodes 5000 --bound 20000 --pods 10000    # a big cluster; --checkout ../before: other code

Prints the longest pause between two bindings around the leader's end, as seen by a watch of the bindings.
With `--report-after` the replicas claim to run in Pods, and the leader's Pod is reported as ended so many seconds after
the signal. A kubelet takes about a second, since it checks its containers once a second.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from kscheduler.testing.controlplane import ApiserverOptions, BindWatch, ControlPlane, verify
from kscheduler.testing.controlplane.kscheduler import ROOT, KScheduler
from kscheduler.testing.controlplane.load import create, nodes, pods
from kscheduler.testing.controlplane.replica_pod import ReplicaPod
from perf.start import bound_pods

TIMEOUT_S = 300.0
PODS_IN = "default"  # the namespace of the pods that are placed
LEASES = {
    "default": {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"},  # kube-scheduler's
    "short": {"leaseDuration": "5s", "renewDeadline": "3s", "retryPeriod": "1s"},  # DIFFERENCES.md says when it is safe
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.failover", description=__doc__.splitlines()[0])
    parser.add_argument("--signal", choices=("TERM", "KILL"), default="TERM", help="what ends the leader")
    parser.add_argument("--lease", choices=sorted(LEASES), default="default", help="the Lease's durations")
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=6_000)
    parser.add_argument("--bound", type=int, default=0, help="pods that are on the nodes before")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="another checkout with its own .venv, to run that")
    parser.add_argument(
        "--report-after",
        type=float,
        metavar="SECONDS",
        help="report the leader's Pod as ended so long after the signal, with --leader-elect-replace-ended-holder",
    )
    options = parser.parse_args(argv)
    with ControlPlane(ApiserverOptions()) as plane:
        create(plane.credentials, nodes(options.nodes))
        for batch in bound_pods(options.bound, options.nodes):
            create(plane.credentials, batch)
        create(plane.credentials, pods(options.pods))
        reports = options.report_after is not None
        with BindWatch(plane.credentials, PODS_IN) as watch:
            leader, leader_pod = replica(plane, "leader", options.lease, options.checkout, in_pod=reports)
            watch.wait(options.bound + 1, TIMEOUT_S)
            replica(plane, "standby", options.lease, options.checkout, in_pod=reports)
            watch.wait(options.bound + options.pods // 4, TIMEOUT_S)
            leader.process.signal(getattr(signal, f"SIG{options.signal}"))
            signalled = time.monotonic()
            if leader_pod is not None:
                time.sleep(options.report_after)
                leader_pod.report_end()
            watch.wait(options.bound + options.pods, TIMEOUT_S)
            times = sorted(watch.times_s())
        problems = verify(plane.api, PODS_IN, events=False).problems
    later = [at for at in times if at >= signalled - 1.0]
    pause_s = max(second - first for first, second in pairwise(later))
    reported = f", reported after {options.report_after:g} s" if reports else ""
    print(
        f"SIG{options.signal}{reported}, {options.lease} lease: "
        f"longest pause {pause_s:.2f} s, {len(times) - options.bound} pods bound, "
        f"problems: {problems or 'none'}"
    )
    return 1 if problems else 0


def replica(
    plane: ControlPlane, name: str, lease: str, checkout: Path, *, in_pod: bool
) -> tuple[KScheduler, ReplicaPod | None]:
    """A scheduler process and its Pod, if it is in one."""
    pod = ReplicaPod(plane.api, "kube-system", name) if in_pod else None
    process = KScheduler(
        plane,
        name=name,
        leader_elect=True,
        lease=LEASES[lease],
        root=checkout.resolve(),
        python=Path(sys.executable) if checkout == ROOT else checkout.resolve() / ".venv/bin/python",
        extra_flags=("--leader-elect-replace-ended-holder",) if in_pod else (),
        environment=pod.environment if pod is not None else None,
    )
    return process, pod


if __name__ == "__main__":
    sys.exit(main())
