"""Measures what cluster events cost the queue while very many pods wait: node updates that wake no pod, may, or do.

    python -m perf.queue_events                       # 100,000 waiting pods, 1,000 updates a second of each kind
    python -m perf.queue_events --save before.json    # in an old checkout, to compare with
    python -m perf.queue_events --before before.json

All pods were rejected by NodeResourcesFit, TaintToleration and NodeAffinity. Each class of pods has its own requests,
toleration and node affinity. For each second, 1,000 updates are handed to the queue, which meanwhile may continue with
deferred work, as it does while pods are scheduled. Printed are the share of a second's CPU time that all of it took,
the longest single call, how many pods woke, and the time for the rest of the deferred work.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kscheduler.api.node_change import NodeChange
from kscheduler.api.objects import Node, Pod
from kscheduler.config.load import default_config
from kscheduler.framework.events import node_events
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.runtime import Framework
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import NodeBuilder, make_node, make_pod

RATE = 1_000  # updates a second
SLICE = 5  # updates between two looks at what was left undone: the scheduler looks every few ms
PROFILE = "default-scheduler"
REJECTORS = frozenset({"NodeResourcesFit", "TaintToleration", "NodeAffinity"})
GIB = 1 << 30

Update = tuple[Node, Node]


@dataclass(frozen=True, slots=True)
class Result:
    kind: str
    classes: int
    share: float  # CPU time for a second of updates, as a share of that second
    longest_ms: float
    woken: int
    left_s: float  # time for the deferred work that remained when the updates ended


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.queue_events", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--updates", type=int, default=RATE, help="handed over in each run; a slow queue gets fewer")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds after which a run is cut short")
    parser.add_argument("--save", type=Path, help="write the results to a file")
    parser.add_argument("--before", type=Path, help="compare with the results in this file")
    options = parser.parse_args(argv)
    before = _load(options.before) if options.before else {}
    columns = f"{'updates':<22}{'classes':>9}{'share':>10}{'longest':>12}{'woken':>9}{'rest':>9}"
    print(columns + (f"{'longest before':>18}{'woken':>9}" if before else ""))
    results = []
    for classes in (100, options.pods):
        for kind, updates in KINDS.items():
            result = run(kind, updates, options.pods, classes, options.updates, options.limit)
            results.append(result)
            print(_shown(result, before.get((kind, classes))), flush=True)
    if options.save:
        options.save.write_text(json.dumps([asdict(result) for result in results], indent=1))
    return 0


def run(
    kind: str, updates: Callable[[], Iterator[Update]], pods: int, classes: int, number: int, limit_s: float
) -> Result:
    queue = fill(pods, classes)
    gc.collect()
    gc.freeze()  # as the scheduler does once it is up
    waiting = queue.counts().unschedulable
    stream = updates()
    longest = spent = 0.0
    done = 0
    now = 100.0
    while done < number and spent < limit_s:
        for _ in range(SLICE):
            old, new = next(stream)
            started = time.thread_time()
            for event in node_events(NodeChange.between(old, new)):
                queue.move_all_to_active_or_backoff(event, old, new, now)
            took = time.thread_time() - started
            longest, spent = max(longest, took), spent + took
            done += 1
        now += SLICE / RATE
        took = _flush(queue, now)
        longest, spent = max(longest, took), spent + took
    rest = 0.0
    while queue.next_deadline(now) == now:
        took = _flush(queue, now)
        longest, rest = max(longest, took), rest + took
    woken = waiting - queue.counts().unschedulable
    return Result(kind, classes, spent / (done / RATE), longest * 1000, woken, rest)


def _flush(queue: SchedulingQueue, now: float) -> float:
    started = time.thread_time()
    queue.flush(now)
    return time.thread_time() - started


def fill(pods: int, classes: int) -> SchedulingQueue:
    """A queue in which all pods wait."""
    queue = new_queue()
    for number in range(pods):
        queue.add(PodInfo(waiting_pod(number, number % classes)), 0.0)
        queued = queue.pop(0.0)
        assert queued is not None
        queue.add_unschedulable_if_not_present(queued, 0.0, REJECTORS)
    return queue


def new_queue() -> SchedulingQueue:
    handle = Handle(table=NodeTable(), rng=random.Random(0))
    points = build(default_config().profiles[0], handle)
    framework = Framework(PROFILE, points, handle, observer=Measurements(), stopwatch=lambda: 0.0)
    registered = framework.events_by_plugin()
    # An old checkout's queue knows neither profiles nor a clock.
    parameters = inspect.signature(SchedulingQueue.__init__).parameters
    arguments: dict[str, Any] = {"registered": {PROFILE: registered} if "clock" in parameters else registered}
    if "clock" in parameters:
        arguments["clock"] = time.monotonic
    return SchedulingQueue(
        lambda queued: framework.sort_key(queued.pod_info.priority, queued.timestamp),
        framework.run_pre_enqueue,
        **arguments,
    )


def waiting_pod(number: int, kind: int) -> Pod:
    # Every class asks for at least 2 cores and 4 GiB, and for amounts of its own.
    made = make_pod(f"p{number}").uid(f"u{number}")
    made = made.req(cpu=f"{2_000 + kind % 317}m", memory=str(4 * GIB + kind))
    made = made.toleration(key=f"team-{kind}", operator="Exists", effect="NoSchedule")
    return made.node_selector("pool", f"pool-{kind}").obj()


# --- updates of nodes ---


def heartbeats() -> Iterator[Update]:
    """Nothing that a plugin registered."""
    while True:
        yield _pair(make_node("n").annotation("at", "1"), make_node("n").annotation("at", "2"))


def small_nodes() -> Iterator[Update]:
    """More room on a node that is too small for all of them."""
    while True:
        yield _pair(make_node("n").capacity(cpu="1", memory="1Gi"), make_node("n").capacity(cpu="1500m", memory="2Gi"))


def shrinking_nodes() -> Iterator[Update]:
    while True:
        yield _pair(
            make_node("n").capacity(cpu="64", memory="256Gi"), make_node("n").capacity(cpu="63", memory="255Gi")
        )


def other_labels() -> Iterator[Update]:
    while True:
        yield _pair(make_node("n").label("pool", "mine"), make_node("n").label("pool", "yours"))


def other_taints() -> Iterator[Update]:
    """No pod tolerates them, but pods that wait for new nodes are woken by taints too, as in kube-scheduler."""
    while True:
        yield _pair(make_node("n").taint("a", "b"), make_node("n").taint("a", "c"))


def labels_of_some() -> Iterator[Update]:
    """Each update brings what one class asks for."""
    number = 0
    while True:
        number += 1
        yield _pair(make_node("n"), make_node("n").label("pool", f"pool-{number}"))


def large_nodes() -> Iterator[Update]:
    """Room for every pod."""
    while True:
        yield _pair(
            make_node("n").capacity(cpu="32", memory="128Gi"), make_node("n").capacity(cpu="64", memory="256Gi")
        )


def _pair(old: NodeBuilder, new: NodeBuilder) -> Update:
    return old.obj(), new.obj()


KINDS: dict[str, Callable[[], Iterator[Update]]] = {
    "irrelevant": heartbeats,
    "useless: too small": small_nodes,
    "useless: shrinks": shrinking_nodes,
    "useless: labels": other_labels,
    "useful: taints": other_taints,
    "useful: labels": labels_of_some,
    "useful: room for all": large_nodes,
}


# --- printing ---


def _load(path: Path) -> dict[tuple[str, int], Result]:
    results = [Result(**each) for each in json.loads(path.read_text())]
    return {(result.kind, result.classes): result for result in results}


def _shown(result: Result, before: Result | None) -> str:
    ratio = f"{before.longest_ms / result.longest_ms:>16,.0f} x{before.woken:>9,}" if before else ""
    return (
        f"{result.kind:<22}{result.classes:>9,}{result.share:>10.2%}{result.longest_ms:>9.1f} ms"
        f"{result.woken:>9,}{result.left_s:>7.1f} s{ratio}"
    )


if __name__ == "__main__":
    sys.exit(main())
