"""A real control plane is recorded by a user who may only read, and the record is played again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from kscheduler.record.reader import RecordReader
from kscheduler.simulator.recorded import read_recorded
from kscheduler.testing.controlplane import ControlPlane, Credentials
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.kubeconfig import write_kubeconfig
from kscheduler.testing.controlplane.load import create, pods
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace
from tests.controlplane.cluster_recording import placed_in, recording
from tests.deploy.manifests import DEPLOY, documents

PODS = 2_000
NODES = 60  # of 40 pods each


def reader(workspace: Workspace, directory: Path) -> Path:
    """The kubeconfig of a ServiceAccount with the role of deploy/recorder, and no other."""
    (role,) = documents((DEPLOY / "recorder" / "rbac.yaml").read_text())
    name = role["metadata"]["name"]
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": "recorder", "namespace": workspace.namespace}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [subject],
    }
    workspace.api.apply(role, binding)
    control_plane: ControlPlane = workspace.control_plane
    token = control_plane.service_account_token(workspace.namespace, "recorder")
    credentials = Credentials(control_plane.credentials.server, control_plane.credentials.authority, token=token)
    return write_kubeconfig(directory / "reader.kubeconfig", credentials)


def test_what_a_scheduler_did_is_recorded_and_played_again(workspace: Workspace, tmp_path: Path) -> None:
    out = tmp_path / "run.zst"
    workspace.create_nodes(NODES)
    with recording(reader(workspace, tmp_path), out) as printed:
        KScheduler(workspace.control_plane)
        create(workspace.control_plane.credentials, pods(PODS, namespace=workspace.namespace))
        eventually(
            lambda: len(workspace.bindings()) == PODS, "all pods are bound", state=lambda: len(workspace.bindings())
        )
        eventually(lambda: placed_in(out) == PODS, "the record has all bindings")
    assert f"{PODS:,} pods" in printed[0]
    assert str(out) in printed[0]
    recorded = read_recorded(str(out), frozenset(["default-scheduler"]))
    uids = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in workspace.pods()}
    assert recorded.placements == uids
    assert not RecordReader(out).is_cut
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "kscheduler", "simulate", "--record", str(out), "--output", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(report.read_bytes())
    assert result["pods"]["placed"] == PODS
    assert f"of {PODS:,} pods are on the node that the record has." in done.stdout
