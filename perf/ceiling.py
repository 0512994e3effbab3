"""Measures the CPU time per pod of the scheduler's process beside an apiserver stub that is no bottleneck.

    python -m perf.ceiling                                    # every shape, 5,000 nodes, bursts of 20,000 pods
    python -m perf.ceiling --shapes plain classes --pods 50000 --rounds 5
    python -m perf.ceiling --against ../before --rounds 5     # paired with another checkout that has its own .venv
    python -m perf.ceiling --shapes plain --stages            # and where the time goes (needs py-spy's rights)
    python -m perf.ceiling --idle 60                          # what an idle scheduler uses
    python -m perf.ceiling --shapes plain --come-and-go 1000000    # does memory grow with the pods that have gone?
    python -m perf.ceiling --shapes plain --qps 1000 --pods 10000    # what a pod costs where the rate limit holds it up

The real process (`kscheduler run`) is pinned to core 0, the stub apiserver and this program to core 1. The stub speaks
TLS, serves lists and watches as JSON and takes bindings and Events as protobuf, with answers as long as an apiserver's.
The scheduler has no client rate limit: with one, a longer burst would measure that.
A round lasts from the first pod's creation to the last binding; its CPU time is counted until the last Event. It is
checked that each pod was bound once, to an existing node. CPU time is of the scheduler's process, all its threads;
memory is the highest resident set.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kscheduler.testing.controlplane.kscheduler import ROOT, KScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.stub_apiserver import StubApiserver
from perf import pod_shapes
from perf.profile_sampler import PySpy
from perf.profile_stacks import by_part, functions, parse
from perf.served_objects import NAME, SHAPES, served_node, served_pod

SCHEDULER_CORE, OTHER_CORE = "0", "1"


@dataclass(frozen=True, slots=True)
class Plan:
    """What one round does."""

    shape: str
    checkout: Path
    nodes: int
    pods: int
    warm_up: int  # pods placed before measuring, so that pod classes are compiled and connections open
    qps: float  # the scheduler's clientConnection.qps and burst; negative for no limit


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one round, i.e. one burst of pods."""

    shape: str
    checkout: str
    pods: int
    us_a_pod: float  # CPU time per pod in microseconds
    pods_per_s: float
    peak_mib: float


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rounds and print a table."""
    parser = argparse.ArgumentParser(prog="perf.ceiling", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--warm-up", type=int, default=2_000, help="pods before, which are not counted")
    parser.add_argument("--qps", type=int, default=-1, help="the scheduler's qps and burst (default: no limit)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--against", type=Path, help="another checkout with its own .venv; rounds take turns")
    parser.add_argument("--stages", action="store_true", help="one more round of each shape under py-spy")
    parser.add_argument("--idle", type=float, metavar="SECONDS", help="measure an idle scheduler instead")
    parser.add_argument(
        "--come-and-go", type=int, metavar="PODS", help="measure memory while so many pods come and go instead"
    )
    parser.add_argument("--output", type=Path, help="file for the rounds, as JSON")
    options = parser.parse_args(argv)
    load = (options.nodes, options.pods, options.warm_up, options.qps)
    if options.idle:
        print(idle(Plan("plain", ROOT, *load), options.idle))
        return 0
    if options.come_and_go:
        for shape in options.shapes:
            come_and_go(Plan(shape, ROOT, *load), options.come_and_go)
        return 0
    checkouts = [ROOT, *([options.against.resolve()] if options.against else [])]
    rounds: list[Round] = []
    for shape in options.shapes:
        for number in range(options.rounds):
            for checkout in checkouts if number % 2 == 0 else checkouts[::-1]:
                rounds.append(measure(Plan(shape, checkout, *load)))
                print(_line(rounds[-1]), file=sys.stderr, flush=True)
    print(table(rounds, [_name(checkout) for checkout in checkouts]))
    if options.stages:
        for shape in options.shapes:
            print(stages(Plan(shape, ROOT, *load)))
    if options.output:
        options.output.write_text(json.dumps([asdict(each) for each in rounds], indent=1) + "\n", encoding="utf-8")
    return 0


def measure(plan: Plan) -> Round:
    """Return one round of a freshly started scheduler."""
    with StubApiserver(cores=OTHER_CORE) as stub:
        scheduler = started(stub, plan)
        before_s = scheduler.process.usage().cpu_s
        seconds = burst(stub, plan.shape, plan.pods, first=plan.warm_up)
        used = scheduler.process.usage()
        scheduler.stop()
    return Round(
        plan.shape,
        _name(plan.checkout),
        plan.pods,
        us_a_pod=1e6 * (used.cpu_s - before_s) / plan.pods,
        pods_per_s=plan.pods / seconds,
        peak_mib=used.peak_memory_bytes / 2**20,
    )


def idle(plan: Plan, seconds: float) -> str:
    """Return the share of a core that a scheduler takes whose pods are bound and whose cluster rests."""
    with StubApiserver(cores=OTHER_CORE) as stub:
        scheduler = started(stub, plan)
        before_s = scheduler.process.usage().cpu_s
        time.sleep(seconds)
        used_s = scheduler.process.usage().cpu_s - before_s
        scheduler.stop()
    return f"idle, {plan.nodes} nodes: {used_s / seconds:.2%} of a core for {seconds:g} s"


def come_and_go(plan: Plan, total: int) -> None:
    """Print the scheduler's memory while `total` pods come in bursts, each of which is deleted before the next.

    Memory is the resident set after a burst is bound: it holds one burst's pods. The first tenth is not compared, for
    rings of decisions and tables are still filling up.
    """
    with StubApiserver(cores=OTHER_CORE) as stub:
        scheduler = started(stub, plan)
        resident_mib: list[float] = []
        for number in range(1, max(2, total // plan.pods) + 1):
            stub.forget_pods()
            burst(stub, plan.shape, plan.pods, first=number * plan.pods)
            resident_mib.append(scheduler.process.resident_bytes() / 2**20)
            print(f"{plan.shape}: {number * plan.pods:>9,} pods, {resident_mib[-1]:.1f} MiB", flush=True)
        scheduler.stop()
    later = resident_mib[len(resident_mib) // 10 :]
    half = len(later) // 2
    before, after = statistics.median(later[:half] or later), statistics.median(later[half:])
    print(
        f"{plan.shape}: median {before:.1f} MiB in the first half, {after:.1f} in the second; at most {max(later):.1f}"
    )


def stages(plan: Plan) -> str:
    """Return a table of where the CPU time of a burst goes, from stacks."""
    with StubApiserver(cores=OTHER_CORE) as stub:
        scheduler = started(stub, plan)
        stacks = stub.directory / "stacks.txt"
        before_s = scheduler.process.usage().cpu_s
        spy = PySpy(scheduler.process.pid, stacks, 200)
        burst(stub, plan.shape, plan.pods, first=plan.warm_up)
        cpu_s = scheduler.process.usage().cpu_s - before_s
        spy.stop()
        with stacks.open(encoding="utf-8") as lines:
            parts = by_part(functions(parse(lines)))
        scheduler.stop()
    total = sum(parts.values())
    lines_ = [f"{plan.shape}: CPU time a pod, by stage", f"{'stage':<20}{'us/pod':>9}"]
    lines_ += [f"{part:<20}{1e6 * cpu_s / plan.pods * count / total:>9.2f}" for part, count in parts.most_common()]
    return "\n".join(lines_)


def started(stub: StubApiserver, plan: Plan) -> KScheduler:
    """Return a scheduler that knows the nodes and has placed its first pods."""
    stub.create_nodes(plan.nodes, "node-{index}", [served_node(node) for node in pod_shapes.zoned_nodes()])
    python = Path(sys.executable) if plan.checkout == ROOT else plan.checkout / ".venv/bin/python"
    burst_tokens = max(1, int(plan.qps))
    scheduler = KScheduler(
        stub, python=python, root=plan.checkout, cores=SCHEDULER_CORE, qps=plan.qps, burst=burst_tokens
    )
    eventually(lambda: stub.state().watches["pods"] and stub.state().watches["nodes"], "the watches are open")
    burst(stub, plan.shape, plan.warm_up)
    return scheduler


def burst(
    stub: StubApiserver, shape: str, pods: int, *, first: int = 0, in_steps: bool = False, with_events: bool = True
) -> float:
    """Create pods and wait for all bindings and, `with_events`, Events; return the seconds to the last binding.

    `in_steps`: the watch shows all pods at once, and their bindings when all bindings and Events have been answered.
    """
    texts = [served_pod(template) for template in SHAPES[shape]()]
    wanted = stub.state()
    bound, events = wanted.bound + pods, wanted.events + pods
    began_s = stub.state().now_s
    if in_steps:
        stub.hold_watch()
    stub.create_pods(pods, NAME, [text.pending for text in texts], [text.bound for text in texts], first=first)
    if in_steps:
        stub.hold_watch()
    eventually(lambda: stub.state().bound >= bound, f"{pods} pods are bound", state=lambda: stub.state().bound)
    if with_events:
        await_events(stub, events)
    if in_steps:
        stub.show_watch()
    state = stub.state()
    if state.mistakes or state.bound != bound:
        raise RuntimeError(f"expected {bound} bindings and no mistake, got {state}")
    return state.last_bound_s - began_s


def await_events(stub: StubApiserver, count: int) -> None:
    """Wait until so many Events have been written since the stub was started."""
    eventually(lambda: stub.state().events >= count, f"{count} Events are written", state=lambda: stub.state().events)


def table(rounds: Sequence[Round], checkouts: Sequence[str]) -> str:
    """Return medians by shape and, where two checkouts took turns, how much of the other's each took."""
    lines = [f"{'shape':<10}{'checkout':<12}{'us/pod':>8}{'pods/s':>9}{'MiB':>7}{'ratio of us/pod':>28}"]
    for shape in dict.fromkeys(each.shape for each in rounds):
        for name in checkouts:
            mine = [each for each in rounds if (each.shape, each.checkout) == (shape, name)]
            us, rate, mib = (
                statistics.median(getattr(each, field) for each in mine)
                for field in ("us_a_pod", "pods_per_s", "peak_mib")
            )
            ratio = _ratio(rounds, shape, name, checkouts)
            lines.append(f"{shape:<10}{name:<12}{us:>8.1f}{rate:>9.0f}{mib:>7.0f}{ratio:>28}")
    return "\n".join(lines)


def _ratio(rounds: Sequence[Round], shape: str, name: str, checkouts: Sequence[str]) -> str:
    """Return this checkout's CPU time in that of the other one of the same round, with its spread."""
    if len(checkouts) < 2 or name != checkouts[0]:
        return ""
    pairs = [[each.us_a_pod for each in rounds if (each.shape, each.checkout) == (shape, one)] for one in checkouts]
    ratios = [mine / other for mine, other in zip(*pairs, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} .. {max(ratios):.2f})"


def _line(one: Round) -> str:
    return (
        f"{one.shape} {one.checkout}: {one.us_a_pod:.1f} us a pod, {one.pods_per_s:.0f} pods/s, {one.peak_mib:.0f} MiB"
    )


def _name(checkout: Path) -> str:
    return "this" if checkout == ROOT else checkout.name[:11]


if __name__ == "__main__":
    sys.exit(main())
