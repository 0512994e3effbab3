"""Runs an apiserver stub that needs next to no CPU (go/cmd/stub-apiserver), to measure the scheduler process alone.

with StubApiserver() as stub:
    stub.create_nodes(...)
    scheduler = KScheduler(stub)
    stub.create_pods(...)
"""

from __future__ import annotations

import contextlib
import shutil
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from kscheduler.testing.controlplane.binaries import ensure
from kscheduler.testing.controlplane.certificates import CertificateAuthority
from kscheduler.testing.controlplane.faults import HarnessError
from kscheduler.testing.controlplane.kubeconfig import Credentials, write_kubeconfig
from kscheduler.testing.controlplane.process import Process

COMMAND = "stub-apiserver"


class State(msgspec.Struct, frozen=True):
    """What the stub has counted since its start, or since `forget_pods`."""

    bound: int
    events: int
    conflicts: int  # bindings of pods that were bound already
    mistakes: int  # requests that no scheduler should send, conflicts among them
    watches: dict[str, int]  # number of open watches of nodes, pods and others
    last_bound_s: float  # Unix time of the last binding; 0 before
    now_s: float  # Unix time of this answer
    patches: int  # of pods
    event_patches: int  # of Events whose series went on


class StubApiserver:
    """A running stub with credentials; a context manager. `cores`: the cores to run on, in the syntax of `taskset`."""

    def __init__(self, *, cores: str = "") -> None:
        self._executable = ensure([COMMAND]).path(COMMAND)
        self._cores = cores
        self.directory = Path(tempfile.mkdtemp(prefix="kscheduler-stub-"))
        self._processes: list[Process] = []

    def __enter__(self) -> StubApiserver:
        authority = CertificateAuthority(self.directory)
        serving = authority.server("stub")
        command = [str(self._executable), "-cert", str(serving.public), "-key", str(serving.key)]
        self._server = subprocess.Popen(
            pinned(command, self._cores), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._server.stdout is not None
        port = self._server.stdout.readline().strip()
        if not port:
            raise HarnessError(f"{COMMAND} ended with exit code {self._server.wait()}")
        self.url = f"https://127.0.0.1:{port}"
        credentials = Credentials(self.url, authority.path, client=authority.client("admin", ["system:masters"]))
        self.admin_kubeconfig = write_kubeconfig(self.directory / "admin.kubeconfig", credentials)
        self._tls: ssl.SSLContext = credentials.ssl_context()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with contextlib.ExitStack() as ends:
            ends.callback(shutil.rmtree, self.directory, ignore_errors=True)
            ends.callback(self._server.communicate)  # closes its pipes, and waits
            ends.callback(self._server.kill)
            for process in self._processes:
                ends.callback(process.stop)

    def start_process(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: dict[str, str] | None = None,
        directory: Path | None = None,
    ) -> Process:
        """Start a program beside the stub, which ends before the stub.

        Its log is `<name>.log` in the stub's directory.
        """
        process = Process(
            name, command, log=self.directory / f"{name}.log", environment=environment, directory=directory
        )
        self._processes.append(process)
        process.start()
        return process

    def create_nodes(self, count: int, name: str, templates: Sequence[str]) -> None:
        """Create nodes from JSON templates in turn; `{index}`, `{uid}` and `{rv}` (resource version) are filled in."""
        self._post("/stub/nodes", {"count": count, "name": name, "templates": list(templates)})

    def create_pods(
        self, count: int, name: str, templates: Sequence[str], bound: Sequence[str], *, first: int = 0
    ) -> None:
        """Create pods from JSON templates in turn. `bound`: templates of the same pods once bound, with a `{node}`."""
        request = {"count": count, "first": first, "name": name, "templates": list(templates), "bound": list(bound)}
        self._post("/stub/pods", request)

    def delete_pods(self, count: int, name: str, *, first: int = 0) -> None:
        """Delete pods by their names, in which `{index}` is filled in."""
        self._post("/stub/delete-pods", {"count": count, "first": first, "name": name})

    def forget_pods(self) -> None:
        """Delete all pods, and reset the counts to zero."""
        self._post("/stub/forget-pods", {})

    def hold_watch(self) -> None:
        """Show watchers of pods the changes that are held, all at once, and hold later ones.

        So how many come at a time, and whether a binding's answer precedes its change, do not depend on the machine.
        """
        self._post("/stub/hold-watch", {})

    def show_watch(self) -> None:
        """Show watchers of pods the changes that are held, and from now on each as it comes."""
        self._post("/stub/show-watch", {})

    def state(self) -> State:
        """Return what the stub has counted so far."""
        with urllib.request.urlopen(f"{self.url}/stub/state", context=self._tls, timeout=30) as answer:
            return msgspec.json.decode(answer.read(), type=State)

    def _post(self, path: str, body: object) -> None:
        request = urllib.request.Request(f"{self.url}{path}", data=msgspec.json.encode(body), method="POST")
        with urllib.request.urlopen(request, context=self._tls, timeout=600) as answer:
            answer.read()


def pinned(command: Sequence[str], cores: str) -> list[str]:
    """Return the command restricted to these cores by `taskset`; unchanged if `cores` is ""."""
    return ["taskset", "-c", cores, *command] if cores else list(command)
