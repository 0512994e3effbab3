"""One `kscheduler run` as a process beside a test's control plane, and what anybody may see of it from outside."""

from __future__ import annotations

import socket
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path

from kscheduler.testing.controlplane import ControlPlane, Process
from kscheduler.testing.controlplane.ports import free_port


class Replica:
    """Started when made. `flags` are those of its manifest; where it listens, and its credentials, are of the test."""

    def __init__(self, control_plane: ControlPlane, name: str, kubeconfig: Path, flags: Iterable[str]) -> None:
        port = free_port()
        self.url = f"https://127.0.0.1:{port}"
        own = [f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", f"--secure-port={port}"]
        self.process: Process = control_plane.start_process(
            name, [sys.executable, "-m", "kscheduler", "run", *flags, *own]
        )

    def get(self, path: str, token: str | None = None) -> tuple[int, str]:
        """Status and body of one of its pages; status 0 when it does not answer."""
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE  # self-signed, and nothing secret is asked
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"{self.url}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=15, context=tls) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def is_ready(self) -> bool:
        """Whether /readyz says so, to anybody."""
        return self.get("/readyz")[0] == 200

    def log_tail(self) -> str:
        """The end of what it logged, for the message of a failed test."""
        return self.process.log_text()[-4000:]


def is_ours(holder: str) -> bool:
    """Whether a Lease's holder is a scheduler on this machine."""
    return holder.startswith(f"{socket.gethostname()}_")
