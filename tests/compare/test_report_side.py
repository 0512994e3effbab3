"""A report of a simulation is a side: what it lacks is stated, and what it has is compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kscheduler.compare.comparing import compare
from kscheduler.compare.landings import NOT_KNOWN
from kscheduler.compare.report_side import ReportSide, read_report
from kscheduler.errors import ConfigError
from kscheduler.simulator.report import to_json
from kscheduler.simulator.scenario import Scenario
from tests.compare.runs import LEAST, MOST, arriving, nodes, simulated, small_pods
from tests.simulator.objects import pod


def scenario(node_count: int = 2) -> Scenario:
    return Scenario(nodes(node_count), arriving(*small_pods(3), pod("large", cpu="4")))


def document(config: str, node_count: int = 2, **others: Any) -> dict[str, Any]:
    report = msgspec.to_builtins(simulated("a", scenario(node_count), config).run().report)
    assert isinstance(report, dict)
    return {key: value for key, value in report.items() if key != "placements"} | others


def side(name: str, content: dict[str, Any]) -> ReportSide:
    return read_report(Path(name), msgspec.json.encode(content))


def placements(*placed: tuple[str, int]) -> dict[str, Any]:
    return {
        "nodes": ["n0", "n1"],
        "pods": [f"default/{name}" for name, _ in placed],
        "node": [node for _, node in placed],
        "bound_s": [0.0025 + index for index in range(len(placed))],
        "left_s": [None] * len(placed),
    }


def test_the_report_of_a_simulation_can_be_read() -> None:
    report = simulated("a", scenario()).run().report
    assert read_report(Path("a.json"), to_json(report)).run().report == report


def test_reports_without_placements_compare_the_pods_without_a_node() -> None:
    found = compare(side("a.json", document(MOST, 2)), side("b.json", document(MOST, 1)))
    (difference,) = found.differences
    assert (difference.pod, difference.node_a, difference.node_b) == ("default/large", NOT_KNOWN, "")
    assert (difference.why.kind, difference.why.run) == ("not scheduled", "B")
    assert difference.why.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert (found.pods.only_placed_in_a, found.pods.are_nodes_known) == (1, False)
    assert "where the others were placed is not in a.json, b.json" in found.notes[0]
    assert "Filter results and scores are not in a.json, b.json" in found.notes[1]


def test_reports_with_placements_compare_every_pod() -> None:
    one = document(MOST, placements=placements(("p0", 0), ("p1", 0), ("p2", 0), ("large", 1)))
    other = document(MOST, placements=placements(("p0", 0), ("p1", 1), ("p2", 0)), unplaced=document(LEAST)["unplaced"])
    found = compare(side("a.json", one), side("b.json", other))
    assert (found.pods.same_node, found.pods.moved, found.pods.only_placed_in_a) == (2, 1, 1)
    assert [(each.pod, each.node_a, each.node_b, each.why.kind, each.state) for each in found.differences] == [
        ("default/p1", "n0", "n1", "unknown", "equal"),
        ("default/large", "n1", "", "not scheduled", "not known"),
    ]


def test_a_report_and_a_simulation_share_what_the_simulation_knows() -> None:
    one = document(MOST, placements=placements(("p0", 0), ("p1", 0), ("p2", 0), ("large", 1)))
    found = compare(side("a.json", one), simulated("b", scenario(), LEAST))
    large = next(each for each in found.differences if each.pod == "default/large")
    # The simulation knows which plugin filtered out the node that the report names.
    assert (large.why.kind, large.why.plugin, large.why.run, large.why.node) == (
        "filter",
        "NodeResourcesFit",
        "B",
        "n1",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"latency": 5}, r"r\.json: expected a report of `kscheduler simulate --output`: .*latency"),
        (
            {"latency": 5, "version": "9.9"},
            r"that this version can read, and this one is of kscheduler 9\.9: .*latency",
        ),
        ({"placements": {"nodes": []}}, "placements"),
        ({"placements": placements(("p0", 7))}, "expected indexes of nodes"),
        ({"placements": placements(("p0", -1))}, "expected indexes of nodes"),
        ({"placements": placements(("p0", 0)) | {"node": []}}, "lists of one length"),
    ],
)
def test_a_report_that_contradicts_itself_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        side("r.json", document(MOST) | change)
