"""Where the version is written, which must be the same everywhere in a release."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from deploy.release.source import REPOSITORY

# Files, and what stands before the version in them, at the beginning of a line.
PLACES = (
    ("kscheduler/__init__.py", r'__version__ = "'),
    ("CHANGELOG.md", r"## "),  # the first heading, which is "Unreleased" between releases
    ("docs/man/kscheduler.1", r'\.TH KSCHEDULER 1 "" "kscheduler '),
    ("deploy/Dockerfile", r"ARG VERSION="),
    ("deploy/base/deployment.yaml", r" *image: kscheduler:"),
    ("deploy/chart/Chart.yaml", r"version: "),
    ("deploy/chart/Chart.yaml", r"appVersion: "),
)
FORM = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")


def written(repository: Path = REPOSITORY) -> Iterator[tuple[str, str]]:
    """Yield each place, such as `deploy/Dockerfile: ARG VERSION=`, and the version there, or "nothing"."""
    for file, before in PLACES:
        found = re.search(rf"^{before}([\w.+-]+)", (repository / file).read_text(encoding="utf-8"), re.MULTILINE)
        yield f"{file}: {before.replace(' *', '').replace(chr(92), '')}", found[1] if found else "nothing"


def differences(version: str, repository: Path = REPOSITORY) -> list[str]:
    """Return a line for each place that does not have this version, and one if it is not in the form of a release."""
    wrong = [f"{place}{there}" for place, there in written(repository) if there != version]
    if not FORM.fullmatch(version):
        wrong.insert(0, f"expected a version such as 1.2.0 or 1.2.0rc1, got {version!r}")
    return wrong
