"""The commands of SIMULATION.md about a live cluster, run as a reader copies them on a real control plane.

What they need besides is here: the reader's files, pods that come while they run, and Ctrl-C.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.assembly import ROOT
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.load import Loading, nodes, pods
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workload import node, pod
from kscheduler.testing.controlplane.workspace import Workspace
from tests.controlplane.cluster_recording import placed_in, recording
from tests.docs.console import check, commands, printed_by
from tests.docs.pages import ON_CLUSTER, blocks
from tests.support.skips import program

pytestmark = pytest.mark.slow

PAGE = (ROOT / "SIMULATION.md").read_text(encoding="utf-8")
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SAID = "the page is at "


class Reader:
    """A reader with a cluster of six nodes, on which kscheduler runs, and a folder with files of their own."""

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        self._workspace = workspace
        self._plane = workspace.control_plane
        self._folder = folder
        self._expected = 0
        pools = [node(f"{pool}-{{index}}", labels={"pool": pool}) for pool in ("batch", "web")]
        Loading(self._plane.credentials, nodes(6, templates=pools)).wait()
        self._scheduler = KScheduler(self._plane)
        self.by_hand: dict[str, Callable[[str], None]] = {
            "$ kscheduler record --out ": self.record_until_ctrl_c,
            "$ kscheduler run ": self.run_with_a_record,
            "$ kscheduler record --from ": self.download,
            "$ kscheduler ui ": self.look_at_the_page,
        }

    def add_pods(self) -> None:
        """Create ten pods and wait until all are bound."""
        self._expected += 10
        name = f"p{self._expected}-{{index}}"
        Loading(self._plane.credentials, pods(10, self._workspace.namespace, templates=[pod(name)])).wait()
        bindings = self._workspace.bindings
        eventually(lambda: len(bindings()) == self._expected, "all pods are bound", state=lambda: len(bindings()))

    def record_until_ctrl_c(self, command: str) -> None:
        out = self._folder / "monday.zst"
        config = ("--config", str(self._folder / "kscheduler.yaml"))
        assert shlex.split(command, comments=True)[3:5] == ["--out", out.name]
        with recording(self._plane.admin_kubeconfig, out, *config):
            self.add_pods()
            eventually(lambda: placed_in(out) == 10, "the record has all bindings")

    def run_with_a_record(self, command: str) -> None:
        words = shlex.split(command, comments=True)
        flags = words[words.index("--record") :]
        flags[1] = str(self._folder / flags[1])
        self._scheduler.stop()
        self._scheduler = KScheduler(self._plane, extra_flags=tuple(flags))
        self.add_pods()

    def download(self, command: str) -> None:
        elsewhere = self._folder / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "token").write_text(self.token())
        assert "https://127.0.0.1:10259" in command
        printed_by(command.replace("https://127.0.0.1:10259", self._scheduler.url), elsewhere)
        copies = sorted(elsewhere.glob("tuesday*.zst"))
        assert copies
        for copy in copies:
            assert (self._folder / copy.name).read_bytes().startswith(copy.read_bytes())

    def token(self) -> str:
        """A token that may get every path."""
        namespace = self._workspace.namespace
        account = {"kind": "ServiceAccount", "name": "reader", "namespace": namespace}
        group = "rbac.authorization.k8s.io"
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{namespace}-reader"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [account],
        }
        self._workspace.api.apply(binding)
        return self._plane.service_account_token(namespace, "reader")

    def look_at_the_page(self, command: str) -> None:
        """Start the page, ask for it as a browser does, and press Ctrl-C."""
        words = [sys.executable, "-m", *shlex.split(command.removeprefix("$ "), comments=True), "--no-browser"]
        with subprocess.Popen(words, cwd=self._folder, stdout=subprocess.PIPE, text=True) as process:
            try:
                line = process.stdout.readline() if process.stdout else ""
                assert line.startswith(SAID), command
                with urllib.request.urlopen(line.removeprefix(SAID).split()[0]) as answer:
                    assert b"<!doctype html>" in answer.read().lower()
                process.send_signal(signal.SIGINT)
                assert process.wait() == 0, command
            finally:
                process.kill()


@pytest.fixture
def folder(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The reader's folder, with the files that the page does not show."""
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube/config").symlink_to(workspace.control_plane.admin_kubeconfig)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("kscheduler.yaml", "other.yaml", "packing.yaml"):
        (tmp_path / name).write_text(CONFIG)
    return tmp_path


def reports(folder: Path) -> None:
    """Have two reports and an answer, for the page."""
    for name in ("before", "after"):
        printed_by(f"$ kscheduler simulate --nodes 3 --pods 10 --output {name}.json", folder)
    answer = printed_by("$ kscheduler compare before.json after.json -o json", folder)
    (folder / "answer.json").write_text("\n".join(answer))
    assert json.loads((folder / "answer.json").read_text())


def test_the_commands_about_a_cluster_do_what_the_page_says(workspace: Workspace, folder: Path) -> None:
    program("kubectl", "install kubectl")
    reader = Reader(workspace, folder)
    reader.add_pods()
    reports(folder)
    used = set()
    with contextlib.chdir(folder):
        for block in blocks(PAGE):
            if block.options == ON_CLUSTER:
                for command, shown in commands(block.text):
                    begins = next((one for one in reader.by_hand if command.startswith(one)), "")
                    used.add(begins)
                    if begins:
                        reader.by_hand[begins](command)
                    else:
                        check(shown, printed_by(command, folder), command)
    assert used == {"", *reader.by_hand}
