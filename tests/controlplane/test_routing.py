"""The admission webhook on a real apiserver: pods are routed, and never kept from being created."""

from __future__ import annotations

import base64
import http.server
import json
import select
import shutil
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kscheduler.testing.controlplane import ControlPlane
from kscheduler.testing.controlplane.certificates import CertificateAuthority
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.ports import free_port
from kscheduler.testing.controlplane.workspace import Workspace
from tests.deploy.manifests import DEPLOY, Object, documents

LABEL = "kscheduler.io/routed"
WEBHOOK_PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kscheduler-routing"
BOTH: dict[str, Any] = {"profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "kscheduler"}]}


@dataclass(frozen=True, slots=True)
class Routing:
    """A webhook's configuration and certificate on disk, and the URL under which the apiserver calls it."""

    workspace: Workspace
    port: int
    certificate: Path
    key: Path
    file: Path

    def install(self, authority: Path) -> None:
        """The manifest as it is, but for where the webhook is, since there are no Services here."""
        [manifest] = documents((DEPLOY / "routing" / "webhook.yaml").read_text())
        [webhook] = manifest["webhooks"]
        webhook["clientConfig"] = {
            "url": f"https://127.0.0.1:{self.port}/mutate",
            "caBundle": base64.b64encode(authority.read_bytes()).decode(),
        }
        self.workspace.api.apply(manifest)

    def write(self, **changes: object) -> None:
        """deploy's own rules, with this certificate and port."""
        [configmap] = documents((DEPLOY / "routing" / "configmap.yaml").read_text())
        document = yaml.safe_load(configmap["data"]["routing.yaml"])
        files = {"certFile": str(self.certificate), "keyFile": str(self.key)}
        self.file.write_text(yaml.safe_dump({**document, **files, "port": self.port, **changes}))

    def use(self, pair: Any) -> None:
        """Put this certificate in place as a kubelet does: each file is replaced by another."""
        for source, target in ((pair.key, self.key), (pair.public, self.certificate)):
            spare = target.with_suffix(".new")
            shutil.copy(source, spare)
            spare.rename(target)

    def start(self, name: str = "routing", configuration: dict[str, Any] = BOTH, *, wait: bool = True) -> KScheduler:
        flags = (f"--routing-config={self.file}",)
        return KScheduler(
            self.workspace.control_plane, name=name, configuration=configuration, extra_flags=flags, wait=wait
        )


@pytest.fixture
def routing(workspace: Workspace, tmp_path: Path) -> Iterator[Routing]:
    port = free_port()
    made = Routing(workspace, port, tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "routing.yaml")
    made.use(workspace.control_plane.authority.server("routing"))
    made.write()
    made.install(workspace.control_plane.authority.path)
    workspace.api.patch(f"/api/v1/namespaces/{workspace.namespace}", {"metadata": {"labels": {LABEL: "true"}}})
    try:
        yield made
    finally:
        workspace.api.delete(WEBHOOK_PATH)


def scheduler_of(workspace: Workspace, name: str) -> str:
    return str(workspace.pod(name)["spec"]["schedulerName"])


def reporters(workspace: Workspace) -> dict[str, str]:
    """Return pod -> the scheduler that reported its binding."""
    events = f"/apis/events.k8s.io/v1/namespaces/{workspace.namespace}/events"
    found = workspace.api.list_all(events, fieldSelector="reason=Scheduled")
    return {event["regarding"]["name"]: event["reportingController"] for event in found}


class Answers(socketserver.ThreadingTCPServer):
    """A Prometheus that knows the load of one node, or fails."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        self.fails = False
        super().__init__(("127.0.0.1", 0), _Answer)
        self.port: int = self.server_address[1]

    def __enter__(self) -> Answers:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        assert isinstance(self.server, Answers)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        sample = {"metric": {"node": "node-0"}, "value": [time.time(), "0.5"]}
        body = {"status": "success", "data": {"resultType": "vector", "result": [sample]}}
        text = json.dumps(body).encode()
        self.send_response(500 if self.server.fails else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        pass


def is_routed(workspace: Workspace, pods: Iterator[int], scheduler: str = "kscheduler") -> Callable[[], bool]:
    """Whether a new pod is: the apiserver takes a moment to notice a webhook, and to leave one that did not answer."""

    def ask() -> bool:
        name = workspace.create_pod(f"probe-{next(pods)}", scheduler_name="default-scheduler")
        return scheduler_of(workspace, name) == scheduler

    return ask


def count_up() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


def test_pods_of_one_namespace_go_to_another_scheduler_and_all_others_stay(routing: Routing) -> None:
    workspace = routing.workspace
    workspace.create_nodes(2)
    scheduler = routing.start()
    eventually(is_routed(workspace, count_up()), "pods are routed")
    workspace.create_pod("explicit", scheduler_name="another")
    assert scheduler_of(workspace, "explicit") == "another"
    other = Workspace(workspace.control_plane)
    try:
        other.create_pod("elsewhere")
        assert scheduler_of(other, "elsewhere") == "default-scheduler"
        workspace.create_pod("routed")
        assert scheduler_of(workspace, "routed") == "kscheduler"
        eventually(lambda: "routed" in workspace.bindings(), "it is placed by the profile it was given")
        eventually(lambda: "routed" in reporters(workspace), "its Event is written")
        assert reporters(workspace)["routed"] == "kscheduler"
        routed = [line for line in scheduler.get("/metrics").splitlines() if line.startswith("kscheduler_routed")]
        [line] = routed
        assert line.startswith('kscheduler_routed_pods_total{rule="namespaces-with-label"} ')
    finally:
        workspace.api.delete(f"/api/v1/namespaces/{other.namespace}/pods")
        workspace.control_plane.delete_namespace(other.namespace)


def test_the_systems_own_namespaces_are_never_asked_about(routing: Routing) -> None:
    workspace = routing.workspace
    routing.write(rules=[{"name": "all", "schedulerName": "kscheduler"}])
    routing.start()
    eventually(is_routed(workspace, count_up()), "pods are routed")
    path = "/api/v1/namespaces/kube-system/pods?dryRun=All"
    pod: Object = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    assert workspace.api.create(path, pod)["spec"]["schedulerName"] == "default-scheduler"
    path = f"/api/v1/namespaces/{workspace.namespace}/pods?dryRun=All"
    assert workspace.api.create(path, pod)["spec"]["schedulerName"] == "kscheduler"


def test_without_the_webhook_pods_are_created_nevertheless_and_placed_by_default(routing: Routing) -> None:
    workspace = routing.workspace
    workspace.create_nodes(1)
    scheduler = routing.start()
    numbers = count_up()
    eventually(is_routed(workspace, numbers), "pods are routed")
    scheduler.stop()
    workspace.create_pod("while-down")
    assert scheduler_of(workspace, "while-down") == "default-scheduler"
    plain = KScheduler(workspace.control_plane, name="plain", configuration=BOTH)
    eventually(lambda: "while-down" in workspace.bindings(), "it is placed by the default scheduler")
    plain.stop()
    routing.start("again")
    eventually(is_routed(workspace, numbers), "pods are routed again")


def test_a_webhook_that_accepts_and_never_answers_keeps_no_pod_from_being_created(routing: Routing) -> None:
    workspace = routing.workspace
    numbers = count_up()
    with socket.create_server(("127.0.0.1", routing.port)) as server:

        def is_asked() -> bool:
            """Whether the webhook is asked about a new pod: the apiserver takes a moment to notice a webhook."""
            name = workspace.create_pod(f"stuck-{next(numbers)}")
            assert scheduler_of(workspace, name) == "default-scheduler"
            return bool(select.select([server], [], [], 0)[0])

        eventually(is_asked, "the webhook is asked")


def test_a_renewed_certificate_is_served_without_a_restart(routing: Routing, tmp_path: Path) -> None:
    """Also of another authority: the apiserver then trusts only the new one."""
    workspace = routing.workspace
    scheduler = routing.start()
    numbers = count_up()
    eventually(is_routed(workspace, numbers), "pods are routed")
    folder = tmp_path / "renewed"
    folder.mkdir()
    renewed = CertificateAuthority(folder)
    pair = renewed.server("routing")
    routing.use(pair)
    routing.install(renewed.path)
    address = ("127.0.0.1", routing.port)
    eventually(lambda: ssl.get_server_certificate(address).strip() == pair.public.read_text().strip(), "it is served")
    eventually(is_routed(workspace, numbers), "pods are routed by the new certificate")
    assert scheduler.process.is_running
    assert "serving a renewed certificate" in scheduler.process.log_text()


def test_under_plan_b_new_pods_are_given_the_other_scheduler(routing: Routing) -> None:
    """On a replica that does not lead, too: it asks the sources itself."""
    workspace = routing.workspace
    with Answers() as prometheus:
        source = {
            "name": "prometheus",
            "prometheus": {"url": f"http://127.0.0.1:{prometheus.port}"},
            "interval": "200ms",
            "timeout": "1s",
            "breaker": {"failures": 100},
        }
        plan = {"afterFailures": 3}
        args = {
            "sources": [source],
            "metrics": [{"name": "load", "source": "prometheus", "query": "load"}],
            "policies": [{"name": "idle", "score": [{"metric": "load"}], "planB": plan}],
            "defaultPolicy": "idle",
        }
        profile = {
            "schedulerName": "kscheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "MetricPolicy"}]}},
            "pluginConfig": [{"name": "MetricPolicy", "args": args}],
        }
        routing.write(rules=[{"name": "idle", "schedulerName": "kscheduler", "planB": "fallback"}])
        workspace.create_node("node-0")
        routing.start(configuration={"profiles": [profile]})
        numbers = count_up()
        eventually(is_routed(workspace, numbers), "pods are routed")
        prometheus.fails = True
        eventually(is_routed(workspace, numbers, "fallback"), "plan B is in force")
        prometheus.fails = False
        eventually(is_routed(workspace, numbers), "the source answers again")


def test_a_webhook_that_cannot_be_had_is_an_error_of_configuration(
    control_plane: ControlPlane, routing: Routing
) -> None:
    routing.key.write_text("no key")
    scheduler = routing.start("broken", wait=False)
    eventually(lambda: not scheduler.process.is_running, "it ends")
    assert "expected a PEM certificate and its private key" in scheduler.process.log_text()
