"""Runs a program in an unpacked image as a container would: of the image's user, on a root that is read-only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.skips import program

_ENTER = """
root=$1; user=$2; shift 2
mount --make-rprivate / && mount --bind "$root" "$root" && mount -o remount,bind,ro,nosuid "$root" || exit 125
exec chroot --userspec="$user" --groups="${user#*:}" "$root" "$@"
"""


def run(root: Path, config: Mapping[str, Any], *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command, by its path in the image, with the user and the environment of the image's configuration.

    It has no network and nothing of this machine's file system. Who runs this must be root.
    """
    environment = dict(pair.split("=", 1) for pair in config["Env"])
    isolated = [program("unshare", "install util-linux"), "--mount", "--net", "--ipc", "--uts"]
    into = ["/bin/sh", "-c", _ENTER, "sh", str(root), config["User"], *command]
    # unshare and mount are found by the image's PATH, which names this machine's folders for programs, too.
    return subprocess.run([*isolated, *into], env=environment, capture_output=True, text=True, check=False)


def may_enter() -> bool:
    """Whether this process may change its root and mount."""
    return os.geteuid() == 0
