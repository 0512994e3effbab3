"""`kscheduler explain` against a scheduler on a real control plane, as one of its users."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Iterator, Sized
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kscheduler.testing.controlplane import Credentials
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.kubeconfig import write_kubeconfig
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace
from tests.controlplane.explain_reader import PATH, explain, may_explain

Details = TypeVar("Details", bound=Sized)
NOBODY = "https://127.0.0.1:1"  # where no program listens
BUSY = "the scheduler was busy"  # is printed for a decision without details


def test_a_user_reads_why_a_pod_waits_and_where_another_went(workspace: Workspace, tmp_path: Path) -> None:
    workspace.create_nodes(2)
    workspace.create_pod("small")
    workspace.create_pod("large", requests={"cpu": "6", "memory": "1Gi"})
    scheduler = KScheduler(workspace.control_plane)
    token = tmp_path / "token"
    token.write_text(may_explain(workspace, "reader"))
    eventually(lambda: "small" in workspace.bindings(), "the small pod is bound")

    def waits() -> bool:
        found: dict[str, Any] = json.loads(explain(scheduler, workspace, "large", token, "--output=json"))
        return bool(found["state"] == "unschedulable")

    eventually(waits, "the large pod waits for a change")

    def explanation(pod: str) -> str:
        """What the command says of a pod that waits, if its decision has details."""
        eventually(lambda: _is_unschedulable(workspace.pod(pod)), f"{pod} waits")
        printed = explain(scheduler, workspace, pod, token, "--nodes=all")
        return printed if "fits nowhere" in printed and BUSY not in printed else ""

    requests = {"cpu": "6", "memory": "1Gi"}
    large = _first_detailed(workspace, "larger", requests, explanation)
    assert large.startswith(f"Pod {workspace.namespace}/larger-")
    assert "fits nowhere: 0/2 nodes are available: 2 Insufficient cpu." in large.splitlines()[0]
    assert "  2 nodes:  NodeResourcesFit  Insufficient cpu  node-0, node-1\n" in large
    assert "  rejected by NodeResourcesFit\n" in large
    assert _decision(scheduler, workspace, "small", token)["node"] == workspace.bindings()["small"]

    def best_nodes(pod: str) -> set[str]:
        eventually(lambda: pod in workspace.bindings(), f"{pod} is bound")
        return {node["node"] for node in _decision(scheduler, workspace, pod, token)["bestNodes"]}

    assert _first_detailed(workspace, "tiny", {"cpu": "1m"}, best_nodes) == {"node-0", "node-1"}


def _first_detailed(
    workspace: Workspace, name: str, requests: dict[str, str], details: Callable[[str], Details]
) -> Details:
    """Create pods `name`-0, `name`-1 and so on until `details` of one are not empty; return these.

    Details have a share of the time that passes, which on a slow machine the pods before may have used up.
    """
    pods: list[str] = []

    def found() -> Iterator[Details]:
        pods.append(workspace.create_pod(f"{name}-{len(pods)}", requests=requests))
        return filter(None, map(details, pods))

    eventually(lambda: any(found()), "a decision has its details")
    return next(filter(None, map(details, pods)))


def _decision(scheduler: KScheduler, workspace: Workspace, pod: str, token: Path) -> dict[str, Any]:
    """Return the pod's latest decision."""
    document = json.loads(explain(scheduler, workspace, pod, token, "--output=json"))
    latest: dict[str, Any] = document["decisions"][0]
    return latest


def test_who_has_no_right_to_it_reads_nothing(workspace: Workspace) -> None:
    workspace.create_nodes(1)
    scheduler = KScheduler(workspace.control_plane)
    for token in ("", workspace.control_plane.service_account_token(workspace.namespace, "nobody")):
        with pytest.raises(urllib.error.HTTPError) as caught:
            scheduler.get(f"{PATH}?pod={workspace.namespace}/p", token=token)
        with caught.value:
            assert caught.value.code == 403


