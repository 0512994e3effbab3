"""A release has one version."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from deploy.release.source import REPOSITORY
from deploy.release.versions import PLACES, differences, written
from kscheduler import __version__


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of the files with the version, as they are in a release."""
    for name in {file for file, _ in PLACES}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / name, tmp_path / name)
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace("## Unreleased", f"## {__version__}", 1))
    return tmp_path


def test_all_places_have_the_same_version_when_the_changelog_names_it(repository: Path) -> None:
    assert differences(__version__, repository) == []


def test_between_releases_only_the_changelog_is_behind() -> None:
    changelog = next(there for place, there in written() if place.startswith("CHANGELOG.md"))
    assert {there for _, there in written()} <= {__version__, changelog}
    assert changelog in ("Unreleased", __version__)


@pytest.mark.parametrize(("file", "before"), PLACES)
def test_each_place_is_compared(file: str, before: str, repository: Path) -> None:
    path = repository / file
    before = before.replace(" *", "").replace("\\", "")
    path.write_text(path.read_text().replace(f"{before}{__version__}", f"{before}0.0.9", 1))
    assert differences(__version__, repository) == [f"{file}: {before}0.0.9"]


def test_a_version_is_written_in_the_form_that_python_and_helm_know(repository: Path) -> None:
    assert differences("v1", repository)[0] == "expected a version such as 1.2.0 or 1.2.0rc1, got 'v1'"
