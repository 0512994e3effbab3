"""Runs `kscheduler run` beside a control plane, as a user would: with a configuration file and flags."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kscheduler.testing.controlplane.binaries import cache_directory
from kscheduler.testing.controlplane.scheduler_process import SchedulerProcess, Surroundings
from kscheduler.testing.controlplane.stub_apiserver import pinned

ROOT = Path(__file__).resolve().parents[3]  # the folder that contains the package kscheduler


class KScheduler(SchedulerProcess):
    """A process of `kscheduler run`, by default as admin. With `leader_elect`, several of them share a Lease."""

    def __init__(
        self,
        control_plane: Surroundings,
        *,
        kubeconfig: Path | None = None,
        name: str = "kscheduler",
        extra_flags: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        wait: bool = True,
        python: Path = Path(sys.executable),
        root: Path = ROOT,
        cores: str = "",
        module: Sequence[str] = ("kscheduler",),
        **options: Any,  # those of SchedulerProcess
    ) -> None:
        """Start the process and, if `wait`, wait until it is ready.

        `python` and `root` may be those of another checkout; `cores`: the cores to run on, in the syntax of `taskset`.
        `module` is what Python runs: a module's name, and arguments before `run`.
        """
        super().__init__(control_plane, name, kubeconfig or control_plane.admin_kubeconfig, **options)
        command = pinned([str(python), "-m", *module, "run", *self.flags, *extra_flags], cores)
        variables = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"} | dict(environment or {})
        # As in a container's image, it starts from bytecode. Without, each start would compile it all: 0.15 s.
        variables |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache_directory() / "bytecode")}
        self.process = control_plane.start_process(name, command, environment=variables, directory=root)
        if wait:
            self.wait_ready()
