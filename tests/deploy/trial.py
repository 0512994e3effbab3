"""One `kscheduler run` under a ServiceAccount's token, led through everything it ever asks of the apiserver.

The steps, each ended by something the apiserver confirms: it stands by while another holds the Lease; takes the
deleted Lease and renews it; places pods, of which one binding's answer is lost; says of a large pod that there is no
room, and again after another pod has gone; and answers a reader of its metrics.
"""

from __future__ import annotations

import datetime
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from tests.controlplane.harness import ControlPlane, Credentials, workload
from tests.controlplane.harness.kubeconfig import write_kubeconfig
from tests.controlplane.harness.ports import free_port
from tests.controlplane.harness.process import Process
from tests.deploy.audit import AuditLog, Request
from tests.deploy.manifests import Object
from tests.deploy.rules import Right

STEP_LIMIT_S = 30.0  # generous: it matters only to a test that fails
POLL_S = 0.05
OTHER = "someone-else"  # who holds the Lease at first
LOST = "answer-lost"  # the pod whose first binding is carried out, but never answered
STUCK = "too-large"


class Trial:
    """Account `kscheduler` and Lease are in `namespace`. `exercise` may be cut short; `clean` leaves nothing behind."""

    def __init__(
        self,
        control_plane: ControlPlane,
        audit: AuditLog,
        *,
        namespace: str,
        pods_namespace: str,
        config: Path,
        scheduler_name: str,
        server: str,
        reader: str,
        flags: Iterable[str] = (),
        pods: int = 3,
    ) -> None:
        """`server` is the apiserver's address to use, `reader` the token of someone who may read the metrics."""
        self._api = control_plane.api
        self._audit = audit
        self._scheduler_name = scheduler_name
        self._reader = reader
        self._fitting = [f"fits-{index}" for index in range(pods)]
        self.user = f"system:serviceaccount:{namespace}:kscheduler"
        self.token = control_plane.service_account_token(namespace, "kscheduler")
        self._url = f"https://127.0.0.1:{free_port()}"
        self._lease_path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/kscheduler"
        self._pods_path = f"/api/v1/namespaces/{pods_namespace}/pods"
        self._events_path = f"/apis/events.k8s.io/v1/namespaces/{pods_namespace}/events"
        self._create_lease()
        self._create_pods()
        kubeconfig = write_kubeconfig(
            control_plane.directory / f"trial-{namespace}.kubeconfig",
            Credentials(server, control_plane.authority.path, token=self.token),
        )
        command = [sys.executable, "-m", "kscheduler", "run", f"--config={config}", f"--kubeconfig={kubeconfig}"]
        command += ["--bind-address=127.0.0.1", f"--secure-port={self._url.rpartition(':')[2]}", *flags]
        self.process: Process = control_plane.start_process(f"trial-{namespace}", command)

    # --- what is asked ------------------------------------------------------------------------------------------

    def requests(self) -> list[Request]:
        """What it has asked the apiserver for."""
        return self._audit.of(self.user)

    def refused(self) -> list[Request]:
        """What it was not allowed to do."""
        return [request for request in self.requests() if request.refused]

    def lease(self) -> Object:
        """The Lease as it is."""
        return cast(Object, self._api.get(self._lease_path))

    def pod(self, name: str) -> Object:
        """One pod as it is."""
        return cast(Object, self._api.get(f"{self._pods_path}/{name}"))

    def events(self, name: str, reason: str) -> list[Object]:
        """The Events of that reason about a pod."""
        return [
            event
            for event in self._api.list_all(self._events_path)
            if event["regarding"]["name"] == name and event["reason"] == reason
        ]

    def scrape(self, token: str | None) -> tuple[int, str]:
        """Status and body of its /metrics."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return _get(f"{self._url}/metrics", headers)

    def is_ready(self) -> bool:
        """Whether /readyz says so, to anybody."""
        return _get(f"{self._url}/readyz", {})[0] == 200

    # --- the steps ----------------------------------------------------------------------------------------------

    def exercise(self, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Go through all steps, or until `is_enough`."""
        steps: list[tuple[str, Callable[[], object], Callable[[], bool]]] = [
            ("it watches the other's lease", _nothing, lambda: self._asked("leases", "watch")),
            ("it takes the lease and renews it", self._free_lease, lambda: self._asked("leases", "update")),
            ("pods are bound", _nothing, lambda: all(map(self._is_bound, [*self._fitting, LOST]))),
            ("it asks what became of the lost answer", _nothing, lambda: self._asked("pods", "get")),
            ("bound pods have their event", _nothing, lambda: bool(self.events(self._fitting[0], "Scheduled"))),
            ("the large pod has its event", _nothing, lambda: bool(self.events(STUCK, "FailedScheduling"))),
            ("the large pod has its condition", _nothing, lambda: self._reason_of(STUCK) == "Unschedulable"),
            ("the event is counted on", self._make_room, lambda: self._asked("events", "patch")),
            ("the metrics are readable", _nothing, lambda: self.scrape(self._reader)[0] == 200),
        ]
        for what, act, is_done in steps:
            if is_enough():
                return
            act()
            self._wait(what, lambda is_done=is_done: is_enough() or is_done())  # type: ignore[misc]

    def end(self) -> int | None:
        """Stop it as a kubelet would; the exit code."""
        return self.process.stop()

    def clean(self) -> None:
        """Stop it, and leave no pods that would be in the way of others."""
        self.end()
        self._api.delete(self._pods_path)

    def _wait(self, what: str, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + STEP_LIMIT_S
        while not is_so():
            assert self.process.is_running, f"{what}: it has ended:\n{self.process.log_text()[-4000:]}"
            assert time.monotonic() < deadline, f"{what}: not so:\n{self.process.log_text()[-4000:]}"
            time.sleep(POLL_S)

    def _asked(self, resource: str, verb: str) -> bool:
        return any(
            (request.resource, request.verb) == (resource, verb) and request.code < 300 for request in self.requests()
        )

    # --- the scene ----------------------------------------------------------------------------------------------

    def _create_lease(self) -> None:
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": OTHER, "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
        self._api.create(self._lease_path.rpartition("/")[0], {"metadata": {"name": "kscheduler"}, "spec": spec})

    def _free_lease(self) -> None:
        assert self.lease()["spec"]["holderIdentity"] == OTHER
        assert not any(map(self._is_bound, self._fitting)), "it places pods without the lease"
        self._api.delete(self._lease_path)

    def _create_pods(self) -> None:
        for name in [*self._fitting, LOST]:
            self._api.create(self._pods_path, workload.pod(name, scheduler_name=self._scheduler_name))
        large = workload.pod(STUCK, scheduler_name=self._scheduler_name, requests={"cpu": "1000"})
        self._api.create(self._pods_path, large)

    def _make_room(self) -> None:
        """A pod goes: reason enough to try the large one again, in vain."""
        self._api.delete(f"{self._pods_path}/{self._fitting[0]}")

    def _is_bound(self, name: str) -> bool:
        return bool(self.pod(name)["spec"].get("nodeName"))

    def _reason_of(self, name: str) -> str:
        conditions: list[dict[str, Any]] = self.pod(name)["status"].get("conditions", [])
        return next((each.get("reason", "") for each in conditions if each["type"] == "PodScheduled"), "")


def is_ours(holder: str) -> bool:
    """Whether a Lease's holder is a scheduler on this machine."""
    return holder.startswith(f"{socket.gethostname()}_")


def asked_for(requests: Iterable[Request], right: Right) -> bool:
    """Whether one of the requests needs this right."""
    return any(request.needs(right) for request in requests)


def _nothing() -> None:
    pass


def _get(url: str, headers: dict[str, str]) -> tuple[int, str]:
    tls = ssl.create_default_context()
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE  # self-signed, and nothing secret is asked
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=15, context=tls) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""
