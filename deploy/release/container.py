"""Runs a program in an unpacked image without an engine: of the image's user, on a root that is read-only."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_ENTER = """
root=$1; user=$2; shift 2
mount --make-rprivate / && mount --bind "$root" "$root" && mount -o remount,bind,ro,nosuid "$root" || exit 125
exec chroot --userspec="$user" --groups="${user#*:}" "$root" "$@"
"""


def reason_against() -> str:
    """Return why no program can be run here in an image of this machine's kind: "" if nothing speaks against it."""
    if os.geteuid() != 0:
        return "only root may change the root of a process"
    if not _is_mount_point("/"):
        return "in a chroot whose root is not a mount point no process gets mounts of its own: bind-mount its folder"
    return "" if shutil.which("unshare") else "'unshare' is not on PATH: install util-linux"


def run(root: Path, config: Mapping[str, Any], *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command, by its path in the image, with the user and the environment of the image's configuration.

    It has no network and nothing of this machine's file system. Who runs this must be root.
    """
    environment = dict(pair.split("=", 1) for pair in config["Env"])
    into = ["/bin/sh", "-c", _ENTER, "sh", str(root), config["User"], *command]
    # mount and chroot are found by the image's PATH, which names this machine's folders for programs, too.
    return _run([str(shutil.which("unshare")), "--mount", "--net", "--ipc", "--uts", *into], environment)


def run_emulated(
    root: Path, machine: str, python: str, *command: str, packages: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run kscheduler for another kind of machine, with this machine's user and file system.

    QEMU's user emulation (`emulator`) must be installed. `root` is an unpacked image, or has Python of the version
    `python` with its libraries; then `packages` is the folder where kscheduler is installed.
    """
    root = root.absolute()
    packages = packages or root / f"opt/kscheduler/lib/python{python}/site-packages"
    environment = {"PYTHONHOME": str(root / "usr"), "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}
    # Not the user's home, where the program would keep compiled plugins.
    environment |= {"HOME": str(packages.parent), "PATH": os.defpath}
    if not packages.is_relative_to(root):
        # An emulated Python takes minutes to compile what it imports: once is enough.
        del environment["PYTHONDONTWRITEBYTECODE"]
        environment["PYTHONPYCACHEPREFIX"] = str(packages.parent / "bytecode")
    program = [str(emulator(machine)), "-L", str(root), str(root / f"usr/bin/python{python}")]
    # Not in the current folder, where -m would look first: it may be the sources.
    return _run([*program, "-m", "kscheduler", *command], environment, root)


def emulator(machine: str) -> str | None:
    """Return the path of QEMU's user emulation of this kind of machine, if it is installed."""
    return shutil.which(f"qemu-{machine}-static") or shutil.which(f"qemu-{machine}")


def _is_mount_point(path: str) -> bool:
    """Return whether something is mounted on the path, as the kernel sees it: os.path.ismount("/") is always true."""
    return any(line.split()[4] == path for line in Path("/proc/self/mountinfo").read_text().splitlines())


def _run(
    command: Sequence[str], environment: Mapping[str, str], folder: Path = Path("/")
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
