"""Measures one run on a real control plane: nodes and pending pods are created, and one scheduler binds all of them.

The control plane is fresh for each run, all pods are created before the scheduler starts, and the outcome is checked
with the apiserver's own lists. Speed is measured by a watch of the bindings, not by what a scheduler reports.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kscheduler.testing.controlplane import ApiserverOptions, BindWatch, ControlPlane, Process, verify
from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.load import create, nodes, pods
from perf.pod_shapes import SHAPES, zoned_nodes

MEBIBYTE = 1024 * 1024


class Peer(Protocol):
    """A scheduler that is measured."""

    @property
    def process(self) -> Process: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Load:
    nodes: int = 5_000
    pods: int = 10_000
    timeout_s: float = 1200.0
    shape: str = "basic"  # the kind of pods, see pod_shapes.py
    node_templates: Callable[[], Sequence[Object]] = zoned_nodes


@dataclass(frozen=True, slots=True)
class Result:
    """The measurements of one run."""

    scheduler: str
    pods: int
    seconds: float  # from the first to the last binding seen
    until_first_s: float  # from the scheduler's start to the first binding
    scheduler_cpu_s: float
    apiserver_cpu_s: float
    peak_memory_bytes: int
    problems: list[str]  # unbound pods, overcommitted nodes, missing Events; empty if all is well
    binding_cpu_s: float = 0.0  # the scheduler's CPU time from the first to the last binding seen

    @property
    def pods_per_s(self) -> float:
        return self.pods / self.seconds if self.seconds else 0.0

    @property
    def cpu_ms_per_pod(self) -> float:
        return 1000 * self.scheduler_cpu_s / self.pods

    @property
    def apiserver_cpu_ms_per_pod(self) -> float:
        return 1000 * self.apiserver_cpu_s / self.pods

    @property
    def peak_memory_mib(self) -> float:
        return self.peak_memory_bytes / MEBIBYTE


def measure(name: str, start: Callable[[ControlPlane], Peer], load: Load) -> Result:
    """Run one scheduler over the load on a control plane of its own."""
    with ControlPlane(ApiserverOptions()) as control_plane:
        create(control_plane.credentials, nodes(load.nodes, templates=load.node_templates()))
        create(control_plane.credentials, pods(load.pods, templates=SHAPES[load.shape]()))
        with BindWatch(control_plane.credentials) as watch:
            before = control_plane.apiserver.process.usage()
            started = time.monotonic()
            peer = start(control_plane)
            watch.wait(1, load.timeout_s)
            until_first = peer.process.usage()
            watch.wait(load.pods, load.timeout_s)
            usage = peer.process.usage()
            after = control_plane.apiserver.process.usage()
            times = watch.times_s()
        _let_events_arrive(control_plane, load)
        placement = verify(control_plane.api)
        peer.stop()
    return Result(
        scheduler=name,
        pods=load.pods,
        seconds=times[-1] - times[0],
        until_first_s=times[0] - started,
        scheduler_cpu_s=usage.cpu_s,
        apiserver_cpu_s=after.cpu_s - before.cpu_s,
        peak_memory_bytes=usage.peak_memory_bytes,
        problems=placement.problems,
        binding_cpu_s=usage.cpu_s - until_first.cpu_s,
    )


def _let_events_arrive(control_plane: ControlPlane, load: Load) -> None:
    """Events have a lane of their own and may still be on their way; wait while their number grows."""
    seen = -1
    for _ in range(60):
        found = len(control_plane.api.list_all("/apis/events.k8s.io/v1/events", fieldSelector="reason=Scheduled"))
        if found >= load.pods or found == seen:
            return
        seen = found
        time.sleep(1.0)
