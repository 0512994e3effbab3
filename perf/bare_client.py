"""Measures how fast any client could bind pods: it decides nothing, and binds pod after pod to node after node.

    python -m perf.bare_client KUBECONFIG               # bind the pods that exist, then exit
    python -m perf.bare_client KUBECONFIG --events      # and write a Scheduled Event for each
    python -m perf.bare_client KUBECONFIG --events --see-bound  # and watch pods meanwhile, as every scheduler must
    python -m perf.bare_client KUBECONFIG --watch       # bind each pod as soon as a watch reports it
    python -m perf.bare_client KUBECONFIG --watch --events      # and write a Scheduled Event for each

It writes bindings and Events with the same code as kscheduler. How many it writes is the upper bound for a scheduler on
this control plane, and how long a pod waits for it is the time that the control plane itself takes. Without a watch it
is a bound that no scheduler can reach: the apiserver also has to tell a scheduler of each pod that was bound.
`perf.compare_kube_scheduler --bare` and the targets `bare-client` and `bare-events` of `perf.workloads` run it
beside the schedulers.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import random
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from kscheduler.api.objects import Node, Pod
from kscheduler.client.bind_lane import BindLane
from kscheduler.client.binder import Binder
from kscheduler.client.concurrency import cancel_and_wait, run_together
from kscheduler.client.informer import Informer
from kscheduler.client.kinds import NODES, PODS, Resource
from kscheduler.client.kube import KubeClient
from kscheduler.client.protocol import Binding
from kscheduler.client.recorder import EventRecorder
from kscheduler.clock import SystemClock
from kscheduler.errors import APIError
from kscheduler.testing.controlplane import ControlPlane, Process

NAME = "bare client"
SEEING = "bare client with a watch"
AT_ONCE = 64  # concurrent bindings; kscheduler's default
QPS = 100_000
READY = "watching"  # printed once its watch reports new pods

T = TypeVar("T")


class BareClient:
    """Runs the bare client as a process beside a control plane."""

    def __init__(
        self, control_plane: ControlPlane, *, watch: bool = False, events: bool = False, see_bound: bool = False
    ) -> None:
        command = [sys.executable, "-m", "perf.bare_client", str(control_plane.admin_kubeconfig)]
        repository = Path(__file__).resolve().parents[1]
        command += ["--watch"] if watch else []
        command += ["--events"] if events else []
        command += ["--see-bound"] if see_bound else []
        self.process: Process = control_plane.start_process("bare-client", command, directory=repository)
        if watch:
            self.process.wait_ready(lambda: READY in self.process.log_text())

    def stop(self) -> None:
        self.process.stop()


class _Bindings:
    """Writes bindings in the background, and an Event for each if there is a recorder; counts failed bindings."""

    def __init__(self, client: KubeClient, recorder: EventRecorder | None = None) -> None:
        self.lane = BindLane(client, Binder(client, random.Random(0)), limit=AT_ONCE)
        self.failed = 0
        self._recorder = recorder

    def write(self, pod: Pod, node_name: str) -> None:
        meta = pod.metadata
        binding = Binding(meta.namespace, meta.name, meta.uid, node_name)
        self.lane.submit(binding, partial(self._answered, pod, node_name))

    def _answered(self, pod: Pod, node_name: str, error: APIError | None) -> None:
        if error is not None:
            self.failed += 1
        elif self._recorder is not None:
            self._recorder.record_scheduled(pod, node_name)


async def bind_all(kubeconfig: str, *, events: bool = False, see_bound: bool = False) -> int:
    """Bind all pods that have no node; returns how many were not bound. `see_bound`: watch all pods meanwhile."""
    client = await _connect(kubeconfig)
    try:
        if see_bound:
            return await _while_watching(client, _bind_all_recorded(client, events=events))
        return await _bind_all_recorded(client, events=events)
    finally:
        await client.close()


async def _while_watching(client: KubeClient, binding: Coroutine[Any, Any, int]) -> int:
    """Bind while an informer follows all pods, and does nothing with what it sees."""
    pods = Informer(client, PODS, _Seen(), clock=SystemClock(), rng=random.Random(0))
    watching = asyncio.ensure_future(pods.run())
    try:
        await pods.synced.wait()
        return await binding
    finally:
        await cancel_and_wait(watching)


class _Seen:
    """An informer's event handler that does nothing."""

    def on_add(self, obj: Pod) -> None:
        pass

    def on_update(self, old: Pod, new: Pod) -> None:
        pass

    def on_delete(self, obj: Pod) -> None:
        pass


async def _bind_all_recorded(client: KubeClient, *, events: bool) -> int:
    if not events:
        return await _bind_all(client, None)
    recorder = _recorder(client)
    recording = asyncio.ensure_future(recorder.run())
    try:
        failed = await _bind_all(client, recorder)
        await recorder.drain(3600.0)
    finally:
        await cancel_and_wait(recording)
    return failed


