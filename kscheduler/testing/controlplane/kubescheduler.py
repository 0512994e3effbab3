"""Runs a released kube-scheduler for comparison, as its own RBAC user, with client limits raised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kscheduler.testing.controlplane.cluster import ControlPlane
from kscheduler.testing.controlplane.scheduler_process import SchedulerProcess

USER = "system:kube-scheduler"  # the user to whom the apiserver's bootstrap roles give the scheduler's rights


class KubeScheduler(SchedulerProcess):
    """A process of kube-scheduler."""

    def __init__(
        self,
        control_plane: ControlPlane,
        *,
        kubeconfig: Path | None = None,
        name: str = "kube-scheduler",
        extra_flags: tuple[str, ...] = (),
        **options: Any,  # those of SchedulerProcess
    ) -> None:
        super().__init__(control_plane, name, kubeconfig or control_plane.kubeconfig_for_user(USER), **options)
        command = [str(control_plane.binaries.path("kube-scheduler")), *self.flags, *extra_flags]
        self.process = control_plane.start_process(name, command)
        self.wait_ready()
