"""The harness itself: it starts real components, gives them what they need, and leaves nothing behind."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from kscheduler.testing.controlplane import (
    Api,
    BindWatch,
    ControlPlane,
    Credentials,
    HarnessError,
    KubeScheduler,
    Kwok,
    MissingTool,
    Process,
    RequestFailed,
    StartFailed,
    ensure,
    verify,
)
from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.binaries import ensure_tool, kubernetes_version
from kscheduler.testing.controlplane.kwok import ANNOTATION
from kscheduler.testing.controlplane.load import create, nodes, pods
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parents[2]


def is_alive(pid: int) -> bool:
    """Whether a process of that id runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_apiserver_is_the_release_that_go_mod_names(control_plane: ControlPlane) -> None:
    assert control_plane.api.get("/version")["gitVersion"] == kubernetes_version()


def test_a_control_plane_of_another_release_runs_with_its_scheduler_and_kwok() -> None:
    with ControlPlane(release="1.37") as control_plane:
        assert control_plane.api.get("/version")["gitVersion"] == kubernetes_version("1.37") != kubernetes_version()
        workspace = Workspace(control_plane)
        workspace.create_node("node", annotations=ANNOTATION)
        workspace.create_pod("pod")
        Kwok(control_plane)
        KubeScheduler(control_plane)
        eventually(lambda: workspace.pod("pod")["status"]["phase"] == "Running", "the pod is bound and runs")


def test_a_release_that_is_not_known_is_named() -> None:
    with pytest.raises(HarnessError, match=r"expected a release of Kubernetes among 1\.36, 1\.37, got '1\.12'"):
        ensure(release="1.12")


def test_service_account_is_who_its_token_says(workspace: Workspace) -> None:
    credentials = workspace.control_plane.service_account_credentials(workspace.namespace, "scheduler")
    review = Api(credentials).create(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    assert review["status"]["userInfo"]["username"] == f"system:serviceaccount:{workspace.namespace}:scheduler"


def test_service_account_without_a_role_is_forbidden(workspace: Workspace) -> None:
    credentials = workspace.control_plane.service_account_credentials(workspace.namespace, "nobody")
    with pytest.raises(RequestFailed, match=r"403 Forbidden.*cannot list resource \"pods\""):
        Api(credentials).list_all("/api/v1/pods")


def test_service_account_has_what_an_applied_role_grants(workspace: Workspace) -> None:
    namespace = workspace.namespace
    manifests = f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: reader, namespace: {namespace}}}