def test_an_administrator_with_a_client_certificate_needs_no_token(workspace: Workspace) -> None:
    scheduler = KScheduler(workspace.control_plane)
    workspace.create_nodes(1)
    workspace.create_pod("p")
    eventually(lambda: "p" in workspace.bindings(), "the pod is bound")
    eventually(lambda: "client certificates are verified" in scheduler.process.log_text(), "the authorities are known")
    command = [sys.executable, "-m", "kscheduler", "explain", "p", "--namespace", workspace.namespace]
    for groups, code in (("system:masters",), 0), ((), 1):
        kubeconfig = workspace.control_plane.kubeconfig_for_user(f"explain-{code}", groups)
        where = ["--server", scheduler.url, "--kubeconfig", str(kubeconfig)]
        done = subprocess.run([*command, *where], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
    assert "cannot get path" in done.stderr


def test_a_standby_names_the_replica_that_leads(workspace: Workspace, tmp_path: Path) -> None:
    workspace.create_nodes(1)
    lease = {"resourceName": "explain", "resourceNamespace": workspace.namespace}
    leader = KScheduler(workspace.control_plane, leader_elect=True, lease=lease, name="explain-leader")
    workspace.create_pod("p")
    eventually(lambda: "p" in workspace.bindings(), "the leader binds the pod")
    standby = KScheduler(workspace.control_plane, leader_elect=True, lease=lease, name="explain-standby")
    token = tmp_path / "token"
    token.write_text(may_explain(workspace, "reader"))
    eventually(
        lambda: "which stands by and decides nothing" in explain(standby, workspace, "p", token),
        "the standby has seen the Lease",
    )
    replica = json.loads(explain(leader, workspace, "p", token, "--output=json"))["replica"]
    assert replica["leads"] is True
    assert replica["leader"] in explain(standby, workspace, "p", token)
    # It knows nothing of the leader's attempts, and does not say that there was none.
    workspace.create_pod("large", requests={"cpu": "64"})
    eventually(lambda: _is_unschedulable(workspace.pod("large")), "the leader has tried the pod")
    head = f"Pod {workspace.namespace}/large waits. This replica stands by; {replica['leader']} leads"
    eventually(lambda: explain(standby, workspace, "large", token).startswith(head), "the standby names the leader")
    # What it prints is still true: what the leader wrote to the pod, and nothing of its own queue.
    answered = explain(standby, workspace, "large", token)
    assert "Its condition PodScheduled is False since " in answered
    assert "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu." in answered
    assert "Queue:" not in answered
    # With a kubeconfig the command finds the leader's name by itself, if nobody answers where it looks.
    command = [sys.executable, "-m", "kscheduler", "explain", "p", "--server", NOBODY]
    who = ["--kubeconfig", str(_kubeconfig(workspace, tmp_path)), "--lease", f"{workspace.namespace}/explain"]
    done = subprocess.run([*command, *who], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"port-forward pod/{replica['leader'].rpartition('_')[0]} 10259" in done.stderr


def _kubeconfig(workspace: Workspace, directory: Path) -> Path:
    """Of a user with a token, who may read Leases."""
    lease_reader = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}
    metadata = {"name": "lease-reader", "namespace": workspace.namespace}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": workspace.namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "lease-reader"}
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata}
    workspace.api.apply(
        {**head, "kind": "Role", "rules": [lease_reader]},
        {**head, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]},
    )
    plane = workspace.control_plane
    credentials = Credentials(
        plane.url, plane.authority.path, token=plane.service_account_token(workspace.namespace, "reader")
    )
    return write_kubeconfig(directory / "kubeconfig", credentials)


def test_decisions_are_written_on_their_pods_if_asked_for(workspace: Workspace) -> None:
    workspace.create_nodes(2)
    KScheduler(workspace.control_plane, extra_flags=("--explain-annotations",))

    def annotation(pod: str, name: str) -> str:
        annotations: dict[str, str] = workspace.pod(pod)["metadata"].get("annotations", {})
        return annotations.get(f"kube-scheduler-simulator.sigs.k8s.io/{name}", "")

    def scores(pod: str) -> set[str]:
        eventually(lambda: annotation(pod, "selected-node"), "a bound pod says where it went")
        assert annotation(pod, "selected-node") == workspace.bindings()[pod]
        return set(json.loads(annotation(pod, "finalscore-result") or "{}"))

    def why_it_waits(pod: str) -> dict[str, dict[str, str]]:
        eventually(lambda: _is_unschedulable(workspace.pod(pod)), "a pod waits")
        found: dict[str, dict[str, str]] = json.loads(annotation(pod, "filter-result") or "{}")
        return found

    assert _first_detailed(workspace, "tiny", {"cpu": "1m"}, scores) == {"node-0", "node-1"}
    verdict = _first_detailed(workspace, "huge", {"cpu": "6", "memory": "1Gi"}, why_it_waits)["node-0"]
    assert verdict["NodeResourcesFit"] == "Insufficient cpu"


def _is_unschedulable(pod: dict[str, Any]) -> bool:
    return any(condition["type"] == "PodScheduled" for condition in pod.get("status", {}).get("conditions", []))
