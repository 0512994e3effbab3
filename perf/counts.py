"""Counts the Python calls per pod, which unlike times do not depend on how busy the machine is.

    python -m perf.counts                       # beside the last baseline, with the functions that grew or shrank
    python -m perf.counts --write               # make this the baseline, perf/calls.json
    make bench-counts

The real process runs beside the stub apiserver of `perf.ceiling`. Calls of Python functions and resumptions of
coroutines are counted, from the bytes of a pod's watch event to the answer to its Event, for seven loads: bursts of
plain pods, of pods with topology spread, of pods of 150 classes (different specs), and of pods of 10 kB; plain pods
that wait for the client's rate limit; single pods, each created when the one before is bound; and a burst of pods that
fit nowhere, until the watch has shown their conditions. The stub shows the pods of a burst all at once, and their
bindings or conditions when all have been answered, so that counts depend little on the machine. Those of a burst depend
a little on the size of batches, those of the other loads on timers: runs differ by about 2 %. The event loop's
callbacks, timers, tasks, reads and writes per pod are also shown.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from kscheduler.testing.controlplane import workload
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.stub_apiserver import StubApiserver
from perf import pod_shapes
from perf.ceiling import await_events, burst
from perf.counted import WORK
from perf.served_objects import NAME, served_node, served_pod

BASELINE = Path(__file__).parent / "calls.json"
NODES = 500
BURSTS = ("plain", "spread", "classes", "large")
BURST_PODS = 4_000
LIMITED = "limited"
LIMITED_PODS = 3_000
LIMITED_QPS = 1_000  # what deploy/ configures
ALONE = "alone"
ALONE_PODS = 200
NOWHERE = "nowhere"
LOADS = (*BURSTS, LIMITED, ALONE, NOWHERE)
MOST_MEASUREMENTS = 5
WARM_UP = 500
MOST_GROWTH = 0.05  # what runs differ by is below half of it
SHOWN = 25

Calls = dict[str, float]  # function -> calls a pod


def main(argv: Sequence[str] | None = None) -> int:
    """Count, and print the comparison; 1 if a load needs more calls than its baseline by more than MOST_GROWTH."""
    parser = argparse.ArgumentParser(prog="perf.counts", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=list(LOADS))
    parser.add_argument("--write", action="store_true", help="make the counts the baseline")
    parser.add_argument("--functions", action="store_true", help="print the functions that are called most")
    options = parser.parse_args(argv)
    baseline: dict[str, Calls] = json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.exists() else {}
    has_grown = False
    for load in options.loads:
        calls = calls_a_pod(load) if options.write else least_calls(load, baseline.get(load))
        print(compared(load, calls, baseline.get(load)))
        if options.functions:
            print("\n".join(f"{count:>9.2f} {name}" for name, count in Counter(calls).most_common(4 * SHOWN)))
        has_grown = has_grown or grew(calls, baseline.get(load))
        if options.write:
            # Many functions are called rarely: together they are some calls a pod.
            baseline[load] = {name: round(count, 3) for name, count in sorted(calls.items()) if count >= 0.002}
    if options.write:
        BASELINE.write_text(json.dumps(baseline, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    return int(has_grown and not options.write)


def least_calls(load: str, baseline: Mapping[str, float] | None) -> Calls:
    """Return how often each function is called for a pod of this load, at least, in a few measurements.

    A busy machine splits a burst into smaller batches, and lets answers overtake each other. That takes further calls,
    of other functions each time. So while there are more calls than the baseline allows, it is measured again, and the
    least count of each function is taken: what a change has added is in all of them.
    """
    least = calls_a_pod(load)
    for _ in range(MOST_MEASUREMENTS - 1):
        if not grew(least, baseline):
            break
        again = calls_a_pod(load)
        least = {name: min(count, again.get(name, 0.0)) for name, count in least.items()}
    return least


def calls_a_pod(load: str) -> Calls:
    """Return how often each function is called for a pod of this load."""
    of_plain = {LIMITED: LIMITED_PODS, ALONE: ALONE_PODS, NOWHERE: BURST_PODS}
    shape, pods = ("plain", of_plain[load]) if load in of_plain else (load, BURST_PODS)
    qps = LIMITED_QPS if load == LIMITED else -1
    with StubApiserver() as stub:
        stub.create_nodes(NODES, "node-{index}", [served_node(node) for node in pod_shapes.zoned_nodes()])
        file = stub.directory / "counts.json"
        scheduler = KScheduler(stub, module=("perf.counted", str(file)), qps=qps, burst=LIMITED_QPS)
        eventually(lambda: stub.state().watches["pods"] and stub.state().watches["nodes"], "the watches are open")
        _burst_in_steps(stub, shape, WARM_UP, first=0)
        if load == NOWHERE:
            _reject_in_steps(stub, WARM_UP, first=WARM_UP)
        before = _counts(scheduler, file)
        began_s = time.monotonic()
        if load == ALONE:
            for number in range(pods):
                burst(stub, shape, 1, first=WARM_UP + number, with_events=False)
            await_events(stub, WARM_UP + pods)
        elif load == LIMITED:
            burst(stub, shape, pods, first=WARM_UP)
        elif load == NOWHERE:
            _reject_in_steps(stub, pods, first=2 * WARM_UP)
        else:
            _burst_in_steps(stub, shape, pods, first=WARM_UP)
        took_s = time.monotonic() - began_s
        after = _counts(scheduler, file)
        if load in (LIMITED, ALONE):
            # What time alone asks for, such as watches opened again, is no pod's: a slow machine has more of it.
            time.sleep(took_s)
            idle = _counts(scheduler, file)
            after = {name: 2 * count - idle.get(name, 0) for name, count in after.items()}
        scheduler.stop()
    return {name: (count - before.get(name, 0)) / pods for name, count in after.items() if count > before.get(name, 0)}


def _burst_in_steps(stub: StubApiserver, shape: str, pods: int, *, first: int) -> None:
    """Create pods and wait until the scheduler has bound them and read of all bindings in the watch of pods."""
    burst(stub, shape, pods - 1, first=first, in_steps=True)
    # The watch shows the last pod behind the bindings of the others.
    burst(stub, shape, 1, first=first + pods - 1)


def _reject_in_steps(stub: StubApiserver, pods: int, *, first: int) -> None:
    """Create pods that fit nowhere, and wait until the scheduler has read of all their conditions in the watch."""
    _reject(stub, pods - 1, first=first)
    # The watch shows the last pod behind the conditions of the others.
    _reject(stub, 1, first=first + pods - 1)


def _reject(stub: StubApiserver, pods: int, *, first: int) -> None:
    text, before = served_pod(workload.pod(requests={"cpu": "1000"})), stub.state()
    stub.hold_watch()
    stub.create_pods(pods, NAME, [text.pending], [text.bound], first=first)
    stub.hold_watch()
    await_events(stub, before.events + pods)
    written = before.patches + pods
    eventually(lambda: stub.state().patches >= written, f"{pods} conditions are written", state=stub.state)
    stub.show_watch()


def _counts(scheduler: KScheduler, file: Path) -> dict[str, int]:
    file.unlink(missing_ok=True)
    scheduler.process.signal(signal.SIGUSR1)
    eventually(file.exists, "the counts are written")
    counts: dict[str, int] = json.loads(file.read_text(encoding="utf-8"))
    return counts


def grew(calls: Mapping[str, float], baseline: Mapping[str, float] | None) -> bool:
    """Return whether there are more calls than the baseline allows."""
    return baseline is not None and total(calls) > (1 + MOST_GROWTH) * total(baseline)


def total(calls: Mapping[str, float]) -> float:
    """Return the calls of Python functions alone."""
    return sum(count for name, count in calls.items() if name not in WORK)


def compared(load: str, calls: Mapping[str, float], baseline: Mapping[str, float] | None) -> str:
    """Return the calls a pod of this load beside the baseline's, and the functions that changed most."""
    now = total(calls)
    if baseline is None:
        return f"{load}: {now:.0f} calls a pod; there is no baseline"
    before = total(baseline)
    lines = [f"{load}: {now:.0f} calls a pod, {before:.0f} in the baseline ({100 * now / before - 100:+.1f} %)"]
    lines += [
        f"  {calls[name]:8.2f} {name}, {baseline.get(name, 0.0):.2f} in the baseline" for name in WORK if name in calls
    ]
    changes = {name: calls.get(name, 0.0) - baseline.get(name, 0.0) for name in {*calls, *baseline} - {*WORK}}
    most = sorted(changes, key=lambda name: -abs(changes[name]))[:SHOWN]
    return "\n".join([*lines, *(f"  {changes[name]:+8.2f} {name}" for name in most if abs(changes[name]) >= 0.2)])


if __name__ == "__main__":
    sys.exit(main())
