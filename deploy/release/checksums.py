"""Digests of files in the form that `sha256sum --check` reads."""

from __future__ import annotations

import hashlib
from pathlib import Path

from deploy.release.source import BuildError

NAME = "SHA256SUMS"


def write(folder: Path) -> Path:
    """Write the digests of all files of a folder into it, and return the path."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != NAME)
    lines = [f"{_digest(folder / name)}  {name}" for name in names]
    (folder / NAME).write_text("\n".join([*lines, ""]), encoding="utf-8")
    return folder / NAME


def verify(folder: Path) -> int:
    """Return how many files are as their digests say. Raises BuildError for one that is not."""
    lines = (folder / NAME).read_text(encoding="utf-8").splitlines()
    for line in lines:
        digest, _, name = line.partition("  ")
        if not (folder / name).is_file():
            raise BuildError(f"{NAME} names {name}, which is not there")
        if _digest(folder / name) != digest:
            raise BuildError(f"{name} is not what {NAME} says")
    return len(lines)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
