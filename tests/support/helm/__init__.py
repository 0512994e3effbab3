"""Helm at the release that go/go.mod names, built like the test control plane's programs and kept in their cache."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kscheduler.testing.controlplane.binaries import ensure_tool

MODULE = Path(__file__).with_name("go")


class HelmFailed(Exception):
    """A command of helm ended with an error; the text is what it printed."""


class Helm:
    """Runs helm with directories and a kubeconfig of its own, so that nothing of the user's is read or changed."""

    def __init__(self, program: Path, directory: Path, kubeconfig: Path | None = None) -> None:
        self._program = program
        homes = {f"HELM_{kind}_HOME": str(directory / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        # Without a cluster it must not find the user's.
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(directory), **homes}
        self._environment["KUBECONFIG"] = str(kubeconfig or directory / "none")

    def run(self, *arguments: str | Path) -> str:
        """Return what a command prints. Raises HelmFailed if it ends with an error."""
        line = [str(self._program), *map(str, arguments)]
        done = subprocess.run(line, env=self._environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise HelmFailed(done.stdout + done.stderr)
        return done.stdout


def build() -> Path:
    """Return the program, after building it if the cache lacks it: some minutes when cold."""
    return ensure_tool(MODULE)
