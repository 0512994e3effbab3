"""The common part of kube-scheduler and kscheduler as processes: configuration, limits that decide nothing, pages."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import yaml

from kscheduler.testing.controlplane.ports import free_port
from kscheduler.testing.controlplane.process import Process

OPEN_PATHS = "/healthz,/livez,/readyz,/metrics,/configz"


class Surroundings(Protocol):
    """What a scheduler is started beside: a control plane, or a stub of one."""

    directory: Path
    admin_kubeconfig: Path

    def start_process(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: dict[str, str] | None = None,
        directory: Path | None = None,
    ) -> Process: ...


class SchedulerProcess:
    """A scheduler beside a control plane. The default client limits (50 requests a second) are raised."""

    process: Process  # set by whoever starts it
    open_paths = OPEN_PATHS  # that anybody may read

    def __init__(
        self,
        control_plane: Surroundings,
        name: str,
        kubeconfig: Path,
        *,
        qps: float,
        burst: int,
        leader_election: dict[str, Any],
        configuration: dict[str, Any] | None,  # fields of KubeSchedulerConfiguration, over those set here
    ) -> None:
        self._url = f"https://127.0.0.1:{free_port()}"
        document: dict[str, Any] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": qps, "burst": burst},
            "leaderElection": leader_election,
            **(configuration or {}),
        }
        self._config = control_plane.directory / f"{name}-config.yaml"
        self._config.write_text(yaml.safe_dump(document, sort_keys=False))
        # Its serving certificate is self-signed, and nothing secret is asked.
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE

    @property
    def url(self) -> str:
        """Where it serves its own pages."""
        return self._url

    @property
    def flags(self) -> list[str]:
        """The flags both understand."""
        return [
            f"--config={self._config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._url.rpartition(':')[2]}",
            f"--authorization-always-allow-paths={self.open_paths}",
        ]

    def wait_ready(self) -> None:
        """Wait until /readyz says ok."""
        self.process.wait_ready(self._is_ready)

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

    def _is_ready(self) -> bool:
        try:
            return self.get("/readyz") == "ok"
        except (urllib.error.URLError, OSError):
            return False
