"""Each kind that a record contains has one name in all releases, and those who record may read it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kscheduler.config.releases import RELEASES, Release
from kscheduler.record.recorded_kinds import KINDS, name_of, recorded_kinds

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda release: release.version)
def test_names_are_equal_in_each_release(release: Release) -> None:
    assert [name_of(each) for each in recorded_kinds(release)] == list(KINDS)


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda release: release.version)
def test_the_role_of_those_who_record_allows_to_read_them_and_nothing_else(release: Release) -> None:
    role = yaml.safe_load((ROOT / "deploy" / "recorder" / "rbac.yaml").read_text())
    allowed = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    needed = {
        (kind.group_version.rpartition("/")[0], kind.plural, verb)
        for kind in recorded_kinds(release)
        for verb in ("list", "watch")
    }
    assert allowed == needed
