"""Runs a scheduler under load while its wasm plugins are replaced every few seconds, to find losses and leaks.

    python -m perf.wasm_soak                                # ten minutes, 500 nodes, 200 pods a second
    python -m perf.wasm_soak --minutes 1 --rate 500 --reload 1

Pods arrive at a rate, are scheduled by three guests (one pure; one that holds an instance through each binding; one of
the extension interface, which traps if its instance is not the same from Reserve to PostBind), and leave some seconds
after they were bound. Each guest is a file of which several versions take turns; some are broken or trap when called,
and must be refused. At the end every pod must have been bound once, and no instance may be held any more. After the
first fifth of the time threads may grow by no more than instance pools may, and file descriptors not at all; after the
second, resident memory by no more than a few MiB. The slopes in the report are of straight lines fitted to the time
after the first fifth.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import itertools
import json
import logging
import os
import random
import statistics
import sys
import tempfile
import time
from array import array
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import wasmtime

from kscheduler.client.concurrency import cancel_and_wait, run_together
from kscheduler.clock import SystemClock
from kscheduler.config.load import parse_config
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.observability.logs import QUIET, configure
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.cluster import Cluster
from kscheduler.testing import make_node, make_pod
from kscheduler.wasm.loading.sections import CORE_VERSION, MAGIC
from kscheduler.wasm.plugins import GuestPlugins
from kscheduler.wasm.pool import MAX_IDLE, Pool
from perf.policy_plugins import LABEL, number_of
from perf.wasm_policies import c_guest

EXAMPLES = {"LabelScore": "label_score", "NamespacePermit": "namespace_permit"}  # plugin -> its example
REMEMBERING = """(module (memory (export "memory") 1)
  (global $reserved (mut i32) (i32.const 0))
  (func (export "prefilter") (result i32) (global.set $reserved (i32.const 0)) (i32.const 0))
  (func (export "reserve") (result i32)
    (if (global.get $reserved) (then unreachable)) (global.set $reserved (i32.const 1)) (i32.const 0))
  (func (export "prebind") (result i32) (if (i32.eqz (global.get $reserved)) (then unreachable)) (i32.const 0))
  (func (export "postbind") (if (i32.eqz (global.get $reserved)) (then unreachable))))"""
PLUGINS = (*EXAMPLES, "Remembering")
VERSIONS = 4  # of each guest; they take turns
BROKEN_EVERY = 5  # of the reloads, one is of a module that cannot run
SAMPLE_S = 0.5
POOLED_THREADS = 8  # a pool of threads grows whenever all it has are busy for the first time
MEBIBYTE = 1 << 20


@dataclass(slots=True)
class Report:
    """What happened. `faults` lists what must not happen; it is empty if all is well."""

    seconds: float = 0.0
    pods: int = 0
    reloads: Counter[str] = field(default_factory=Counter)  # outcome of a check for a new version -> how often
    resident_mib: list[float] = field(default_factory=list)  # sampled twice a second
    instances: list[int] = field(default_factory=list)  # sampled at the same times, like the next two
    threads: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    latencies_s: array[float] = field(default_factory=lambda: array("d"))  # from a pod's creation to its binding
    faults: list[str] = field(default_factory=list)

    @property
    def grown_mib(self) -> float:
        """Of the last fifth above the third one: by then caches and the allocator's arenas of threads have filled."""
        fifth = max(len(self.resident_mib) // 5, 1)
        early, late = self.resident_mib[2 * fifth : 3 * fifth], self.resident_mib[-fifth:]
        return statistics.median(late) - statistics.median(early) if early else 0.0

    def judge_growth(self, most_mib: float) -> None:
        """Add faults for what grew."""
        if self.grown_mib > most_mib:
            self.faults.append(f"memory grew by {self.grown_mib:.1f} MiB")
        counted = (("threads", self.threads, POOLED_THREADS), ("file descriptors", self.descriptors, 0))
        for what, counts, slack in counted:
            warm = counts[len(counts) // 5 :]
            half = len(warm) // 2
            # Those of a download or a compilation come and go; what is left over stays.
            if half and min(warm[half:]) > max(warm[:half]) + slack:
                self.faults.append(f"{what}: from {max(warm[:half])} to {min(warm[half:])}")

    def slope(self, samples: Sequence[float]) -> float:
        """Growth a minute, by a straight line through the samples after the first fifth."""
        warm = samples[len(samples) // 5 :]
        if len(warm) < 2:
            return 0.0
        return statistics.linear_regression(range(len(warm)), warm).slope * 60 / SAMPLE_S

    def text(self) -> str:
        ordered = sorted(self.latencies_s) or [0.0]
        p99 = ordered[int(len(ordered) * 0.99)]
        looks = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.reloads.items()))
        lines = [
            f"{self.seconds:.0f} s, {self.pods:,} pods bound, each once; looks for versions: {looks}",
            f"created to bound: median {1e3 * statistics.median(ordered):.1f} ms, p99 {1e3 * p99:.1f} ms, "
            f"longest {1e3 * ordered[-1]:.0f} ms",
            f"resident memory: {self.resident_mib[0]:.0f} MiB at first, {max(self.resident_mib):.0f} at most, "
            f"grown {self.grown_mib:+.1f} after it was warm ({self.slope(self.resident_mib):+.3f} a minute)",
            self._counted("guest instances", self.instances),
            self._counted("threads", self.threads),
            self._counted("file descriptors", self.descriptors),
        ]
        return "\n".join([*lines, *(f"FAULT: {fault}" for fault in self.faults)])

    def _counted(self, what: str, counts: Sequence[int]) -> str:
        return f"{what}: {max(counts)} at most, {counts[-1]} at the end ({self.slope(counts):+.3f} a minute)"


# A module of the batch ABI that compiles, and traps at its first call.
TRAPPING = """(module (memory (export "memory") 1)
  (func (export "kscheduler_abi_v1") (result i32) unreachable)
  (func (export "ks_alloc") (param i32) (result i32) unreachable)
  (func (export "ks_configure") (param i32 i32) (result i64) unreachable)
  (func (export "ks_describe") (result i64) unreachable)
  (func (export "ks_table") (param i32 i32) (result i64) unreachable)
  (func (export "ks_call") (param i32 i32 i32) (result i64) unreachable))"""


class Guests:
    """The files of the guests in a folder, which are replaced by other versions in turn."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._code = {name: c_guest(example).read_bytes() for name, example in EXAMPLES.items()}
        self._code["Remembering"] = bytes(wasmtime.wat2wasm(REMEMBERING))
        self._turn = 0
        trapping = dict.fromkeys(EXAMPLES, bytes(wasmtime.wat2wasm(TRAPPING)))
        trapping["Remembering"] = bytes(
            wasmtime.wat2wasm(REMEMBERING.replace("(global.set", "unreachable (global.set"))
        )
        self._broken = itertools.cycle([dict.fromkeys(PLUGINS, MAGIC + CORE_VERSION + b"\x01\xff"), trapping])
        for name in PLUGINS:
            self.path(name).write_bytes(self._version(name, 0))

    def path(self, name: str) -> Path:
        return self._folder / f"{name}.wasm"

    def replace(self) -> None:
        """The next version of each, put there in one step."""
        self._turn += 1
        broken = next(self._broken) if self._turn % BROKEN_EVERY == 0 else None
        for name in PLUGINS:
            data = broken[name] if broken else self._version(name, self._turn % VERSIONS)
            fresh = self.path(name).with_suffix(".tmp")
            fresh.write_bytes(data)
            fresh.replace(self.path(name))

    def _version(self, name: str, number: int) -> bytes:
        """The same code, but other bytes: a custom section says which it is."""
        body = b"\x07version" + str(number).encode()
        return self._code[name] + b"\0" + bytes([len(body)]) + body

    def document(self, reload_s: float) -> dict[str, Any]:
        args = {"reloadInterval": f"{max(100, int(reload_s * 500))}ms"}
        configs = {
            "LabelScore": {"guestConfig": LABEL},
            "NamespacePermit": {"guestConfig": "default"},
            "Remembering": {},
        }
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "plugins": {"multiPoint": {"enabled": [{"name": name} for name in PLUGINS]}},
                    "pluginConfig": [
                        {"name": name, "args": {"guestURL": self.path(name).as_uri(), **args, **configs[name]}}
                        for name in PLUGINS
                    ],
                }
            ],
        }


class Soak:
    def __init__(self, folder: Path, *, nodes: int, rate: float, reload_s: float, stay_s: float = 2.0) -> None:
        self.report = Report()
        self._guests = Guests(folder)
        self._rate, self._reload_s, self._stay_s = rate, reload_s, stay_s
        self._clock, self._metrics = SystemClock(), Metrics(process=False)
        self._cluster = Cluster(self._clock, seed=1, history_limit=20_000)
        for number in range(nodes):
            node = make_node(f"n{number}").capacity(cpu="32", memory="256Gi", pods=110)
            self._cluster.create_node(node.label(LABEL, str(number_of(f"n{number}"))).obj())
        self._plugins = GuestPlugins()
        find = functools.partial(find_plugins, guests=self._plugins)
        config = parse_config(json.dumps(self._guests.document(reload_s)), "scheduler.yaml", find_plugins=find)
        self._scheduler = Scheduler(
            self._cluster.client(),
            config,
            clock=self._clock,
            rng=random.Random(1),
            metrics=self._metrics,
            stopwatch=time.perf_counter,
            options=Options(guests=self._plugins),
        )
        self._created: dict[str, float] = {}  # key of a pod that has not been seen bound -> when it came
        self._bound: deque[tuple[float, str]] = deque()  # (when it may go, key)

    async def run(self, seconds: float) -> Report:
        running = asyncio.ensure_future(run_together(self._scheduler.observe(), self._scheduler.schedule()))
        await self._scheduler.wait_for_sync()
        begin = time.monotonic()
        helpers = [asyncio.ensure_future(work) for work in (self._replace(), self._sample())]
        await self._load(begin + seconds)
        await self._settle()
        await cancel_and_wait(*helpers)
        self._take_sample()
        await cancel_and_wait(running)
        self.report.seconds = time.monotonic() - begin
        self._judge()
        return self.report

    # --- what goes on at the same time ---

    async def _load(self, until: float) -> None:
        begin, made = time.monotonic(), 0
        while (now := time.monotonic()) < until:
            while made < (now - begin) * self._rate:
                pod = make_pod(f"p{made}").req(cpu="100m", memory="500Mi").obj()
                self._cluster.create_pod(pod)
                self._created[pod.key] = now
                made += 1
            self._look(now)
            await asyncio.sleep(0.005)
        self.report.pods = made

    def _look(self, now: float) -> None:
        """Note who has been bound since, and let those go whose time is over."""
        for key in [key for key in self._created if self._cluster.pods[key].spec.node_name]:
            self.report.latencies_s.append(now - self._created.pop(key))
            self._bound.append((now + self._stay_s, key))
        while self._bound and self._bound[0][0] <= now:
            self._cluster.delete_pod(self._bound.popleft()[1])

    async def _replace(self) -> None:
        while True:
            await asyncio.sleep(self._reload_s)
            self._guests.replace()

    async def _sample(self) -> None:
        while True:
            self._take_sample()
            await asyncio.sleep(SAMPLE_S)

    def _take_sample(self) -> None:
        self.report.resident_mib.append(resident_bytes() / MEBIBYTE)
        self.report.instances.append(sum(pool.instances for pool in self._pools()))
        self.report.threads.append(len(os.listdir("/proc/self/task")))
        self.report.descriptors.append(len(os.listdir("/proc/self/fd")))

    async def _settle(self, patience_s: float = 30.0) -> None:
        """Wait until all pods are bound, no binding is under way, and pools have closed what they do not keep."""
        end = time.monotonic() + patience_s

        def is_busy() -> bool:
            assumed = self._scheduler.cache.sizes()["assumed_pods"]
            return bool(self._created or assumed) or any(pool.instances > MAX_IDLE for pool in self._pools())

        while is_busy() and time.monotonic() < end:
            self._look(time.monotonic())
            await asyncio.sleep(0.02)
        gc.collect()

    # --- the verdict ---

    def _judge(self) -> None:
        report, metrics = self.report, self._metrics
        for name in PLUGINS:
            for outcome in ("replaced", "refused", "unreachable", "unchanged"):
                report.reloads[outcome] += int(metrics.wasm_guest_reloads_total.labels(name, outcome).value)
        bindings = sum(
            int(sample.value)
            for sample in metrics.schedule_attempts_total.export().samples
            if sample.name.endswith("_total") and sample.labels["result"] == "scheduled"
        )
        faults = sum(
            int(sample.value) for sample in metrics.wasm_faults_total.export().samples if sample.name.endswith("_total")
        )
        if self._created:
            report.faults.append(f"{len(self._created)} of {report.pods} pods were not bound")
        if bindings != report.pods:
            report.faults.append(f"{bindings} bindings of {report.pods} pods")
        if faults:
            report.faults.append(f"{faults} faults of guests")
        if not report.reloads["replaced"]:
            report.faults.append("no version was replaced")
        held = [pool.holders for pool in self._pools()]
        if any(held):
            report.faults.append(f"instances held by pods that are bound: {held}")

    def _pools(self) -> list[Pool]:
        """Of the plugins that run now."""
        followers: list[Any] = [follower for guest in self._plugins.guests for follower in guest.followers]
        return [follower.pool for follower in followers]


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def soak(seconds: float, *, nodes: int, rate: float, reload_s: float) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(Soak(Path(folder), nodes=nodes, rate=rate, reload_s=reload_s).run(seconds))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.wasm_soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--rate", type=float, default=200.0, help="pods a second")
    parser.add_argument("--reload", type=float, default=3.0, help="seconds between versions")
    parser.add_argument("--growth", type=float, default=16.0, help="MiB that memory may grow by once it is warm")
    options = parser.parse_args(argv)
    configure(verbosity=QUIET)
    logging.getLogger("kscheduler.wasm.loading.reload").setLevel(logging.CRITICAL)  # of the broken versions
    report = soak(60 * options.minutes, nodes=options.nodes, rate=options.rate, reload_s=options.reload)
    report.judge_growth(options.growth)
    print(report.text())
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
