"""The flags of a sweep are checked before anything is read."""

from __future__ import annotations

import pytest

from kscheduler.command.flags.commands import parse
from kscheduler.command.flags.simulations import SweepOptions
from kscheduler.errors import ConfigError
from kscheduler.sweep.options import (
    SweepArguments,
    parse_seeds,
    read_arguments,
    read_collect_arguments,
    read_index_arguments,
)


def read(*flags: str) -> SweepArguments:
    options = parse(["sweep", "grid.yaml", "--out", "results", *flags])
    assert isinstance(options, SweepOptions)
    return read_arguments(options.arguments)


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("42..45", [42, 43, 44, 45]), ("7", [7]), ("1,3,5..6,1", [1, 3, 5, 6]), ("-2..0", [-2, -1, 0])],
)
def test_seeds_are_numbers_and_ranges(text: str, seeds: list[int]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "1..", "1...3", "5..3", "0..1000000000000", "1,,2"])
def test_other_seeds_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--seeds: expected"):
        parse_seeds(text)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--jobs", "0"), "--jobs: expected at least 1, got 0"),
        (("--max-time", "10"), '--max-time: expected a duration such as "15s"'),
        (("--max-time", "0s"), "--max-time: expected a duration above zero, got 0s"),
        (("--apply",), "--apply: expected --on job beside it"),
        (("--job-name", "No_Name"), "--job-name: expected at most 50 lower-case letters"),
        (("--max-runs", "0"), "--max-runs: expected at least 1, got 0"),
    ],
)
def test_wrong_flags_are_refused(flags: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(*flags)
    assert message in str(raised.value)


def test_flags_are_read() -> None:
    arguments = read("--seeds", "1..3", "--jobs", "2", "--max-time", "1m30s", "--baseline", "a", "--resume")
    assert (arguments.seeds, arguments.jobs, arguments.max_time_s) == ([1, 2, 3], 2, 90.0)
    assert (arguments.baseline, arguments.resume, arguments.on) == ("a", True, "local")


def test_collect_needs_logs_or_a_job() -> None:
    options = parse(["sweep", "collect", "--out", "results"])
    assert isinstance(options, SweepOptions)
    assert options.part == "collect"
    with pytest.raises(ConfigError, match="expected saved logs, - for standard input, or --job-name"):
        read_collect_arguments(options.arguments)


def test_an_index_has_its_number_of_indexes() -> None:
    options = parse(["sweep", "index", "--plan", "d", "--indexes", "3"])
    assert isinstance(options, SweepOptions)
    assert read_index_arguments(options.arguments).indexes == 3
