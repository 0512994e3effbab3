"""Profiles the way of a pod: a flame graph with native frames, the event loop's lag, and memory allocations.

    python -m perf.profile                                 # 5,000 nodes in memory, 40,000 pods of one class
    python -m perf.profile --shape spread --pods 50000
    python -m perf.profile --target control-plane          # the real process on a real apiserver (needs Go)

It writes to build/profile/: flame.svg (for a browser), stacks.txt (folded, for any other viewer), top.txt (by
function), lag.json, and allocations.txt (memory that stays allocated; not on a control plane). It prints how many
microseconds of CPU time each stage of a pod's way takes. In memory, three runs of the same load are measured: one
undisturbed, for CPU time and lag; one under py-spy; one under tracemalloc, with fewer pods.

py-spy needs the right to trace your processes. Where the kernel denies it (a container without SYS_PTRACE, or
kernel.yama.ptrace_scope above 1), a sampler inside the process replaces it, which sees no native frames.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perf.decisions import SHAPES
from perf.flame import draw
from perf.profile_load import Outcome
from perf.profile_sampler import CannotTrace, PySpy
from perf.profile_stacks import Stacks, by_part, exclusive, functions, inclusive, parse

FOLDER = Path("build/profile")
TRACED_PODS = 5_000  # at most, under tracemalloc
FUNCTIONS_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Plan:
    shape: str
    nodes: int
    pods: int
    seconds: float
    rate: int
    folder: Path

    @property
    def stacks(self) -> Path:
        return self.folder / "stacks.txt"


@dataclass(frozen=True, slots=True)
class Lag:
    """Statistics of the event loop's lag, in milliseconds."""

    turns: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    source: str

    def __str__(self) -> str:
        return (
            f"event-loop lag: p50 {self.p50_ms:.2f} ms, p99 {self.p99_ms:.2f} ms, max {self.max_ms:.2f} ms"
            f" ({self.turns:,} turns, {self.source})"
        )


@dataclass(frozen=True, slots=True)
class Profile:
    what: str
    profiler: str
    pods: int
    seconds: float
    cpu_s: float
    lag: Lag
    stacks: Stacks


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.profile", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", choices=("embedded", "control-plane"), default="embedded")
    parser.add_argument("--shape", choices=SHAPES, default="basic", help="of the pods of an embedded cluster")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=40_000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop then, though not all pods are bound")
    parser.add_argument("--rate", type=int, default=300, help="stacks a second")
    parser.add_argument("--sampler", choices=("py-spy", "own"), default="py-spy")
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder for what is found")
    options = parser.parse_args(argv)
    plan = Plan(options.shape, options.nodes, options.pods, options.seconds, options.rate, options.output)
    plan.folder.mkdir(parents=True, exist_ok=True)
    if options.target == "control-plane":
        from perf.profile_control_plane import measure  # needs the harness, which not everybody has

        try:
            profile = measure(plan)
        except CannotTrace as error:
            print(f"cannot profile the process: {error}", file=sys.stderr)
            return 1
    else:
        profile = measure_embedded(plan, options.sampler)
        with Child(plan, "--allocations", str(plan.folder / "allocations.txt"), pods=TRACED_PODS) as child:
            child.run()
    write(plan, profile)
    print(summary(plan, profile))
    return 0


# --- an embedded cluster ----------------------------------------------------------------------------------------


def measure_embedded(plan: Plan, sampler: str) -> Profile:
    with Child(plan) as child:
        outcome = child.run()
    profiler = sample(plan, sampler)
    with plan.stacks.open(encoding="utf-8") as lines:
        stacks = parse(lines)
    return Profile(
        what=f"{plan.shape} pods on {plan.nodes:,} nodes in memory",
        profiler=profiler,
        pods=outcome.pods,
        seconds=outcome.seconds,
        cpu_s=outcome.cpu_s,
        lag=lag_of(outcome.lags_ms),
        stacks=stacks,
    )


