"""Runs some controllers of kube-controller-manager, such as the one that binds volumes."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.testing.controlplane.cluster import ControlPlane
from kscheduler.testing.controlplane.ports import free_port
from kscheduler.testing.controlplane.probes import is_healthy, unverified_tls
from kscheduler.testing.controlplane.process import Process

VOLUME_CONTROLLERS = ("persistentvolume-binder-controller", "ephemeral-volume-controller")
POD_CONTROLLERS = ("replicaset-controller", "disruption-controller")
CLAIM_CONTROLLERS = ("resourceclaim-controller",)  # makes claims for devices from templates, and releases them


class ControllerManager:
    """A kube-controller-manager process that runs only the named controllers, as admin, with raised client limits."""

    def __init__(
        self, control_plane: ControlPlane, controllers: Sequence[str], extra_flags: Sequence[str] = ()
    ) -> None:
        port = free_port()
        flags = {
            "kubeconfig": control_plane.admin_kubeconfig,
            "authentication-kubeconfig": control_plane.admin_kubeconfig,
            "authorization-kubeconfig": control_plane.admin_kubeconfig,
            "controllers": ",".join(controllers),
            "leader-elect": "false",
            "bind-address": "127.0.0.1",
            "secure-port": port,
            "kube-api-qps": 10_000,
            "kube-api-burst": 10_000,
            # A claim that was missed is looked at again soon.
            "pvclaimbinder-sync-period": "1s",
        }
        command = [
            *control_plane.binaries.component("kube-controller-manager"),
            *(f"--{name}={value}" for name, value in flags.items()),
            *extra_flags,
        ]
        tls = unverified_tls()
        self.process: Process = control_plane.start_process("kube-controller-manager", command)
        self.process.wait_ready(lambda: is_healthy(f"https://127.0.0.1:{port}/healthz", tls))

    def stop(self) -> None:
        """Stop the process by SIGTERM, and wait for its end."""
        self.process.stop()
