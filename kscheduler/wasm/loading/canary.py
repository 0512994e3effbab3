"""Tries out a new version of a guest on a few made-up pods and nodes before it may decide about real ones.

The plugin is made as a profile makes it, with a pool, deadline, memory limit and checks of its own. It has no
apiserver, no metrics, no Events and no waiting pods. A guest that traps, hangs or violates its ABI in the trial is
refused. An error status that the guest itself returns counts only if the current version returns none for these pods,
since a guest may have reasons to reject them.
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
from kscheduler.api.topology_labels import ZONE
from kscheduler.cache.cache import Cache
from kscheduler.errors import PluginError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.fence import Fence, WrongAnswer
from kscheduler.framework.interface import EXTENSION_POINTS, Handle
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Rejection
from kscheduler.framework.status import Code, Status
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.arguments import FAIL, WasmArguments
from kscheduler.wasm.engine import DEFAULT_LIMITS, GuestFault, HostFunction, Instance, Limits, Module, Wasi
from kscheduler.wasm.loading.abi import Interface
from kscheduler.wasm.loading.compiling import Version
from kscheduler.wasm.loading.guest import Follower, Guest
from kscheduler.wasm.pool import PoolObserver, Unavailable

# A function that takes the observer of a plugin's calls and returns the function that makes a guest's plugin class.
MakesHost = Callable[[PoolObserver], Callable[[Any], type[Any]]]

_HARD = (GuestFault, Unavailable, WrongAnswer)  # errors that no sound guest causes
_ZONES = ("a", "a", "b")  # zones of the made-up nodes


class CanaryFailed(PluginError):
    """A new version of a guest failed its trial. The text has the reason, and the pod if the fault occurred at one."""


def try_out(guest: Guest, makes_host: MakesHost, version: Version) -> None:
    """Run a trial of a new version of the guest. Raises CanaryFailed, or any error that making the plugin raises.

    Call it in a worker thread, since it may take many times the wasm deadline.
    """
    trial = _trial_of(guest, makes_host, version)
    faults = [*trial.hard, *trial.kinds]
    if faults:
        raise CanaryFailed(f"canary: {faults[0]}")
    if trial.errors and not _trial_of(guest, makes_host, guest.version).errors:
        raise CanaryFailed(f"canary: {trial.errors[0]}; the version that runs has no such error")


def _trial_of(guest: Guest, makes_host: MakesHost, version: Version) -> _Trial:
    trial, module = _Trial(), _TrackedModule(version.module)
    try:
        trial.run(makes_host(trial)(_OneVersion(guest, replace(version, module=module))))
    finally:
        module.close_all()
    return trial


class _OneVersion:
    """A guest with one fixed version, for a trial. Faults count as errors here, whatever its failure policy is."""

    def __init__(self, guest: Guest, version: Version) -> None:
        self.name = guest.name
        self.arguments: WasmArguments = msgspec.structs.replace(guest.arguments, failure_policy=FAIL)
        self.version = version

    @property
    def interface(self) -> Interface:
        return self.version.interface

    def follow(self, follower: Follower) -> None:
        """Do nothing: the version of this guest never changes."""


class _TrackedModule:
    """A module that records the instances made from it, so that they can be closed at the end of the trial."""

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
    """The trial of one plugin object on a few nodes. It is also the PoolObserver that collects the faults of calls."""

    def __init__(self) -> None:
        self.hard: list[str] = []  # errors that no sound guest causes
        self.kinds: list[str] = []  # faults of calls; not all of them become a pod's status
        self.errors: list[str] = []  # errors that the guest returned by itself

    def run(self, kind: type[Any]) -> None:
        handle = Handle(table=_small_table(), rng=random.Random(0))
        plugin: Any = Fence(kind({}, handle), handle)
        points = {point: [(plugin, 1)] for point, method in EXTENSION_POINTS.items() if hasattr(plugin, method)}
        framework = Framework(
            plugin.name, points, handle, observer=Measurements(), stopwatch=handle.stopwatch, first_on_tie=True
        )
        for number, pod in enumerate(_pods()):
            self._decide(framework, PodInfo(pod), is_taken_back=number % 2 == 1)

    def _decide(self, framework: Framework, pod: PodInfo, *, is_taken_back: bool) -> None:
        """Call the extension points for one pod, up to the first at which the guest rejects it.

        With `is_taken_back`, Unreserve ends the attempt instead of the binding.
        """
        state = CycleState()
        # 1. Choose a node.
        self._note(pod, framework.run_pre_enqueue(pod))
        outcome = framework.schedule_pod(state, pod)
        if isinstance(outcome, Rejection):
            self._note(pod, outcome.status)
            return
        # 2. Run the binding cycle to its end, or take the pod back (Unreserve).
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
        """Record the status if it is an error; return whether the pod may go on to the next extension point."""
        if status is None or status.code is not Code.ERROR:
            return status is None or not status.is_rejected
        (self.hard if _is_hard(status.error) else self.errors).append(f"pod {pod.key}: {status.message}")
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


# --- the cluster ------------------------------------------------------------------------------------------------------


def _small_table() -> NodeTable:
    cache = Cache()
    for number, zone in enumerate(_ZONES):
        cache.set_node(_node(f"canary-{number}", zone))
    cache.set_pod(PodInfo(_pod("canary-there", node="canary-0")))
    return cache.table


def _pods() -> list[Pod]:
    """Return the pods of a trial: a plain one, and one with labels and tolerations."""
    tolerations = [{"key": "canary", "operator": "Exists"}]
    return [_pod("canary-plain"), _pod("canary-rich", labels={"app": "canary"}, tolerations=tolerations)]


def _node(name: str, zone: str) -> Node:
    room = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {"kubernetes.io/hostname": name, ZONE: zone}
    document = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room, "capacity": room}}
    return convert_object(document, Node)


def _pod(name: str, *, node: str = "", labels: object = None, tolerations: object = None) -> Pod:
    containers = [{"name": "c", "image": "canary", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels or {}}
    spec = {"containers": containers, "nodeName": node, "tolerations": tolerations or []}
    return convert_object({"metadata": metadata, "spec": spec}, Pod)
