"""Measures how long a scheduler that starts takes to its first binding, by stage, on a real control plane.

    python -m perf.start                                        # 5,000 nodes, 20,000 bound pods, 200 pending ones
    python -m perf.start --against ../before --rounds 5         # in turns with another checkout that has its own .venv
    python -m perf.start --kube-scheduler --rounds 5            # in turns with kube-scheduler
    python -m perf.start --leader-elect --rounds 5              # with a Lease, which the start before has released

Time counts from the start of the process, which includes some 0.03 s of the program that launches it, to the first
binding that a watch sees. The stages are those of kscheduler's log: a stage lasts from the line before to its own. All
starts use one control plane; each gets new pending pods, and is stopped by SIGTERM once they are bound.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kscheduler.testing.controlplane import ApiserverOptions, BindWatch, ControlPlane, KubeScheduler, verify
from kscheduler.testing.controlplane.kscheduler import ROOT, KScheduler
from kscheduler.testing.controlplane.load import Batch, create, nodes, pods
from kscheduler.testing.controlplane.scheduler_process import SchedulerProcess
from kscheduler.testing.controlplane.workload import pod

TIMEOUT_S = 300.0
KUBE_SCHEDULER = "kube-scheduler"
THIS = "this"
NAMESPACE = "default"
# What ends a stage: a line with this message, for lists that of the last kind.
STAGES = {
    "imports, configuration, version": "emulating a release of Kubernetes",
    "first lists": "list complete",
    "Lease": "became leader",
    "the rest before decisions": "scheduling starts",
}
FIRST_BINDING = "first binding"


@dataclass(frozen=True, slots=True)
class Start:
    """One start: what ran, and the seconds from its beginning to the end of each stage."""

    what: str
    ends_s: Mapping[str, float]  # the last one is the first binding
    cpu_s: float  # of the process until the first binding was seen

    @property
    def seconds(self) -> float:
        return self.ends_s[FIRST_BINDING]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.start", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--bound", type=int, default=20_000, help="pods on the nodes before")
    parser.add_argument("--pending", type=int, default=200, help="pods that wait at each start")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, help="another checkout with its own .venv; starts take turns")
    parser.add_argument("--kube-scheduler", action="store_true", help="take turns with kube-scheduler, too")
    parser.add_argument("--leader-elect", action="store_true", help="take part in leader election")
    options = parser.parse_args(argv)
    names = [THIS, *([str(options.against.resolve())] if options.against else [])]
    names += [KUBE_SCHEDULER] if options.kube_scheduler else []
    starts: list[Start] = []
    with ControlPlane(ApiserverOptions()) as plane:
        create(plane.credentials, nodes(options.nodes))
        for batch in bound_pods(options.bound, options.nodes):
            create(plane.credentials, batch)
        with BindWatch(plane.credentials, NAMESPACE) as watch:
            watch.wait(options.bound, TIMEOUT_S)
            for number in range(options.rounds):
                for name in names if number % 2 == 0 else names[::-1]:
                    first = len(starts) * options.pending
                    create(plane.credentials, pods(options.pending, NAMESPACE, first=first))
                    starts.append(start(plane, watch, name, options.pending, leader_elect=options.leader_elect))
                    print(_line(starts[-1]), file=sys.stderr, flush=True)
        problems = verify(plane.api, NAMESPACE, events=False).problems
    print(table(starts, names))
    print(f"problems: {problems or 'none'}")
    return 1 if problems else 0


def bound_pods(count: int, among: int) -> Iterator[Batch]:
    """Yield batches of pods that are created on their nodes, the same number on each, as far as that is possible."""
    for turn in range(-(-count // among)):
        made = pod(f"bound-{turn}-{{index}}", spec={"nodeName": "node-{index}"})
        yield pods(min(among, count - turn * among), NAMESPACE, templates=[made])


def start(plane: ControlPlane, watch: BindWatch, name: str, pending: int, *, leader_elect: bool) -> Start:
    """Start a scheduler, let it bind the pending pods, and stop it."""
    before = watch.count
    # A log of its own for each start.
    label = f"start-{before}"
    scheduler: SchedulerProcess
    began_s, began_unix_s = time.monotonic(), time.time()
    if name == KUBE_SCHEDULER:
        scheduler = KubeScheduler(plane, name=label, leader_elect=leader_elect)
    else:
        root = ROOT if name == THIS else Path(name)
        python = Path(sys.executable) if name == THIS else root / ".venv/bin/python"
        scheduler = KScheduler(
            plane,
            name=label,
            leader_elect=leader_elect,
            extra_flags=("--logging-format=json",),
            root=root,
            python=python,
            wait=False,
        )
    watch.wait(before + 1, TIMEOUT_S)
    cpu_s = scheduler.process.usage().cpu_s
    watch.wait(before + pending, TIMEOUT_S)
    scheduler.stop()
    first_s = sorted(watch.times_s())[before] - began_s
    ends_s = {} if name == KUBE_SCHEDULER else stages(scheduler.process.log_text(), began_unix_s)
    return Start(name, {**ends_s, FIRST_BINDING: first_s}, cpu_s)


def stages(log: str, began_unix_s: float) -> dict[str, float]:
    """Return the seconds from the beginning to the end of each stage that is in the log, which is in JSON."""
    ends_s: dict[str, float] = {}
    names = {message: stage for stage, message in STAGES.items()}
    seen: set[tuple[str, str]] = set()
    for line in log.splitlines():
        record = json.loads(line) if line.startswith("{") else {}
        message, kind = record.get("msg", ""), record.get("resource", "")
        if message in names and (message, kind) not in seen:  # a later list of a kind is not the first one
            seen.add((message, kind))
            ends_s[names[message]] = record["ts"] - began_unix_s
    return dict(sorted(ends_s.items(), key=lambda each: each[1]))


def table(starts: Sequence[Start], names: Sequence[str]) -> str:
    """Return medians of what each stage lasted, and how the whole compares with what else ran in the same round."""
    lines = []
    for name in names:
        mine = [each for each in starts if each.what == name]
        lasted = [_lasted(each.ends_s) for each in mine]
        parts = [f"{stage} {statistics.median(each[stage] for each in lasted):.2f}" for stage in lasted[0]]
        lines.append(
            f"{_short(name)}: {statistics.median(each.seconds for each in mine):.2f} s to the first binding, "
            f"{statistics.median(each.cpu_s for each in mine):.2f} s of CPU ({'; '.join(parts)})"
        )
    ours = [each.seconds for each in starts if each.what == THIS]
    for name in names[1:]:
        theirs = [each.seconds for each in starts if each.what == name]
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} .. {max(ratios):.2f})"
        lines.append(f"time of {_short(THIS)}, part of that of {_short(name)}: {spread}")
    return "\n".join(lines)


def _lasted(ends_s: Mapping[str, float]) -> dict[str, float]:
    before = 0.0
    lasted = {}
    for stage, end_s in ends_s.items():
        lasted[stage], before = end_s - before, end_s
    return lasted


def _line(one: Start) -> str:
    ends = ", ".join(f"{stage} at {end_s:.2f}" for stage, end_s in one.ends_s.items())
    return f"{_short(one.what)}: {ends}; {one.cpu_s:.2f} s of CPU"


def _short(name: str) -> str:
    return Path(name).name


if __name__ == "__main__":
    sys.exit(main())