rules: [{{apiGroups: [""], resources: [pods], verbs: [list]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: reader, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}}
subjects: [{{kind: ServiceAccount, name: reader, namespace: {namespace}}}]
"""
    workspace.api.apply(*yaml.safe_load_all(manifests))
    api = Api(workspace.control_plane.service_account_credentials(namespace, "reader"))
    assert api.list_all(f"/api/v1/namespaces/{namespace}/pods") == []


def test_wrong_token_is_unauthorized(control_plane: ControlPlane) -> None:
    credentials = Credentials(control_plane.url, control_plane.authority.path, token="made-up")
    with pytest.raises(RequestFailed, match="401"):
        Api(credentials).get("/api/v1/nodes")


def test_node_keeps_the_capacity_it_is_created_with(workspace: Workspace) -> None:
    workspace.create_node("big", capacity={"cpu": "64", "memory": "1Ti", "pods": "10", "example.com/gpu": "8"})
    created = workspace.api.get("/api/v1/nodes/big")
    assert created["status"]["allocatable"] == {"cpu": "64", "memory": "1Ti", "pods": "10", "example.com/gpu": "8"}
    assert "taints" not in created["spec"]


def test_load_generator_numbers_what_it_creates_and_lists_are_read_to_the_last_page(workspace: Workspace) -> None:
    created = create(workspace.control_plane.credentials, pods(1500, workspace.namespace, first=10))
    assert created.count == 1500
    names = {pod["metadata"]["name"] for pod in workspace.pods()}
    assert names == {f"pod-{index}" for index in range(10, 1510)}


def test_load_generator_says_what_was_refused(workspace: Workspace) -> None:
    with pytest.raises(HarnessError, match=r"HTTP 422.*metadata.name"):
        create(workspace.control_plane.credentials, pods(1, workspace.namespace, templates=[{"metadata": {}}]))


def test_audit_log_names_who_asked_for_what(fresh_control_plane: Callable[..., ControlPlane]) -> None:
    control_plane = fresh_control_plane(audit=True)
    with pytest.raises(RequestFailed):
        Api(control_plane.service_account_credentials("default", "curious")).get("/api/v1/nodes")

    def asked() -> list[Object]:
        events = control_plane.apiserver.audit_events()
        return [event for event in events if event["user"]["username"].endswith(":curious")]

    eventually(asked, "the request is in the log, which follows the answer")
    assert [(event["verb"], event["objectRef"]["resource"], event["responseStatus"]["code"]) for event in asked()] == [
        ("list", "nodes", 403)
    ]


def test_killed_apiserver_starts_again_on_its_port_with_its_data(
    fresh_control_plane: Callable[..., ControlPlane],
) -> None:
    control_plane = fresh_control_plane()
    create(control_plane.credentials, nodes(5))
    pid = control_plane.apiserver.process.pid
    control_plane.apiserver.kill()
    assert not is_alive(pid)
    with pytest.raises(ConnectionError):
        control_plane.api.get("/api/v1/nodes")
    control_plane.apiserver.start()
    assert len(control_plane.api.list_all("/api/v1/nodes")) == 5


def test_kube_scheduler_binds_every_pod_once(workspace: Workspace) -> None:
    workspace.create_nodes(5)
    workspace.create_pods(20)
    with BindWatch(workspace.control_plane.credentials, workspace.namespace) as binds:
        scheduler = KubeScheduler(workspace.control_plane)
        binds.wait(20)
        assert len(binds.times_s()) == 20
    assert set(workspace.bindings().values()) == {f"node-{index}" for index in range(5)}
    eventually(lambda: verify(workspace.api, workspace.namespace).problems == [], "one Scheduled event for each pod")
    counted = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 20'
    eventually(lambda: counted in scheduler.get("/metrics"), "its metrics count them")
    usage = scheduler.process.usage()
    assert usage.cpu_s > 0
    assert usage.peak_memory_bytes > 10 << 20


def test_two_electing_kube_schedulers_have_one_leader(workspace: Workspace) -> None:
    first = KubeScheduler(workspace.control_plane, leader_elect=True)
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
    eventually(lambda: _exists(workspace.api, lease), "the first takes the Lease")
    holder = workspace.api.get(lease)["spec"]["holderIdentity"]
    second = KubeScheduler(workspace.control_plane, leader_elect=True)
    assert first.process.pid != second.process.pid
    assert workspace.api.get(lease)["spec"]["holderIdentity"] == holder
    workspace.api.delete(lease)


def test_kwok_makes_nodes_ready_and_bound_pods_running(workspace: Workspace) -> None:
    Kwok(workspace.control_plane)
    node = workspace.create_node("fake", annotations=ANNOTATION)
    path = f"/api/v1/nodes/{node}"
    status = workspace.api.get(path)
    status["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    workspace.api.replace(f"{path}/status", status)
    workspace.create_pod("runs", spec={"nodeName": node})
    eventually(lambda: _condition(workspace.api.get(path), "Ready") == "True", "the node is Ready")
    eventually(lambda: workspace.pod("runs")["status"]["phase"] == "Running", "the pod is Running")
    assert _condition(workspace.pod("runs"), "Ready") == "True"
    assert workspace.api.get(path)["status"]["allocatable"]["cpu"] == "4"
    workspace.api.request("DELETE", f"/api/v1/namespaces/{workspace.namespace}/pods/runs")  # with its grace period
    eventually(lambda: workspace.pods() == [], "the pod is gone")


def test_nothing_runs_after_stop(fresh_control_plane: Callable[..., ControlPlane]) -> None:
    control_plane = fresh_control_plane()
    scheduler, kwok = KubeScheduler(control_plane), Kwok(control_plane)
    own = [control_plane.etcd.process, control_plane.apiserver.process, scheduler.process, kwok.process]
    pids = [process.pid for process in own]
    assert all(is_alive(pid) for pid in pids)
    control_plane.stop()
    assert [pid for pid in pids if is_alive(pid)] == []
    assert not control_plane.directory.exists()


def test_children_die_with_a_killed_parent(tmp_path: Path, binaries: object) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "kscheduler.testing.controlplane"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        directory = next(line for line in parent.stdout if line.startswith("logs:")).split()[1]
        children = Path(f"/proc/{parent.pid}/task").glob("*/children")
        pids = [int(pid) for file in children for pid in file.read_text().split()]
        assert len(pids) == 2
        parent.kill()
    eventually(lambda: not any(is_alive(pid) for pid in pids), "etcd and the apiserver die")
    shutil.rmtree(directory)


def test_foreground_control_plane_ends_in_order_on_sigterm(binaries: object) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "kscheduler.testing.controlplane"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        directory = next(line for line in parent.stdout if line.startswith("logs:")).split()[1]
        assert "kubectl get nodes --kubeconfig" in next(line for line in parent.stdout if line.startswith("try:"))
        parent.send_signal(signal.SIGTERM)
        assert parent.stdout.read().endswith("stopped\n")
    assert parent.returncode == 0
    assert not Path(directory).exists()


def test_signals_that_arrive_at_any_step_of_a_wait_leave_it_going() -> None:
    waiting = """
import sys, select
from kscheduler.testing.controlplane.__main__ import StopSignal
stopped, received = StopSignal(), 0
print("waiting", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    received += stopped.wait(0.0001)
print("received" if received else "nothing received")
"""
    with subprocess.Popen(
        [sys.executable, "-c", waiting], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        for _ in range(5000):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.0001)
        process.stdin.close()
        assert process.stdout.read() == "received\n"


def test_process_that_ends_before_it_is_ready_is_reported_with_its_log(tmp_path: Path) -> None:
    process = Process("doomed", ["sh", "-c", "echo no such flag; exit 3"], log=tmp_path / "log")
    process.start()
    with pytest.raises(StartFailed, match=r"(?s)doomed ended with exit code 3.*no such flag"):
        process.wait_ready(lambda: False)


def test_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    process = Process("stubborn", ["sh", "-c", "trap '' TERM; echo up; sleep 60"], log=tmp_path / "log")
    process.start()
    process.wait_ready(lambda: "up" in process.log_text())
    assert process.stop(grace_s=0.1) == -signal.SIGKILL


def test_missing_go_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSCHEDULER_CONTROLPLANE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingTool, match=r"'go' is not on PATH: .* needs Go 1\.\d+"):
        ensure()


def test_a_tool_of_a_module_needs_go_and_a_line_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSCHEDULER_CONTROLPLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "")
    (tmp_path / "go.sum").touch()
    (tmp_path / "go.mod").write_text("module some.test\n")
    with pytest.raises(HarnessError, match=r"go\.mod: expected a line `tool IMPORT-PATH`, found none"):
        ensure_tool(tmp_path)
    (tmp_path / "go.mod").write_text("module some.test\n\ntool some.test/cmd/it\n")
    with pytest.raises(MissingTool, match=r"'go' is not on PATH: building it needs Go 1\.\d+"):
        ensure_tool(tmp_path)


def _exists(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except RequestFailed as error:
        if error.status == 404:
            return False
        raise
    return True


def _condition(thing: dict[str, dict[str, list[dict[str, str]]]], kind: str) -> str:
    return next((entry["status"] for entry in thing["status"]["conditions"] if entry["type"] == kind), "")
