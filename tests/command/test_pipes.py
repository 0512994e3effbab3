"""A file that a flag names is read once, since it may be a pipe, as with `--workload <(generate)`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from kscheduler.command.cli import main

WORKLOAD = """
seed: 7
nodes: {count: 5, shapes: [{name: small, capacity: {cpu: "4", memory: 8Gi}}]}
pods: {count: 10}
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
