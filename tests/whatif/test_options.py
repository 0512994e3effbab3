"""The flags of a what-if are checked before anything is read."""

from __future__ import annotations

import shlex

import pytest

from kscheduler.errors import ConfigError
from kscheduler.whatif.node_changes import Addition
from tests.whatif.scenarios import read


def test_flags_are_read() -> None:
    arguments = read(
        *("--record", "tuesday.zst", "--config", "a.yaml", "--bind-latency", "0.01"),
        *("--add-nodes", "20:general-32", "--add-nodes", "3:gpu-8", "--remove-nodes", "2:small", "--cordon", "n0"),
        *("--uncordon", "n1", "--taint", "all", "a=b:NoSchedule", "--taint", "n0", "c:NoExecute-"),
        *("--weight", "NodeAffinity=5", "--plugin", "A", "--no-plugin", "B", "--set", "podMaxBackoffSeconds=7"),
        *("--new-config", "b.yaml", "--limit", "3", "-o", "json", "--no-chance", "--quiet"),
    )
    assert (arguments.simulate.record, arguments.simulate.config) == ("tuesday.zst", "a.yaml")
    assert arguments.nodes.add == (Addition("general-32", 20), Addition("gpu-8", 3))
    assert [each.text for each in arguments.nodes.remove] == ["2:small"]
    assert [(each.nodes.text, each.taint.key, each.removes) for each in arguments.nodes.taints] == [
        ("all", "a", False),
        ("n0", "c", True),
    ]
    configuration = arguments.configuration
    assert (configuration.enabled, configuration.disabled) == (("A",), ("B",))
    assert (configuration.weights, configuration.values) == ((("NodeAffinity", 5),), (("podMaxBackoffSeconds", 7),))
    assert (arguments.limit, arguments.output, arguments.by_chance, arguments.quiet) == (3, "json", False, True)


def test_the_command_is_kept_as_it_was_typed() -> None:
    flags = ("--record", "it's monday.zst", "--cordon", "pool in (a, b)", "--new-config", "\udcff.yaml")
    command = read(*flags).command
    assert shlex.split(command) == ["kscheduler", "whatif", *flags[:-1], "\\udcff.yaml"]


def test_a_search_is_read() -> None:
    arguments = read("--find", "min-nodes", "--add-nodes", "general-32", "--slo", "pending p99 < 30s", "--most", "64")
    assert (arguments.find, arguments.sought, arguments.most) == ("min-nodes", "general-32", 64)
    assert [objective.text for objective in arguments.objectives] == ["pending p99 < 30s"]


def test_lists_of_one_call_are_not_in_the_next() -> None:
    read("--add-nodes", "1:general-32")
    assert read("--cordon", "all").nodes.add == ()


def test_chance_has_no_say_where_the_first_of_equal_nodes_is_taken() -> None:
    assert read("--cordon", "n0").by_chance
    assert not read("--cordon", "n0", "--first-on-tie").by_chance


SLO = ("--slo", "unplaced <= 0")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "expected something to change, such as --add-nodes 20:general-32"),
        (("--add-nodes", "general-32"), "--add-nodes: expected a number and a shape, such as 20:general-32"),
        (("--add-nodes", "100001:small"), '--add-nodes: expected at most 100,000 nodes, got "100001:small"'),
        (("--add-nodes", f"{9**99}:small"), "--add-nodes: expected at most 100,000 nodes"),
        (SLO, "--slo: expected --find min-nodes beside it"),
        (("--find", "min-nodes", "--add-nodes", "small"), "--find: expected an objective, such as --slo"),
        (("--find", "min-nodes", *SLO), "--find min-nodes: expected one shape without a number, .* got none"),
        (
            ("--find", "min-nodes", *SLO, "--add-nodes", "a", "--add-nodes", "b"),
            "--find min-nodes: expected one shape without a number, .* got a, b",
        ),
        (("--find", "max-pods"), "argument --find: invalid choice: 'max-pods'"),
        (
            ("--find", "min-nodes", *SLO, "--add-nodes", "a", "--most", "0"),
            "--most: expected 1 to 100,000 nodes, got 0",
        ),
        (("--cordon", "n0", "--limit", "-1"), "--limit: expected 0 to 10,000, got -1"),
        (("--cordon", "n0", "--record", "a", "--pods", "3"), "--record: expected no other source of nodes"),
        (("--taint", "all"), "argument --taint: expected 2 arguments"),
    ],
)
def test_wrong_flags_are_refused(flags: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(*flags)