def sample(plan: Plan, sampler: str) -> str:
    """Take stacks under load; returns how that was done."""
    if sampler == "py-spy":
        try:
            with Child(plan) as child:
                spy = PySpy(child.pid, plan.stacks, plan.rate)
                child.begin()
                child.outcome()
                spy.stop()
            return "py-spy, with native frames"
        except CannotTrace as error:
            print(f"{error}\nTaking stacks inside the process instead: no native frames.", file=sys.stderr)
    with Child(plan, "--sample", str(plan.stacks), "--rate", str(plan.rate)) as child:
        child.run()
    return "our own sampler, without native frames"


class Child:
    """A process with the load, ready to start it; see perf.profile_load."""

    def __init__(self, plan: Plan, *options: str, pods: int | None = None) -> None:
        command = [sys.executable, "-m", "perf.profile_load", "--shape", plan.shape, "--nodes", str(plan.nodes)]
        command += ["--pods", str(min(plan.pods, pods or plan.pods)), "--seconds", str(plan.seconds), *options]
        self._log = (plan.folder / "scheduler.log").open("a", encoding="utf-8")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self._expect("ready")

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._process.communicate("\n", timeout=60)
        finally:
            self._process.kill()
            self._process.wait()
            self._log.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self) -> Outcome:
        self.begin()
        return self.outcome()

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def outcome(self) -> Outcome:
        return Outcome(**json.loads(self._expect("{")))

    def _expect(self, start: str) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(start):
            raise RuntimeError(f"the load ended early; see {self._log.name}: {line or 'no output'}")
        return line


def lag_of(lags_ms: Sequence[float]) -> Lag:
    found = sorted(lags_ms) or [0.0]
    return Lag(len(lags_ms), found[len(found) // 2], found[int(len(found) * 0.99)], found[-1], "each turn measured")


# --- what is found ----------------------------------------------------------------------------------------------


def write(plan: Plan, profile: Profile) -> None:
    merged = functions(profile.stacks)
    title = f"{profile.what}: {sum(merged.values()):,} samples by {profile.profiler}"
    (plan.folder / "flame.svg").write_text(draw(merged, title), encoding="utf-8")
    (plan.folder / "top.txt").write_text(top(merged, title, profile), encoding="utf-8")
    lag = profile.lag
    figures = {"turns": lag.turns, "p50_ms": lag.p50_ms, "p99_ms": lag.p99_ms, "max_ms": lag.max_ms}
    (plan.folder / "lag.json").write_text(json.dumps({**figures, "source": lag.source}, indent=1) + "\n")


def top(merged: Stacks, title: str, profile: Profile) -> str:
    """Functions by the time spent in themselves."""
    total = sum(merged.values())
    own, whole = exclusive(merged), inclusive(merged)
    lines = [title, "", f"{'own':>7} {'us/pod':>8} {'whole':>7}  function"]
    for frame, count in own.most_common(FUNCTIONS_SHOWN):
        lines.append(
            f"{100 * count / total:6.2f}% {_us_a_pod(profile, count / total):8.2f} "
            f"{100 * whole[frame] / total:6.2f}%  {frame}"
        )
    return "\n".join(lines) + "\n"


def summary(plan: Plan, profile: Profile) -> str:
    parts: Counter[str] = by_part(profile.stacks)
    total = sum(parts.values())
    lines = [
        f"{profile.what}: {profile.pods:,} pods placed in {profile.seconds:.2f} s, {profile.cpu_s:.2f} s of CPU time",
        f"{total:,} samples by {profile.profiler}",
        "",
        f"{'part':<20}{'us/pod':>9}{'share':>9}",
    ]
    for part, count in parts.most_common():
        lines.append(f"{part:<20}{_us_a_pod(profile, count / total):>9.2f}{100 * count / total:>8.1f}%")
    lines.append(f"{'all':<20}{_us_a_pod(profile, 1.0):>9.2f}{100:>8.1f}%")
    return "\n".join([*lines, "", str(profile.lag), f"see {plan.folder}/: flame.svg, top.txt, lag.json, stacks.txt"])


def _us_a_pod(profile: Profile, share: float) -> float:
    return 1e6 * share * profile.cpu_s / max(1, profile.pods)


if __name__ == "__main__":
    sys.exit(main())
