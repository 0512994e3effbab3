"""Copies into the Helm chart what it shares with kustomize: rights, custom kinds, rules and the dashboard.

The manifests of deploy/ are the source. A chart must contain all of its files, and links get lost in archives that
GitOps tools make. So the chart has copies, which a test compares. Run it as `make chart`. A release packs the chart
into an archive, as `helm package` would, but of the same bytes each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from deploy.release.archives import files_below, write_tar_gz

DEPLOY = Path(__file__).resolve().parents[1]
CHART = DEPLOY / "chart"
COPIES = CHART / "files"

SHARED = (
    "base/rbac.yaml",
    "base/explain-reader.yaml",
    "base/metrics-reader.yaml",
    "base/record-reader.yaml",
    "explain-annotations/rbac.yaml",
    "gangs/crd.yaml",
    "gangs/rbac.yaml",
    "live-metrics/rbac.yaml",
    "metric-policies/crd.yaml",
    "metric-policies/rbac.yaml",
    "monitoring/dashboard.json",
    "monitoring/rules.yaml",
    "queues/crd.yaml",
    "queues/rbac.yaml",
    "quotas/crd.yaml",
    "quotas/rbac.yaml",
    "ui/viewer.yaml",
)


def differences(copies: Path = COPIES, deploy: Path = DEPLOY) -> Iterator[str]:
    """Yield the name of each file that is missing among the copies, is not the same there, or should not be there."""
    for name in SHARED:
        copied = copies / name
        if not copied.is_file() or copied.read_bytes() != (deploy / name).read_bytes():
            yield name
    there = {path.relative_to(copies).as_posix() for path in copies.rglob("*") if path.is_file()}
    yield from sorted(there - set(SHARED))


def copy(copies: Path = COPIES, deploy: Path = DEPLOY) -> None:
    """Make the copies equal to deploy's files."""
    for name in list(differences(copies, deploy)):
        copied = copies / name
        if name not in SHARED:
            copied.unlink()
            continue
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes((deploy / name).read_bytes())


def package(into: Path, version: str, epoch_s: int, chart: Path = CHART) -> Path:
    """Write the chart's archive and return its path."""
    files = files_below(chart, "kscheduler/")
    files.pop("kscheduler/.helmignore", None)  # there is nothing to ignore in an archive
    path = into / f"kscheduler-{version}.tgz"
    write_tar_gz(path, files, epoch_s)
    return path


if __name__ == "__main__":
    copy()
