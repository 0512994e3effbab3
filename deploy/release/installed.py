"""Installs what a release contains as a user would, and runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from deploy.release import container
from deploy.release.source import REPOSITORY, BuildError
from deploy.release.targets import pip_options

# Of the environment: what pip needs to reach the packages. Compilers are looked for in PATH, which is not among them.
KEPT = ("PIP_", "SSL_", "HTTP", "http", "NO_PROXY", "no_proxy")
PLUGIN = "gpu_packing"  # an example in wasm, with a cluster and pods to try it on


class Runs(Protocol):
    """Something in which kscheduler is installed."""

    def run(self, *command: str) -> str:
        """Run an installed program and return what it prints. Raises BuildError if it fails."""


class Installation:
    """A virtual environment in which nothing but an archive of kscheduler is installed."""

    def __init__(self, folder: Path, python: str) -> None:
        """Make the environment in `folder` for an interpreter. Raises BuildError if that fails."""
        self._folder = folder
        self._programs = folder / "venv/bin"
        self._environment = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
        self._environment |= {"HOME": str(folder), "PATH": str(self._programs)}
        # Debian's interpreters have no ensurepip, and an old pip may not run on a new Python: so the newest one.
        check([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder / "pip"), "pip"])
        check([python, "-m", "venv", "--without-pip", str(folder / "venv")])

    def install(self, archive: Path, *, extra: str = "", compiles: bool = False) -> float:
        """Install a wheel, or with `compiles` an sdist; return the seconds that it took."""
        environment = self._environment | ({"PATH": f"{self._programs}:{os.environ['PATH']}"} if compiles else {})
        wanted = f"{archive}[{extra}]" if extra else str(archive)
        choice = ["--no-binary=kscheduler"] if compiles else ["--only-binary=:all:"]
        start = time.monotonic()
        command = [str(self._programs / "python"), str(self._folder / "pip/pip"), "install", "--quiet", *choice]
        check([*command, "--disable-pip-version-check", wanted], environment)
        return time.monotonic() - start

    def run(self, *command: str) -> str:
        """Run an installed program and return what it prints. Raises BuildError if it fails."""
        return check([str(self._programs / command[0]), *command[1:]], self._environment, self._folder)


class Emulated:
    """A wheel for another kind of machine with its dependencies, which QEMU runs."""

    def __init__(self, folder: Path, root: Path, machine: str, python: str) -> None:
        """Install into `folder`, for the Python of the version `python` in `root` (`targets.find_emulated`)."""
        self._packages = folder / "site-packages"
        self._root = root
        self._machine = machine
        self._python = python

    def install(self, wheel: Path, *, extra: str = "") -> float:
        """Install a wheel; return the seconds that it took."""
        start = time.monotonic()
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--no-compile", "--target", str(self._packages), *pip_options(self._python, self._machine)]
        check([*command, f"{wheel}[{extra}]" if extra else str(wheel)])
        return time.monotonic() - start

    def run(self, *command: str) -> str:
        """Run kscheduler, the first word of the command. Raises BuildError if it fails."""
        done = container.run_emulated(self._root, self._machine, self._python, *command[1:], packages=self._packages)
        return _output(done, command)


def try_plugin(installation: Runs) -> float:
    """Run an example plugin in wasm, which needs the extra `wasm`; return the seconds. Raises BuildError."""
    check([sys.executable, str(REPOSITORY / "plugins/build_guests.py"), PLUGIN])
    files = REPOSITORY / "plugins" / PLUGIN
    flags = ("--cluster", str(files / "nodes.yaml"), "--pod", str(files / "pods.yaml"))
    start = time.monotonic()
    printed = installation.run("kscheduler", "plugin", "test", str(REPOSITORY / f"build/guests/{PLUGIN}.wasm"), *flags)
    took = time.monotonic() - start
    if "goes to node-1 (4 of 4 nodes fit)" not in printed:
        raise BuildError(f"expected that the plugin {PLUGIN} is asked about 4 nodes, got {printed!r}")
    return took


def try_out(installation: Runs, version: str) -> float:
    """Run the installed program; return the seconds until it had decided about pods. Raises BuildError."""
    check_version(version, installation.run("kscheduler", "version"))
    start = time.monotonic()
    report = installation.run("kscheduler", "simulate", "--nodes", "50", "--pods", "500")
    took = time.monotonic() - start
    if not re.search(r"^placed 500 of 500 pods", report, re.MULTILINE):
        raise BuildError(f"expected that all 500 pods are placed, got {report.splitlines()[:1]}")
    return took


def check_version(version: str, about: str) -> None:
    """Raise BuildError unless `kscheduler version` printed this version and found the compiled kernels."""
    if not about.startswith(f"kscheduler {version} (") or "compiled kernels" not in about:
        raise BuildError(f"expected kscheduler {version} with compiled kernels, got {about.strip()!r}")


def check(command: Sequence[str], environment: Mapping[str, str] | None = None, folder: Path | None = None) -> str:
    """Return what a command prints. Raises BuildError with the end of it if the command fails."""
    return _output(
        subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False), command
    )


def _output(done: subprocess.CompletedProcess[str], command: Sequence[str]) -> str:
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout
