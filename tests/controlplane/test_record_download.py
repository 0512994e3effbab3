"""The record of a scheduler on a real control plane is downloaded from it by a user, who has no other right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

from kscheduler.testing.controlplane import workload
from kscheduler.testing.controlplane.kscheduler import ROOT, KScheduler
from kscheduler.testing.controlplane.load import Loading, nodes, pods
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace
from tests.replay.recorded_run import decisions

PODS = 200
READER = ROOT / "deploy" / "base" / "record-reader.yaml"


def may_read_records(workspace: Workspace, account: str) -> str:
    """The token of a ServiceAccount to which the ClusterRole in deploy/ is bound."""
    role = yaml.safe_load(READER.read_text())
    name = role["metadata"]["name"]
    binding = {
        "apiVersion": role["apiVersion"],
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": workspace.namespace}],
    }
    workspace.api.apply(role, binding)
    return workspace.control_plane.service_account_token(workspace.namespace, account)


def kscheduler(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "kscheduler", *arguments], capture_output=True, text=True, check=False)


def test_a_record_is_downloaded_while_it_is_written_and_every_decision_is_made_again(
    workspace: Workspace, tmp_path: Path
) -> None:
    plane = workspace.control_plane
    Loading(plane.credentials, nodes(10)).wait()
    (tmp_path / "volume").mkdir()
    flags = ("--record", str(tmp_path / "volume" / "run.zst"), "--record-part-size", "4Ki")
    scheduler = KScheduler(plane, extra_flags=flags)
    Loading(plane.credentials, pods(PODS, workspace.namespace, templates=[workload.pod("p-{index}")])).wait()
    eventually(lambda: len(workspace.bindings()) == PODS, "all pods are bound", state=lambda: len(workspace.bindings()))

    token, stranger = tmp_path / "token", tmp_path / "stranger"
    token.write_text(may_read_records(workspace, "reader"))
    stranger.write_text(plane.service_account_token(workspace.namespace, "nobody"))
    copy = tmp_path / "copy.zst"
    command = ("record", "--from", scheduler.url, "--out", str(copy), "--token-file")

    refused = kscheduler(*command, str(stranger))
    assert refused.returncode == 1
    assert 'cannot get path \\"/record\\"' in refused.stderr or 'cannot get path "/record"' in refused.stderr
    assert "Show credentials that may get /record" in refused.stderr
    token.with_name("made-up").write_text("made-up")
    assert "Unauthorized" in kscheduler(*command, str(tmp_path / "made-up")).stderr
    assert not copy.exists()

    def downloaded() -> int:
        """How many pods were decided by what can be downloaded now; each call goes on where the last one ended."""
        done = kscheduler(*command, str(token))
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return len({each.uid for each in decisions(copy)})

    eventually(lambda: downloaded() == PODS, "all decisions are in the record", state=downloaded)
    number = len(decisions(copy))
    done = kscheduler("replay", str(copy))
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{number:,} of {number:,} decisions equal\n")
    assert len(list(tmp_path.glob("copy*.zst"))) > 1
    for path in tmp_path.glob("copy*.zst"):
        original = tmp_path / "volume" / path.name.replace("copy", "run")
        assert original.read_bytes().startswith(path.read_bytes())


def test_a_scheduler_that_does_not_record_says_so(workspace: Workspace, tmp_path: Path) -> None:
    workspace.create_nodes(1)
    scheduler = KScheduler(workspace.control_plane)
    token = tmp_path / "token"
    token.write_text(may_read_records(workspace, "reader"))
    done = kscheduler("record", "--from", scheduler.url, "--out", str(tmp_path / "x.zst"), "--token-file", str(token))
    assert done.returncode == 1
    assert "this scheduler does not record itself: it was started without --record (404)" in done.stderr
