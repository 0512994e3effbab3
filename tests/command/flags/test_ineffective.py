"""Flags of kube-scheduler that do less than they seem to, and the warnings of them."""

from __future__ import annotations

import pytest

from kscheduler.command.flags.ineffective import IGNORED_FLAGS
from kscheduler.command.flags.run_options import apply_run_options
from kscheduler.config.load import default_config
from tests.command.flags.given import run


def test_flags_without_meaning_here_are_accepted_with_a_warning() -> None:
    options = run("--http2-max-streams-per-connection=9", "--contention-profiling")
    assert options.warnings == (
        "--contention-profiling has no effect: there is no such profile",
        "--http2-max-streams-per-connection has no effect: only HTTP/1.1 is served",
    )


@pytest.mark.parametrize("flag", IGNORED_FLAGS)
def test_every_ignored_flag_is_accepted(flag: str) -> None:
    assert run(f"{flag}=x").warnings[0].startswith(f"{flag} has no effect")


@pytest.mark.parametrize(
    ("name", "standard"),
    [
        ("username-headers", "X-Remote-User header"),
        ("group-headers", "X-Remote-Group header"),
        ("extra-headers-prefix", "X-Remote-Extra- header prefix"),
    ],
)
def test_headers_without_the_standard_one_are_warned_of(name: str, standard: str) -> None:
    flag = f"--requestheader-{name}"
    warning = f"{flag} is set without specifying the standard {standard} - API aggregation will not work"
    assert run(f"{flag}=X-Mine").warnings == (warning,)


def test_with_a_configuration_file_they_do_nothing_and_say_so() -> None:
    options = run(
        "--config=/c", "--kube-api-qps=7.5", "--kube-api-burst=9", "--kube-api-content-type=x", "--profiling=false"
    )
    assert apply_run_options(default_config(), options) == default_config()
    assert options.warnings == tuple(
        f"--{name} has no effect: the configuration file decides"
        for name in ("kube-api-qps", "kube-api-burst", "kube-api-content-type", "profiling")
    )


def test_without_a_configuration_file_profiling_is_that_of_the_flag() -> None:
    assert not apply_run_options(default_config(), run("--profiling=false")).enable_profiling
    assert apply_run_options(default_config(), run()).enable_profiling
