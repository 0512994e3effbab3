"""`kscheduler doctor` on a real control plane."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kscheduler.testing.controlplane.workspace import Workspace


def doctor(workspace: Workspace, *flags: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the findings by their checks."""
    command = [sys.executable, "-m", "kscheduler", "doctor", "--output=json", *flags]
    where = ["--kubeconfig", str(workspace.control_plane.admin_kubeconfig)]
    done = subprocess.run([*command, *where], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return done.returncode, {each["check"]: each for each in json.loads(done.stdout)}


def test_an_administrator_may_do_everything_and_a_nameless_account_nothing(workspace: Workspace) -> None:
    workspace.create_nodes(3)
    code, found = doctor(workspace)
    assert (code, [each for each in found.values() if each["level"] == "fail"]) == (0, [])
    assert found["resources"]["text"].startswith("3 nodes and ")
    code, found = doctor(workspace, "--service-account", "default/nobody")
    assert (code, found["rights"]["level"]) == (1, "fail")
    assert "list, watch nodes" in found["rights"]["text"]


def test_the_rights_to_kinds_that_a_configuration_follows_are_asked_for(workspace: Workspace, tmp_path: Path) -> None:
    config = tmp_path / "queues.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {preFilter: {enabled: [{name: Queues}]}}}]\n"
    )
    code, found = doctor(workspace, "--config", str(config))
    assert (code, found["queues"]["level"]) == (0, "ok")
    code, found = doctor(workspace, "--config", str(config), "--service-account", "default/nobody")
    assert (code, found["queues"]["level"]) == (1, "fail")
    assert "list, watch queues of kscheduler.io; list, watch queues of scheduling.run.ai" in found["queues"]["text"]
