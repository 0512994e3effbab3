"""Runs plans on a real etcd and kube-apiserver, fresh for each run, with one scheduler as a process beside them."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any

from kscheduler.testing.controlplane import ApiserverOptions, ControlPlane, HarnessError, KubeScheduler, Process
from kscheduler.testing.controlplane.api import KeptApi
from kscheduler.testing.controlplane.controllermanager import CLAIM_CONTROLLERS, ControllerManager
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.load import Batch, Created, create
from perf.bare_client import BareClient
from perf.control_plane_run import Peer
from perf.workloads.audit_tail import AuditTail
from perf.workloads.object_template import Object
from perf.workloads.pod_log import PodLog
from perf.workloads.site import Usage
from perf.workloads.suite import Plan

# Pods say their priority themselves, which the admission of PriorityClasses would refuse; claims come bound to their
# volumes, which nobody protects; in-tree volumes have no cloud to be labelled by.
NO_ADMISSION = ("Priority", "ServiceAccount", "TaintNodesByCondition", "StorageObjectInUseProtection")

# Gates that are kube-scheduler's own, so that the apiserver need not hear of them. The first is locked to on.
SCHEDULER_GATES = ("SchedulerQueueingHints", "SchedulerAsyncAPICalls", "SchedulerAsyncPreemption")
LOCKED_GATES = ("SchedulerQueueingHints",)

GUARD_PERIOD_S = 0.5

StartPeer = Callable[[ControlPlane, Plan], Peer]


def start_kscheduler(qps: int) -> StartPeer:
    """Ours, with those of the plan's feature gates that it can switch."""

    def start(control_plane: ControlPlane, plan: Plan) -> Peer:
        gates = _gates({name: on for name, on in plan.feature_gates.items() if name in plan.release.switchable})
        configuration = _configuration(plan)
        return KScheduler(control_plane, qps=qps, burst=qps, configuration=configuration, extra_flags=gates)

    return start


def start_kube_scheduler(qps: int) -> StartPeer:
    """The published one, with the plan's feature gates."""

    def start(control_plane: ControlPlane, plan: Plan) -> Peer:
        gates = _gates({name: on for name, on in plan.feature_gates.items() if name not in LOCKED_GATES})
        configuration = _configuration(plan)
        return KubeScheduler(control_plane, qps=qps, burst=qps, configuration=configuration, extra_flags=gates)

    return start


def start_bare_client(*, events: bool) -> StartPeer:
    """What decides nothing, and writes each pod's Event only if `events`."""

    def start(control_plane: ControlPlane, plan: Plan) -> Peer:
        return BareClient(control_plane, watch=True, events=events)

    return start


class ControlPlaneSite:
    """The cluster of one run, a real control plane; implements `Site`."""

    def __init__(self, start: StartPeer, plan: Plan) -> None:
        gates = _gates({name: on for name, on in plan.feature_gates.items() if name not in SCHEDULER_GATES})
        self._gates = gates
        if plan.release.schedules_pod_groups:
            gates = (*gates, f"--runtime-config={plan.release.pod_group_api}=true")
        self._flags = (f"--disable-admission-plugins={','.join(NO_ADMISSION)}", *gates)
        self._start = start
        self._plan = plan
        self._ends = contextlib.ExitStack()
        self.pods = PodLog()

    def __enter__(self) -> ControlPlaneSite:
        with contextlib.ExitStack() as ends:
            directory = ends.enter_context(tempfile.TemporaryDirectory(prefix="kscheduler-audit-"))
            tail = ends.enter_context(AuditTail(Path(directory), self.pods))
            self._plane = ControlPlane(
                ApiserverOptions(extra_flags=(*self._flags, *tail.flags)), release=self._plan.kubernetes
            )
            ends.enter_context(self._plane)
            ends.enter_context(_guarded(self._plane))
            if self._plan.needs_claims:
                ends.callback(ControllerManager(self._plane, CLAIM_CONTROLLERS, self._gates).stop)
            self._peer = self._start(self._plane, self._plan)
            self._ends = ends.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, HarnessError):
            print(f"{self._peer.process.name}: {self._peer.process.log_tail()}", file=sys.stderr)
        self._ends.close()

    def connect(self) -> PlaneConnection:
        return PlaneConnection(self)

    def create(self, batch: Batch) -> Created:
        with self.faults_explained():
            return create(self._plane.credentials, batch)

    def usage(self) -> Usage:
        scheduler, apiserver = self._peer.process.usage(), self._plane.apiserver.process.usage()
        return Usage(scheduler.cpu_s, apiserver.cpu_s, scheduler.peak_memory_bytes)

    def check(self) -> None:
        for process in self._processes():
            if not process.is_running:
                raise HarnessError(f"{process.name} ended by itself with exit code {process.exit_code}")

    def process(self, name: str) -> Process:
        """One of those that must run, for tests that end it."""
        return next(process for process in self._processes() if process.name == name)

    def _processes(self) -> tuple[Process, ...]:
        return self._plane.etcd.process, self._plane.apiserver.process, self._peer.process

    def stop_scheduler(self) -> None:
        self._peer.stop()

    def scheduled_events(self) -> list[Object]:
        with self.faults_explained():
            return self._plane.api.list_all("/api/v1/events", fieldSelector="reason=Scheduled")

    @contextlib.contextmanager
    def faults_explained(self) -> Iterator[None]:
        """Requests that fail because a server has ended say so."""
        try:
            yield
        except (OSError, HTTPException, HarnessError) as error:
            self.check()
            if isinstance(error, HarnessError):
                raise
            raise HarnessError(f"kube-apiserver does not answer: {error}") from error

    @property
    def control_plane(self) -> ControlPlane:
        return self._plane


@contextlib.contextmanager
def _guarded(plane: ControlPlane) -> Iterator[None]:
    """An apiserver whose etcd has died is killed: it would leave requests unanswered for half a minute."""
    ending = threading.Event()

    def guard() -> None:
        while not ending.wait(GUARD_PERIOD_S):
            if not plane.etcd.process.is_running:
                plane.apiserver.kill()
                return

    thread = threading.Thread(target=guard, name="etcd-guard", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


class PlaneConnection(KeptApi):
    """A persistent connection whose errors name a server that has ended."""

    def __init__(self, site: ControlPlaneSite) -> None:
        super().__init__(site.control_plane.credentials)
        self._site = site

    def request(self, method: str, path: str, body: Object | None = None, *, content_type: str | None = None) -> Any:
        with self._site.faults_explained():
            return super().request(method, path, body, content_type=content_type)


def _configuration(plan: Plan) -> dict[str, Any]:
    """The plan's own, without what the harness says itself."""
    return {
        name: value
        for name, value in plan.scheduler_config.items()
        if name not in ("apiVersion", "kind", "clientConnection", "leaderElection")
    }


def _gates(gates: dict[str, bool]) -> tuple[str, ...]:
    written = ",".join(f"{name}={str(on).lower()}" for name, on in gates.items())
    return (f"--feature-gates={written}",) if written else ()
