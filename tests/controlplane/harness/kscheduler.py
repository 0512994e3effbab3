"""Our scheduler as a process beside a control plane: started as a user would, with a configuration file and flags."""

from __future__ import annotations

import os
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.harness.cluster import ControlPlane
from tests.controlplane.harness.ports import free_port
from tests.controlplane.harness.process import Process

REPOSITORY = Path(__file__).resolve().parents[3]
OPEN_PATHS = "/healthz,/livez,/readyz,/metrics,/configz"


class KScheduler:
    """One replica of `kscheduler run`, as admin unless told otherwise. With `leader_elect` several share a lease."""

    def __init__(
        self,
        control_plane: ControlPlane,
        *,
        configuration: dict[str, Any] | None = None,  # fields of KubeSchedulerConfiguration, over those set here
        kubeconfig: Path | None = None,
        qps: float = 10_000,
        burst: int = 10_000,
        leader_elect: bool = False,
        lease: dict[str, Any] | None = None,  # fields of leaderElection beside leaderElect
        name: str = "kscheduler",
        extra_flags: tuple[str, ...] = (),
        wait: bool = True,
    ) -> None:
        self._control_plane = control_plane
        self._name = name
        self._url = f"https://127.0.0.1:{free_port()}"
        document: dict[str, Any] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {
                "kubeconfig": str(kubeconfig or control_plane.admin_kubeconfig),
                "qps": qps,
                "burst": burst,
            },
            "leaderElection": {"leaderElect": leader_elect, **(lease or {})},
            **(configuration or {}),
        }
        self._config = control_plane.directory / f"{name}-config.yaml"
        self._config.write_text(yaml.safe_dump(document, sort_keys=False))
        # Its serving certificate is self-signed, and nothing secret is asked.
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE
        self.process = self._start(extra_flags)
        if wait:
            self.wait_ready()

    def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until /readyz says ok: nodes and pods are listed."""
        self.process.wait_ready(self._is_ready, timeout_s)

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self.process.stop(grace_s=20.0)

    def get(self, path: str, token: str = "") -> str:
        """The answer of one of its own pages, such as /metrics."""
        request = urllib.request.Request(f"{self._url}{path}")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=10, context=self._tls) as answer:
            content: bytes = answer.read()
        return content.decode()

    def _start(self, extra_flags: tuple[str, ...]) -> Process:
        command = [
            sys.executable,
            "-m",
            "kscheduler",
            "run",
            f"--config={self._config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._url.rpartition(':')[2]}",
            f"--authorization-always-allow-paths={OPEN_PATHS}",
            *extra_flags,
        ]
        environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        return self._control_plane.start_process(self._name, command, environment=environment, directory=REPOSITORY)

    def _is_ready(self) -> bool:
        try:
            return self.get("/readyz") == "ok"
        except (urllib.error.URLError, OSError):
            return False
