"""--feature-gates is one flag for all commands; what its values mean, test_gate_settings.py checks."""

from __future__ import annotations

import argparse

import pytest

from kscheduler.config.gate_flag import add_feature_gates, gates_in_words, parsed_gates, with_gates
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37
from kscheduler.errors import ConfigError


def given(*flags: str, flag: str = "--feature-gates") -> list[str]:
    parser = argparse.ArgumentParser()
    add_feature_gates(parser, flag=flag)
    texts: list[str] = vars(parser.parse_args(flags))[flag.removeprefix("--").replace("-", "_")]
    return texts


def test_the_flag_may_be_given_often_and_later_values_count() -> None:
    texts = given("--feature-gates=GenericWorkload=true,VolumeLimitScaling=true", "--feature-gates=GenericWorkload=no")
    with pytest.raises(ConfigError, match=r"^--feature-gates: invalid value of GenericWorkload=no"):
        parsed_gates(texts)
    texts = given("--feature-gates=A=true,B=true", "--feature-gates=A=false")
    assert parsed_gates(texts) == {"A": False, "B": True}
    assert parsed_gates(given()) == {}


def test_errors_name_the_flag_that_was_given() -> None:
    texts = given("--new-feature-gates=A", flag="--new-feature-gates")
    with pytest.raises(ConfigError, match=r"^--new-feature-gates: missing bool value for A$"):
        parsed_gates(texts, "--new-feature-gates")
    with pytest.raises(ConfigError, match=r"^--new-feature-gates: unrecognized feature gate: Foo$"):
        with_gates(RELEASE_1_37, {"Foo": True}, "--new-feature-gates")


def test_gates_are_set_on_top_of_those_of_the_release() -> None:
    before = RELEASE_1_36.with_gates({"GenericWorkload": True})
    after, warnings = with_gates(before, {"GangScheduling": True, "MemoryQoS": True})
    assert after.set_gates == {"GangScheduling": True, "GenericWorkload": True}
    assert warnings == ("--feature-gates MemoryQoS=true has no effect: it is of other parts of Kubernetes",)
    assert with_gates(before, {}) == (before, ())


def test_settings_are_written_as_the_flag_takes_them() -> None:
    assert gates_in_words({"B": False, "A": True}) == "A=true,B=false"
    assert parsed_gates([gates_in_words({"B": False, "A": True})]) == {"A": True, "B": False}
