"""Builds the guests of this folder. Without a compiler the tests are skipped; see tests/support/skips.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.skips import package, program

FOLDER = Path(__file__).parent


def build_go(directory: Path) -> bytes:
    """A reactor: what it exports can be called after its start."""
    go = program("go", "install Go 1.24 or newer, which builds the guest in Go")
    target = directory / "guest.wasm"
    command = [go, "build", "-p", "2", "-trimpath", "-ldflags", "-s -w", "-buildmode=c-shared", "-o", str(target), "."]
    return _run(command, FOLDER / "go", {"GOOS": "wasip1", "GOARCH": "wasm", "GOFLAGS": "-buildvcs=false"}, target)


def build_c(directory: Path) -> bytes:
    """A module without a run time, and without an entry."""
    package("ziglang")  # its C compiler builds the guest
    target = directory / "guest.wasm"
    options = ["-target", "wasm32-freestanding", "-O2", "-nostdlib", "-Wl,--no-entry", "-Wl,--export-memory"]
    command = [sys.executable, "-m", "ziglang", "cc", *options, "-o", str(target), "guest.c"]
    return _run(command, FOLDER / "c", {}, target)


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str], target: Path) -> bytes:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stderr[-4000:]}"
    return target.read_bytes()
