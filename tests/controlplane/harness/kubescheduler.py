"""kube-scheduler as the peer: the published one, as its own RBAC user, with limits that do not decide a comparison."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from typing import Any

import yaml

from tests.controlplane.harness.cluster import ControlPlane
from tests.controlplane.harness.ports import free_port
from tests.controlplane.harness.process import Process

USER = "system:kube-scheduler"  # the bootstrap roles bind this user
OPEN_PATHS = "/healthz,/livez,/readyz,/metrics,/configz"


class KubeScheduler:
    """A running kube-scheduler. The default client limits (50 requests a second) are raised: see `qps`, `burst`."""

    def __init__(
        self,
        control_plane: ControlPlane,
        *,
        configuration: dict[str, Any] | None = None,  # fields of KubeSchedulerConfiguration, over those set here
        qps: float = 10_000,
        burst: int = 10_000,
        leader_elect: bool = False,
        name: str = "kube-scheduler",
        extra_flags: tuple[str, ...] = (),
    ) -> None:
        self._control_plane = control_plane
        self._name = name
        self._url = f"https://127.0.0.1:{free_port()}"
        document: dict[str, Any] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {
                "kubeconfig": str(control_plane.kubeconfig_for_user(USER)),
                "qps": qps,
                "burst": burst,
            },
            "leaderElection": {"leaderElect": leader_elect},
            **(configuration or {}),
        }
        self._config = control_plane.directory / f"{name}-config.yaml"
        self._config.write_text(yaml.safe_dump(document, sort_keys=False))
        self._extra_flags = extra_flags
        # Its serving certificate is self-signed, and nothing secret is asked.
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE
        self.process = self._start()

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self.process.stop()

    def get(self, path: str) -> str:
        """The answer of one of its own pages, such as /metrics."""
        with urllib.request.urlopen(f"{self._url}{path}", timeout=10, context=self._tls) as answer:
            content: bytes = answer.read()
        return content.decode()

    def _start(self) -> Process:
        command = [
            str(self._control_plane.binaries.path("kube-scheduler")),
            f"--config={self._config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._url.rpartition(':')[2]}",
            f"--authorization-always-allow-paths={OPEN_PATHS}",
            *self._extra_flags,
        ]
        process = self._control_plane.start_process(self._name, command)
        process.wait_ready(self._is_ready)
        return process

    def _is_ready(self) -> bool:
        try:
            return self.get("/readyz") == "ok"
        except (urllib.error.URLError, OSError):
            return False