async def _bind_all(client: KubeClient, recorder: EventRecorder | None) -> int:
    nodes = [node.metadata.name for node in await _list(client, NODES)]
    bindings = _Bindings(client, recorder)
    pods = [pod for pod in await _list(client, PODS) if not pod.spec.node_name]
    for pod, node_name in zip(pods, itertools.cycle(nodes)):
        bindings.write(pod, node_name)
    await bindings.lane.drain(3600.0)
    return bindings.failed


class NodesInTurn:
    """An informer's event handler that collects the names of all nodes seen."""

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._names: list[str] = []
        self._on_first = on_first
        self._turn = 0

    def next_name(self) -> str:
        """Empty while there is none."""
        if not self._names:
            return ""
        name = self._names[self._turn % len(self._names)]
        self._turn += 1
        return name

    def on_add(self, obj: Node) -> None:
        self._names.append(obj.metadata.name)
        if len(self._names) == 1:
            self._on_first()

    def on_update(self, old: Node, new: Node) -> None:
        pass

    def on_delete(self, obj: Node) -> None:
        pass


class PodsAsTheyCome:
    """An informer's event handler that binds each pod to the next node as soon as it has no scheduling gates."""

    def __init__(self, write: Callable[[Pod, str], None]) -> None:
        """`write` binds a pod to the node of that name."""
        self.nodes = NodesInTurn(self._on_first_node)
        self._write = write
        self._written: set[str] = set()  # pod uids
        self._early: list[Pod] = []  # that came before the first node

    def on_add(self, obj: Pod) -> None:
        uid = obj.metadata.uid
        if obj.spec.node_name or obj.spec.scheduling_gates or uid in self._written:
            return
        self._written.add(uid)
        node_name = self.nodes.next_name()
        if node_name:
            self._write(obj, node_name)
        else:
            self._early.append(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        self.on_add(new)

    def on_delete(self, obj: Pod) -> None:
        pass

    def _on_first_node(self) -> None:
        for pod in self._early:
            self._write(pod, self.nodes.next_name())
        self._early.clear()


async def bind_as_they_come(kubeconfig: str, *, events: bool = False) -> None:
    """Bind each pod when a watch reports it, until cancelled. `events`: also write a Scheduled Event for each."""
    client = await _connect(kubeconfig)
    try:
        recorder = _recorder(client) if events else None
        handler = PodsAsTheyCome(_Bindings(client, recorder).write)
        clock, rng = SystemClock(), random.Random(0)
        nodes = Informer(client, NODES, handler.nodes, clock=clock, rng=rng)
        pods = Informer(client, PODS, handler, clock=clock, rng=rng)
        recording = [] if recorder is None else [recorder.run()]
        await run_together(nodes.run(), pods.run(), _say_ready(nodes, pods), *recording)
    finally:
        await client.close()


async def _say_ready(*informers: Informer[Any]) -> None:
    for informer in informers:
        await informer.synced.wait()
    print(READY, flush=True)


def _recorder(client: KubeClient) -> EventRecorder:
    return EventRecorder(client, SystemClock(), random.Random(0), controller=NAME, instance=NAME)


async def _connect(kubeconfig: str) -> KubeClient:
    return await KubeClient.connect(SystemClock(), kubeconfig=kubeconfig, qps=QPS, burst=QPS)


async def _list(client: KubeClient, resource: Resource[T]) -> list[T]:
    found: list[T] = []
    token = ""
    while True:
        page = await client.list_page(resource, continue_token=token)
        found += page.items
        token = page.continue_token
        if not token:
            return found


async def _serve(kubeconfig: str, *, events: bool, see_bound: bool) -> None:
    """Bind, then wait to be stopped, so that the measuring process can read this process's CPU time."""
    failed = await bind_all(kubeconfig, events=events, see_bound=see_bound)
    print(f"{failed} pods were not bound", flush=True)
    await asyncio.Event().wait()


def _main() -> None:
    parser = argparse.ArgumentParser(prog="perf.bare_client")
    parser.add_argument("kubeconfig")
    parser.add_argument("--watch", action="store_true", help="bind pods as they come, until stopped")
    parser.add_argument("--events", action="store_true", help="write Events, too")
    parser.add_argument("--see-bound", action="store_true", help="watch pods while binding them; not with --watch")
    options = parser.parse_args()
    uvloop.install()
    if options.watch:
        gc.disable()  # a floor has no pauses of its own
        asyncio.run(bind_as_they_come(options.kubeconfig, events=options.events))
    else:
        asyncio.run(_serve(options.kubeconfig, events=options.events, see_bound=options.see_bound))


if __name__ == "__main__":
    _main()
