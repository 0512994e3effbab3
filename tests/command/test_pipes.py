"""A file that a flag names is read once, since it may be a pipe, as with `--workload <(generate)`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from kscheduler.command.cli import main
from kscheduler.command.flags.commands import parse
from kscheduler.command.flags.run_options import RunOptions
from kscheduler.command.running import emulations

WORKLOAD = """
seed: 7
nodes: {count: 5, shapes: [{name: small, capacity: {cpu: "4", memory: 8Gi}}]}
pods: {count: 10}
"""
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: mine}]
"""


@pytest.fixture
def piped() -> Iterator[Callable[[str], str]]:
    """Return a function from a text to the path of a pipe that holds it."""
    descriptors = []

    def pipe(text: str) -> str:
        reading, writing = os.pipe()
        descriptors.append(reading)
        with os.fdopen(writing, "w") as file:
            file.write(text)
        return f"/dev/fd/{reading}"

    yield pipe
    for each in descriptors:
        os.close(each)


@pytest.mark.parametrize(
    "command",
    [["simulate", "--quiet"], ["compare", "default", "default"], ["whatif", "--quiet", "--add-nodes", "2:small"]],
    ids=lambda command: str(command[0]),
)
def test_a_workload_is_read_once(command: list[str], piped: Callable[[str], str]) -> None:
    assert main([*command, "--workload", piped(WORKLOAD)]) == 0


def test_a_configuration_is_read_once_for_all_releases(piped: Callable[[str], str]) -> None:
    options = parse(["run", "--config", piped(CONFIGURATION)])
    assert isinstance(options, RunOptions)
    chosen = emulations(options).choose("1.37")
    assert chosen.is_as_expected
    assert [profile.scheduler_name for profile in chosen.emulation.config.profiles] == ["mine"]


def test_a_configuration_is_validated_that_comes_through_a_pipe(piped: Callable[[str], str]) -> None:
    assert main(["config", "validate", piped(CONFIGURATION)]) == 0
