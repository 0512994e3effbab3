"""Flags of kube-scheduler that do less than they seem to, and the warnings of them."""

from __future__ import annotations

import pytest

from kscheduler.command.flags.ineffective import IGNORED_FLAGS
from kscheduler.command.flags.run_options import apply_run_options
from kscheduler.config.load import default_config
from tests.command.flags.given import refusal, run


def test_flags_without_meaning_here_are_accepted_with_a_warning() -> None:
    options = run("--http2-max-streams-per-connection=9", "--contention-profiling")
    assert options.warnings == (
        "--contention-profiling has no effect: there is no such profile",
        "--http2-max-streams-per-connection has no effect: only HTTP/1.1 is served",
    )


VALUES = {  # ignored flags whose values have a type -> the value, and what is none
    "--contention-profiling": ("false", "maybe"),
    "--disable-http2-serving": ("true", "2"),
    "--emulation-forward-compatible": ("true", "yes"),
    "--http2-max-streams-per-connection": ("-1", "many"),
    "--log-flush-frequency": ("5s", "5"),
    "--log-json-split-stream": ("t", "x"),
    "--log-text-split-stream": ("F", "x"),
    "--permit-address-sharing": ("1", "x"),
    "--permit-port-sharing": ("0", "x"),
}


@pytest.mark.parametrize("flag", IGNORED_FLAGS)
def test_every_ignored_flag_is_accepted(flag: str) -> None:
    value, _ = VALUES.get(flag, ("x", ""))
    options = run(f"{flag}={value}")
    assert options.warnings[0].startswith(f"{flag} has no effect")
    assert dict(options.flags)[flag.removeprefix("--")] == value


@pytest.mark.parametrize("flag", VALUES)
def test_a_value_of_another_type_is_refused_as_by_kube_scheduler(flag: str) -> None:
    _, wrong = VALUES[flag]
    assert f"argument {flag}: expected " in refusal("run", f"{flag}={wrong}")


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
