"""The first calls of a new version, aside: it decides about a few pods on a small table before it may about real ones.

The plugin is made as a profile makes it: its own pool, deadline, memory cap and checks. Around it there is nobody: no
apiserver, no metrics, no Events, no pods that wait. A guest that traps, hangs or breaks its contract there is refused.
What it reports as an error of its own is held against it only if the version that runs reports none: a guest may have
reasons not to like these pods.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import msgspec

from kscheduler.api.decode import convert_object
from kscheduler.api.objects import Node, Pod
from kscheduler.cache.cache import Cache
from kscheduler.errors import InternalError, PluginError
from kscheduler.framework.algorithm import Rejection
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.fence import Fence, WrongAnswer
from kscheduler.framework.interface import EXTENSION_POINTS, Handle
from kscheduler.framework.observer import NoObserver
from kscheduler.framework.runtime import Framework
from kscheduler.framework.status import Code, Status
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.arguments import FAIL, WasmArguments
from kscheduler.wasm.engine import DEFAULT_LIMITS, GuestFault, HostFunction, Instance, Limits, Module, Wasi
from kscheduler.wasm.loading.abi import Interface
from kscheduler.wasm.loading.compiling import Version
from kscheduler.wasm.loading.guest import Follower, Guest
from kscheduler.wasm.pool import PoolObserver, Unavailable

# From who is told of its runs to what makes the plugin's class of a guest.
MakesHost = Callable[[PoolObserver], Callable[[Any], type[Any]]]

_HARD = (GuestFault, Unavailable, WrongAnswer)  # that no sound guest causes
_ZONES = ("a", "a", "b")  # of the nodes


class CanaryFailed(PluginError):
    """A new version did not survive its first calls; the text says at which pod, and why."""


class Canary:
    """Tries versions of one guest."""

    def __init__(self, guest: Guest, makes_host: MakesHost) -> None:
        self._guest = guest
        self._makes_host = makes_host

    def try_out(self, version: Version) -> None:
        """Raise CanaryFailed, or what making the plugin raises. For a worker thread: it may take many deadlines."""
        trial = self._trial(version)
        faults = [*trial.hard, *trial.kinds]
        if faults:
            raise CanaryFailed(f"canary: {faults[0]}")
        if trial.errors and not self._trial(self._guest.version).errors:
            raise CanaryFailed(f"canary: {trial.errors[0]}; the version that runs has no such error")

    def _trial(self, version: Version) -> _Trial:
        trial, module = _Trial(), _TrackedModule(version.module)
        guest = _OneVersion(self._guest, replace(version, module=module))
        try:
            trial.run(self._makes_host(trial)(guest))
        finally:
            module.close_all()
        return trial


class _OneVersion:
    """A guest as its plugin sees it, that never changes. Its faults count, whatever they mean to real pods."""

    def __init__(self, guest: Guest, version: Version) -> None:
        self.name = guest.name
        self.arguments: WasmArguments = msgspec.structs.replace(guest.arguments, failure_policy=FAIL)
        self.version = version

    @property
    def interface(self) -> Interface:
        return self.version.interface

    def follow(self, follower: Follower) -> None:
        """There is nothing to follow."""


class _TrackedModule:
    """Knows the instances that were made of it, which end with the trial."""

    def __init__(self, module: Module) -> None:
        self.exports = module.exports
        self.imports = module.imports
        self.serialize = module.serialize
        self._module = module
        self._made: list[Instance] = []

    def instantiate(
        self, functions: Iterable[HostFunction] = (), limits: Limits = DEFAULT_LIMITS, *, wasi: Wasi | None = None
    ) -> Instance:
        self._made.append(self._module.instantiate(functions, limits, wasi=wasi))
        return self._made[-1]

    def close_all(self) -> None:
        for instance in self._made:
            instance.close()


class _Trial:
    """One plugin object among a few nodes; it watches the plugin's pool, as a PoolObserver."""

    def __init__(self) -> None:
        self.hard: list[str] = []  # what no sound guest does
        self.kinds: list[str] = []  # of faults, some of which no pod is told of
        self.errors: list[str] = []  # what it reported by itself

    def run(self, kind: type[Any]) -> None:
        handle = Handle(table=_small_table(), rng=random.Random(0), bind=_bind_nothing)
        plugin: Any = Fence(kind({}, handle), handle)
        points = {point: [(plugin, 1)] for point, method in EXTENSION_POINTS.items() if hasattr(plugin, method)}
        framework = Framework(
            plugin.name, points, handle, observer=NoObserver(), stopwatch=handle.stopwatch, first_on_tie=True
        )
        for number, pod in enumerate(_pods()):
            self._decide(framework, PodInfo(pod), is_taken_back=number % 2 == 1)

    def _decide(self, framework: Framework, pod: PodInfo, *, is_taken_back: bool) -> None:
        """A pod's way, as far as the guest lets it go."""
        state = CycleState()
        # 1. From the queue to a node.
        self._note(pod, framework.run_pre_enqueue(pod))
        outcome = framework.schedule_pod(state, pod)
        if isinstance(outcome, Rejection):
            self._note(pod, outcome.status)
            return
        # 2. To the end of its binding, or back.
        node = outcome.node_name
        goes_on = self._note(pod, framework.run_reserve(state, pod, node))
        goes_on = goes_on and self._note(pod, framework.run_permit(state, pod, node)[0])
        if goes_on and not is_taken_back:
            self._note(pod, framework.run_pre_bind_pre_flights(state, pod, node))
            goes_on = self._note(pod, asyncio.run(framework.run_pre_bind(state, pod, node)))
        if goes_on and not is_taken_back:
            ends = framework.run_post_bind(state, pod, node)
        else:
            ends = framework.run_unreserve(state, pod, node)
        for status in ends:
            self._note(pod, status)

    def _note(self, pod: PodInfo, status: Status | None) -> bool:
        """Whether the pod goes on."""
        if status is None or status.code is not Code.ERROR:
            return status is None or not status.is_rejected
        said = f"pod {pod.key}: {status.message}"
        (self.hard if _is_hard(status.error) else self.errors).append(said)
        return False

    # --- as a PoolObserver ---

    def wasm_called(self, plugin: str, seconds: float, fault: str) -> None:
        if fault:
            self.kinds.append(f"a call ended with a fault of kind {fault}")

    def wasm_sizes(self, plugin: str, instances: int, memory_pages: int) -> None:
        pass

    def wasm_quarantined(self, plugin: str, quarantined: bool, reason: str) -> None:
        pass


