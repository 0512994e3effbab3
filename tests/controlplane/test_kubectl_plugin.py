"""`kubectl kscheduler drain` on a real control plane: the program that kubectl finds, run as kubectl runs it."""

from __future__ import annotations

import subprocess
import sys

from kscheduler.testing.controlplane.workspace import Workspace
from tests.support.skips import package


def test_a_drain_says_what_becomes_of_the_pods_of_a_node(workspace: Workspace) -> None:
    package("zstandard")
    nodes = workspace.create_nodes(2)
    workspace.create_pod("web")
    command = [sys.executable, "-m", "kscheduler.command.kubectl_plugin", "drain", nodes[0], "--quiet"]
    where = ["--kubeconfig", str(workspace.control_plane.admin_kubeconfig)]
    done = subprocess.run([*command, *where], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"without the nodes {nodes[0]}" in done.stdout
