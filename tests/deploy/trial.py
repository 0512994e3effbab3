"""One replica under some account, led through everything it ever asks of the apiserver.

The steps, each ended by something the apiserver confirms: it stands by while another holds the Lease; takes the
deleted Lease and renews it; writes the status of an object of a custom kind, if it follows any; places pods, of which
one binding's answer is lost and two have volumes to be bound first; says of a large pod that there is no room, and
again after another pod has gone; drives out a pod for a critical one; and answers a reader of its metrics.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from kscheduler.testing.controlplane import ControlPlane, workload
from kscheduler.testing.controlplane.patience import Patience
from tests.deploy.audit import AuditLog, Request
from tests.deploy.manifests import Object
from tests.deploy.replica import Replica
from tests.deploy.rules import Right
from tests.deploy.trial_volumes import PODS as PODS_WITH_VOLUMES
from tests.deploy.trial_volumes import TrialVolumes

OTHER = "someone-else"  # who holds the Lease at first
LOST = "answer-lost"  # the pod whose first binding is carried out, but never answered
STUCK = "too-large"
CUSTOM = "any"
STORAGE = (
    "storageclasses",
    "csidrivers",
    "csinodes",
    "csistoragecapacities",
    "volumeattachments",
    "persistentvolumes",
    "persistentvolumeclaims",
)
DEVICES = ("deviceclasses", "resourceslices", "resourceclaims")
PORT = 30_123
VICTIM, CRITICAL = "gives-way", "critical"  # both want one port of one node
GROUPS = ("poddisruptionbudgets", "namespaces", "services", "replicationcontrollers", "replicasets", "statefulsets")


@dataclass(frozen=True, slots=True)
class Account:
    """Whom the replica is to the apiserver."""

    user: str
    kubeconfig: Path


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Which Lease it is to hold."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class CustomKinds:
    """Custom kinds that a replica follows, with an object whose status it writes."""

    watched: tuple[tuple[str, str], ...]  # group, resource
    status: str  # of which resource
    path: str  # of the object's kind; {namespace}: that of the trial
    body: Object  # without metadata


Step = tuple[str, Callable[[], object], Callable[[], bool]]  # what it is, what we do, whether it is done


class Trial:
    """`exercise` goes through the steps and may be cut short; `clean` leaves nothing behind."""

    def __init__(
        self,
        control_plane: ControlPlane,
        audit: AuditLog,
        name: str,
        *,
        account: Account,
        lease: LeaseName,
        scheduler_name: str,
        flags: Iterable[str],
        reader: str,
        pods: int = 3,
        kinds: CustomKinds | None = None,
    ) -> None:
        """Pods go to a new namespace `trial-<name>`; `reader` is the token of someone who may read the metrics.

        `kinds`: those that its configuration has it follow; they are installed.
        """
        self.namespace = f"trial-{name}"
        self._api = control_plane.api
        self._audit = audit
        self._user = account.user
        self._asked_before = len(audit.of(account.user))
        self._lease = lease
        self._scheduler_name = scheduler_name
        self._reader = reader
        self._fitting = [f"fits-{index}" for index in range(pods)]
        self._pods_path = f"/api/v1/namespaces/{self.namespace}/pods"
        self._leases_path = f"/apis/coordination.k8s.io/v1/namespaces/{lease.namespace}/leases"
        control_plane.create_namespace(self.namespace)
        self._create_lease()
        self._create_pods()
        self._kinds = kinds
        self._create_custom()
        self._volumes = TrialVolumes(self._api, self.namespace, scheduler_name)
        self.replica = Replica(control_plane, self.namespace, account.kubeconfig, flags)

    # --- what is asked ------------------------------------------------------------------------------------------

    def requests(self) -> list[Request]:
        """What it has asked the apiserver for."""
        return self._audit.of(self._user)[self._asked_before :]

    def refused(self) -> list[Request]:
        """What it was not allowed to do."""
        return [request for request in self.requests() if request.refused]

    def holder(self) -> str:
        """Who holds the Lease, as the apiserver has it."""
        return str(self._api.get(f"{self._leases_path}/{self._lease.name}")["spec"].get("holderIdentity", ""))

    def pod(self, name: str) -> Object:
        """One pod as it is."""
        return cast(Object, self._api.get(f"{self._pods_path}/{name}"))

    def events(self, name: str, reason: str) -> list[Object]:
        """The Events of that reason about a pod."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        events = self._api.list_all(path)
        return [event for event in events if event["regarding"]["name"] == name and event["reason"] == reason]

    # --- the steps ----------------------------------------------------------------------------------------------

    def exercise(self, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Go through all steps, or until `is_enough`."""
        steps: list[Step] = [
            ("it watches what groups pods", _nothing, lambda: all(self._asked(group, "watch") for group in GROUPS)),
            ("it watches storage", _nothing, lambda: all(self._asked(kind, "watch") for kind in STORAGE)),
            ("it watches devices", _nothing, lambda: all(self._asked(kind, "watch") for kind in DEVICES)),
            *self._kinds_watched(),
            ("it watches the other's lease", _nothing, lambda: self._asked("leases", "watch")),
            ("it takes the lease and renews it", self._free_lease, lambda: self._asked("leases", "update")),
            *self._status_written(),
            ("pods are bound", _nothing, lambda: all(map(self._is_bound, [*self._fitting, LOST, VICTIM]))),
            ("a volume is promised", _nothing, lambda: self._asked("persistentvolumes", "patch")),
            ("a node is chosen for a volume", _nothing, lambda: self._asked("persistentvolumeclaims", "patch")),
            ("they have volumes", self._volumes.complete, lambda: all(map(self._is_bound, PODS_WITH_VOLUMES))),
            ("it asks what became of the lost answer", _nothing, lambda: self._asked("pods", "get")),
            ("bound pods have their event", _nothing, lambda: bool(self.events(self._fitting[0], "Scheduled"))),
            ("the large pod has its event", _nothing, lambda: bool(self.events(STUCK, "FailedScheduling"))),
            ("the large pod has its condition", _nothing, lambda: self._reason_of(STUCK) == "Unschedulable"),
            (
                "its event is reported again, since its condition is",
                self._make_room,
                lambda: self._times_recorded(STUCK) >= 2,
            ),
            ("the event is counted on", self._make_room, lambda: self._asked("events", "patch")),
            ("room is made for a critical pod", self._create_critical, lambda: self._is_bound(CRITICAL)),
            ("the victim has its event", _nothing, lambda: bool(self.events(VICTIM, "Preempted"))),
            ("the metrics are readable", _nothing, lambda: self.replica.get("/metrics", self._reader)[0] == 200),
        ]
        for what, act, is_done in steps:
            if is_enough():
                return
            act()
            self._wait(what, is_done, is_enough)

    def _kinds_watched(self) -> list[Step]:
        if self._kinds is None:
            return []
        watched = self._kinds.watched
        return [
            ("it watches custom kinds", _nothing, lambda: all(self._asked(of, "watch", group) for group, of in watched))
        ]

    def _status_written(self) -> list[Step]:
        if self._kinds is None:
            return []
        resource = self._kinds.status
        return [("a custom object has its status", _nothing, lambda: self._asked(resource, "patch"))]

    def end(self) -> int | None:
        """Stop it as a kubelet would; the exit code."""
        return self.replica.process.stop()

    def clean(self) -> None:
        """Stop it, and leave no pods or Lease that would be in the way of others."""
        self.end()
        self._api.delete(self._pods_path)
        self._volumes.clean()
        if self._kinds is not None:
            self._api.delete(f"{self._custom_path(self._kinds)}/{CUSTOM}-{self.namespace}", missing_ok=True)
        self._api.delete(f"{self._leases_path}/{self._lease.name}", missing_ok=True)

    def _wait(self, what: str, is_done: Callable[[], bool], is_enough: Callable[[], bool]) -> None:
        patience = Patience(what, self.replica.log_tail)
        while not (is_enough() or is_done()):
            assert self.replica.process.is_running, f"{what}: it has ended:\n{self.replica.log_tail()}"
            patience.pause()

    def _asked(self, resource: str, verb: str, group: str | None = None) -> bool:
        return any(
            (request.resource, request.verb) == (resource, verb)
            and request.code < 300
            and group in (None, request.group)
            for request in self.requests()
        )

    # --- the scene ----------------------------------------------------------------------------------------------

    def _create_lease(self) -> None:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": OTHER, "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
        self._api.create(self._leases_path, {"metadata": {"name": self._lease.name}, "spec": spec})

    def _create_custom(self) -> None:
        if self._kinds is not None:
            body = {**self._kinds.body, "metadata": {"name": f"{CUSTOM}-{self.namespace}"}}
            self._api.create(self._custom_path(self._kinds), body)

    def _custom_path(self, kinds: CustomKinds) -> str:
        return kinds.path.format(namespace=self.namespace)

    def _free_lease(self) -> None:
        assert self.holder() == OTHER
        assert not any(map(self._is_bound, self._fitting)), "it places pods without the lease"
        self._api.delete(f"{self._leases_path}/{self._lease.name}")

    def _create_pods(self) -> None:
        for name in [*self._fitting, LOST]:
            self._api.create(self._pods_path, workload.pod(name, scheduler_name=self._scheduler_name))
        self._api.create(self._pods_path, self._at_the_port(VICTIM))
        large = workload.pod(STUCK, scheduler_name=self._scheduler_name, requests={"cpu": "1000"})
        self._api.create(self._pods_path, large)

    def _create_critical(self) -> None:
        """It cannot have the port but by driving out the pod that has it."""
        assert self._is_bound(VICTIM)
        critical = self._at_the_port(CRITICAL)
        critical["spec"]["priorityClassName"] = "system-cluster-critical"
        self._api.create(self._pods_path, critical)

    def _at_the_port(self, name: str) -> Object:
        """A pod for one port of one node. It is gone as soon as it is deleted: there is no kubelet to wait for."""
        further = {"nodeSelector": {"kubernetes.io/hostname": "node-0"}, "terminationGracePeriodSeconds": 0}
        pod = workload.pod(name, scheduler_name=self._scheduler_name, spec=further)
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": PORT, "hostPort": PORT}]
        return pod

    def _make_room(self) -> None:
        """A pod goes: reason enough to try the large one again, in vain."""
        self._api.delete(f"{self._pods_path}/{self._fitting.pop()}")

    def _times_recorded(self, name: str) -> int:
        return len(self.events(name, "FailedScheduling"))

    def _is_bound(self, name: str) -> bool:
        return bool(self.pod(name)["spec"].get("nodeName"))

    def _reason_of(self, name: str) -> str:
        conditions: list[dict[str, Any]] = self.pod(name)["status"].get("conditions", [])
        return next((each.get("reason", "") for each in conditions if each["type"] == "PodScheduled"), "")


def asked_for(requests: Iterable[Request], right: Right) -> bool:
    """Whether one of the requests needs this right."""
    return any(request.needs(right) for request in requests)


def _nothing() -> None:
    pass
