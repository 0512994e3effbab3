"""The flags of a comparison are checked before anything is read."""

from __future__ import annotations

import pytest

from kscheduler.command.flags.commands import parse
from kscheduler.command.flags.simulations import CompareOptions
from kscheduler.compare.options import DEFAULT_LIMIT, MAX_LIMIT, CompareArguments, read_arguments
from kscheduler.errors import ConfigError


def read(*flags: str) -> CompareArguments:
    options = parse(["compare", "a.yaml", "b.yaml", *flags])
    assert isinstance(options, CompareOptions)
    return read_arguments(options.arguments)


def test_without_flags_there_is_no_input() -> None:
    arguments = read()
    assert (arguments.a, arguments.b, arguments.limit, arguments.output) == ("a.yaml", "b.yaml", DEFAULT_LIMIT, "text")
    assert [arguments.has_input, arguments.fail_on_difference, arguments.quiet] == [False] * 3


@pytest.mark.parametrize("flag", ["--nodes", "--pods", "--record", "--workload"])
def test_nodes_pods_record_and_workload_are_an_input(flag: str) -> None:
    assert read(flag, "5").has_input


def test_flags_of_the_simulation_are_those_of_simulate() -> None:
    flags = "--nodes 5 --seed 3 --first-on-tie --bind-latency 0.5 --max-time 9"
    simulate = read(*flags.split()).simulate
    assert (simulate.nodes, simulate.seed, simulate.first_on_tie) == ("5", 3, True)
    assert (simulate.bind_latency_s, simulate.max_time_s, simulate.config) == (0.5, 9.0, None)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--limit", "-1"], f"--limit: expected 0 to {MAX_LIMIT:,}, got -1"),
        (["--limit", "10001"], "--limit: expected 0 to 10,000, got 10001"),
        (["--record", "r", "--pods", "5"], "--record: expected no other source of nodes, pods and times, got --pods"),
        (["--speedup", "0"], "--speedup: expected a number above 0, got 0"),
        (["-o", "yaml"], "invalid choice: 'yaml'"),
        (["--config", "c.yaml"], "unrecognized arguments: --config c.yaml"),
        (["c.yaml"], "unrecognized arguments: c.yaml"),
    ],
)
def test_wrong_flags_are_refused(flags: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(*flags)
    assert message in str(caught.value)
