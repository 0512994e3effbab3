"""The pages for a first trial beside kube-scheduler, as a reader copies their commands, on a real control plane.

KWOK plays the kubelets. The scheduler listens on a free port instead of its usual one, so the commands that ask it get
`--server` besides.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.assembly import ROOT
from kscheduler.testing.controlplane import Binaries, ControlPlane, KubeScheduler
from kscheduler.testing.controlplane.kwok import ANNOTATION, Kwok
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.ports import free_port
from kscheduler.testing.controlplane.probes import is_healthy, unverified_tls
from kscheduler.testing.controlplane.process import Process
from kscheduler.testing.controlplane.workload import node
from tests.docs.console import check, commands, printed_by
from tests.docs.pages import ON_CLUSTER, blocks, own_pages
from tests.support.skips import program

pytestmark = pytest.mark.slow

BESIDE = own_pages()["start/beside.md"]
OBSERVE = own_pages()["operations/observe.md"]
ASKS = ("$ kscheduler explain ", "$ kubectl kscheduler ")  # commands that ask the running scheduler
CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "110"}
PODS = "/api/v1/namespaces/default/pods"


class Trial:
    """A cluster of three nodes with kube-scheduler, and a reader who is its administrator."""

    def __init__(self, control_plane: ControlPlane, folder: Path) -> None:
        self.api = control_plane.api
        self.folder = folder
        self._control_plane = control_plane
        self._url = f"https://127.0.0.1:{free_port()}"
        self._scheduler: Process | None = None
        for name in ("node-a", "node-b", "node-c"):
            self.api.create("/api/v1/nodes", node(name, capacity=CAPACITY, annotations=ANNOTATION))
        Kwok(control_plane)
        KubeScheduler(control_plane)

    def follow(self, page: str) -> set[str]:
        """Run the commands of a page and compare what they print; return the commands."""
        done = set()
        for block in blocks(page):
            if block.file:
                (self.folder / block.file).write_text(block.text)
            elif block.language == "console" and block.options == ON_CLUSTER:
                for command, shown in commands(block.text):
                    self._carry_out(command, shown)
                    done.add(command)
        return done

    def run(self, command: str, *more: str) -> None:
        """Start a scheduler as a command says, and wait until it is ready."""
        words = shlex.split(command.removeprefix("$ ").replace("~", str(self.folder)))[1:]
        own = ("--bind-address=127.0.0.1", f"--secure-port={self._url.rpartition(':')[2]}", *more)
        scheduler = self._control_plane.start_process(
            "trial", [sys.executable, "-m", "kscheduler", *words, *own], directory=self.folder
        )
        scheduler.wait_ready(lambda: is_healthy(f"{self._url}/readyz", unverified_tls()))
        self._scheduler = scheduler

    def _carry_out(self, command: str, shown: list[str]) -> None:
        if command.startswith("$ kscheduler run "):
            self.run(command)
            return
        if command.startswith("$ kubectl get pods "):
            eventually(self.is_over, "one pod runs, and the other was decided")
        if command.startswith("$ kubectl delete clusterrole,") and self._scheduler is not None:
            self._scheduler.stop()  # as the page says in words
        asked = f"{command} --server {self._url}" if command.startswith(ASKS) else command
        if command.startswith("$ kscheduler explain large "):
            eventually(lambda: self._has_details(asked), "the pod's decision has details")
        check(shown, printed_by(asked, self.folder), command)

    def _has_details(self, asked: str) -> bool:
        """Whether the large pod's decision has details. A busy scheduler leaves them out; then it decides it again."""
        if not any("the scheduler was busy" in line for line in printed_by(asked, self.folder)):
            return True
        pod = self.api.get(f"{PODS}/large")
        self.api.delete(f"{PODS}/large?gracePeriodSeconds=0")
        self.api.create(PODS, {"metadata": {"name": "large"}, "spec": pod["spec"]})
        eventually(self.is_over, "the pod is decided again")
        return False

    def is_over(self) -> bool:
        """Whether the small pod runs and the large one has been refused."""
        small, large = (self.api.get(f"{PODS}/{name}")["status"] for name in ("small", "large"))
        return small.get("phase") == "Running" and bool(large.get("conditions"))


@pytest.fixture
def trial(binaries: Binaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trial]:
    program("kubectl", "install kubectl")
    with contextlib.ExitStack() as ends:
        control_plane = ends.enter_context(ControlPlane(binaries=binaries))
        (tmp_path / ".kube").mkdir()
        (tmp_path / ".kube/config").symlink_to(control_plane.kubeconfig_for_user("admin", ["system:masters"]))
        monkeypatch.delenv("KUBECONFIG", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        # kubectl finds its plugin beside this Python.
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        yield Trial(control_plane, tmp_path)


def test_the_page_of_a_trial_beside_kube_scheduler_is_followed_to_its_end(trial: Trial) -> None:
    done = trial.follow(BESIDE)
    assert any(command.startswith("$ kscheduler run ") for command in done)
    assert trial.api.list_all(PODS) == []


def test_the_queue_and_the_nodes_are_shown_in_a_shell(trial: Trial) -> None:
    (trial.folder / "kscheduler.yaml").write_text(_file("kscheduler.yaml"))
    trial.run("$ kscheduler run --config kscheduler.yaml --kubeconfig ~/.kube/config", "--ui")
    # The page shows the small pod, which comes first, on this node.
    pods = _file("pods.yaml").replace("spec:\n", "spec:\n  nodeSelector: {kubernetes.io/hostname: node-b}\n", 1)
    (trial.folder / "pods.yaml").write_text(pods)
    for command in (
        "kubectl apply -f pods.yaml",
        f"kubectl apply -f {ROOT / 'deploy/ui/viewer.yaml'}",
        "kubectl create serviceaccount reader",
        "kubectl create clusterrole pod-viewer --verb list --resource pods",
        *(
            f"kubectl create clusterrolebinding {role} --clusterrole {role} --serviceaccount default:reader"
            for role in ("kscheduler-ui-viewer", "kscheduler-ui-node-viewer", "pod-viewer")
        ),
        "kubectl create token reader > token",
    ):
        printed_by(command, trial.folder)
    eventually(trial.is_over, "one pod runs, and the other was decided")
    assert len(trial.follow(OBSERVE)) == 2


def _file(name: str) -> str:
    return next(block.text for block in blocks(BESIDE) if block.file == name)
