"""--emulated-version, with the grammar and the words of kube-scheduler's flag."""

from __future__ import annotations

import argparse

import pytest

from kscheduler.config.emulated_version import add_emulated_version, parse_emulated_version
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.errors import ConfigError


def given(*flags: str) -> str | None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_emulated_version(parser)
    version: str | None = parser.parse_args(flags).emulated_version
    return version


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.36", RELEASE_1_36),
        ("1.37", RELEASE_1_37),
        ("v1.37", RELEASE_1_37),
        ("kube=1.37", RELEASE_1_37),
        (" kube = v1.37 ", RELEASE_1_37),
        ("1.37.0", RELEASE_1_37),
        ("1.37-rc", RELEASE_1_37),
    ],
)
def test_a_version_may_be_written_in_the_forms_of_kube_scheduler(text: str, expected: Release) -> None:
    assert parse_emulated_version(text) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foo", 'could not parse "foo" as version'),
        ("", 'could not parse "" as version'),
        ("1", 'illegal version string "1"'),
        ("01.37", 'illegal zero-prefixed version component "01" in "01.37"'),
        ("1.37.2", "patch version not allowed, got: kube=1.37.2"),
        ("wardle=1.37", "component not registered: wardle"),
        ("1.35", "emulation version 1.35 is not between [1.36, 1.37]"),
        ("1.99", "emulation version 1.99 is not between [1.36, 1.37]"),
        (f"1.{'9' * 5000}", 'illegal version string "1.9'),
    ],
)
def test_another_version_is_refused_in_the_words_of_kube_scheduler(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_emulated_version(text)
    assert str(raised.value).startswith(message)


def test_the_flag_may_be_absent_empty_or_given_once() -> None:
    assert given() is None
    assert given("--emulated-version=") is None
    assert given("--emulated-version", "v1.37") == "1.37"


@pytest.mark.parametrize(
    "flags", [("--emulated-version=1.36,kube=1.37",), ("--emulated-version=1.36", "--emulated-version=1.37")]
)
def test_two_versions_are_refused(flags: tuple[str, ...]) -> None:
    with pytest.raises(argparse.ArgumentError, match=r"duplicate version flag, kube=1\.36 and kube=1\.37"):
        given(*flags)
