"""How much is tested with which release of Kubernetes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kscheduler.config import releases
from kscheduler.testing.controlplane import binaries
from tests.support.releases import CHOSEN, cases_with, releases_to_test
from tests.support.seeds import HUNTED

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOSEN, raising=False)
    monkeypatch.delenv(HUNTED, raising=False)


def test_what_is_emulated_can_be_tested() -> None:
    assert tuple(releases.RELEASES) == binaries.RELEASES
    assert releases.DEFAULT_RELEASE.version == binaries.DEFAULT_RELEASE
    assert sorted(releases_to_test()) == sorted(binaries.RELEASES)


def test_the_default_release_has_all_cases_and_another_a_third() -> None:
    assert cases_with("1.36", range(7)) == range(7)
    assert list(cases_with("1.37", range(7))) == [0, 3, 6]


def test_a_hunt_has_all_cases_of_each_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HUNTED, "1")
    assert cases_with("1.37", range(7)) == range(7)


def test_a_release_that_is_named_is_the_only_one_and_has_all_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOSEN, "1.37")
    assert releases_to_test() == ("1.37",)
    assert cases_with("1.37", range(7)) == range(7)


def test_the_marker_leaves_out_two_thirds_of_another_releases_cases_and_keeps_their_order(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.support.releases import SharedByReleases\n"
        "def pytest_configure(config): config.pluginmanager.register(SharedByReleases())\n"
    )
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.fixture(scope='module', params=['1.36', '1.37'])\n"
        "def release(request): return request.param\n"
        "@pytest.mark.shared_by_releases\n"
        "@pytest.mark.parametrize('case', range(5))\n"
        "def test_case(release, case): pass\n"
        "def test_other(release): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, str(tmp_path)], env=environment, capture_output=True, text=True, check=True)
    found = [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]
    assert found == [
        *(f"test_case[1.36-{case}]" for case in range(5)),
        "test_other[1.36]",
        "test_case[1.37-0]",
        "test_case[1.37-3]",
        "test_other[1.37]",
    ]


def test_an_unknown_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOSEN, "1.12")
    with pytest.raises(ValueError, match=r"KSCHEDULER_KUBERNETES: expected one of 1\.36, 1\.37, got '1\.12'"):
        releases_to_test()
