"""Runs a scheduler as a process: the parts that kube-scheduler and kscheduler have in common."""

from __future__ import annotations

import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import yaml

from kscheduler.testing.controlplane.ports import free_port
from kscheduler.testing.controlplane.probes import is_healthy, unverified_tls
from kscheduler.testing.controlplane.process import Process

OPEN_PATHS = "/healthz,/livez,/readyz,/metrics,/metrics/resources,/configz"


class Surroundings(Protocol):
    """What a scheduler runs beside: a control plane, or a stub of one."""

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
    """A scheduler beside a control plane. The default client limit (50 requests per second) is raised."""

    process: Process  # set by the subclass, which starts it
    open_paths = OPEN_PATHS  # paths that need no authentication

    def __init__(
        self,
        control_plane: Surroundings,
        name: str,
        kubeconfig: Path,
        *,
        configuration: dict[str, Any] | None = None,  # fields of KubeSchedulerConfiguration, over those set here
        qps: float = 10_000,
        burst: int = 10_000,
        leader_elect: bool = False,
        lease: dict[str, Any] | None = None,  # fields of leaderElection beside leaderElect
    ) -> None:
        self.url = f"https://127.0.0.1:{free_port()}"  # where it serves its own pages
        document: dict[str, Any] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": qps, "burst": burst},
            "leaderElection": {"leaderElect": leader_elect, **(lease or {})},
            **(configuration or {}),
        }
        self._config = control_plane.directory / f"{name}-config.yaml"
        self._config.write_text(yaml.safe_dump(document, sort_keys=False))
        self._tls = unverified_tls()

    @property
    def flags(self) -> list[str]:
        """Return the flags that both schedulers understand."""
        return [
            f"--config={self._config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.url.rpartition(':')[2]}",
            f"--authorization-always-allow-paths={self.open_paths}",
        ]

    def wait_ready(self) -> None:
        """Wait until /readyz is answered with ok."""
        self.process.wait_ready(lambda: is_healthy(f"{self.url}/readyz", self._tls))

    def stop(self) -> None:
        """Stop the scheduler by SIGTERM, and wait for its end."""
        self.process.stop(grace_s=20.0)

    def get(self, path: str, token: str = "") -> str:
        """Return the body of a page of the scheduler's endpoint, such as /metrics."""
        request = urllib.request.Request(f"{self.url}{path}")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=10, context=self._tls) as answer:
            content: bytes = answer.read()
        return content.decode()