def _is_hard(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, _HARD):
            return True
        error = error.__cause__
    return False


async def _bind_nothing(pod: PodInfo, node_name: str) -> None:
    raise InternalError(f"pod {pod.key} was bound to {node_name} by a canary")


# --- the cluster ------------------------------------------------------------------------------------------------------


def _small_table() -> NodeTable:
    cache = Cache()
    for number, zone in enumerate(_ZONES):
        cache.set_node(_node(f"canary-{number}", zone))
    cache.set_pod(PodInfo(_pod("canary-there", node="canary-0")))
    return cache.table


def _pods() -> list[Pod]:
    """One as plain as can be, one with much to say."""
    tolerations = [{"key": "canary", "operator": "Exists"}]
    return [_pod("canary-plain"), _pod("canary-rich", labels={"app": "canary"}, tolerations=tolerations)]


def _node(name: str, zone: str) -> Node:
    room = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    document = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room, "capacity": room}}
    return convert_object(document, Node)


def _pod(name: str, *, node: str = "", labels: object = None, tolerations: object = None) -> Pod:
    containers = [{"name": "c", "image": "canary", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels or {}}
    spec = {"containers": containers, "nodeName": node, "tolerations": tolerations or []}
    return convert_object({"metadata": metadata, "spec": spec}, Pod)
