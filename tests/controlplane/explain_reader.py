"""A ServiceAccount that may read the records of decisions, and no other page, and `kscheduler explain` in its name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.workspace import Workspace

PATH = "/debug/kscheduler/explain"
READER = "kscheduler-explain-reader"


def may_explain(workspace: Workspace, account: str) -> str:
    """The token of a ServiceAccount that may read explanations."""
    role = {"nonResourceURLs": [PATH], "verbs": ["get"]}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": workspace.namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READER}
    head = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    workspace.api.apply(
        {**head, "kind": "ClusterRole", "metadata": {"name": READER}, "rules": [role]},
        {
            **head,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": READER},
            "roleRef": reference,
            "subjects": [subject],
        },
    )
    return workspace.control_plane.service_account_token(workspace.namespace, account)


def explain(scheduler: KScheduler, workspace: Workspace, pod: str, token: Path, *flags: str) -> str:
    """What the command prints about a pod."""
    command = [sys.executable, "-m", "kscheduler", "explain", pod, "--namespace", workspace.namespace]
    where = ["--server", scheduler.url, "--token-file", str(token)]
    done = subprocess.run([*command, *where, *flags], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
