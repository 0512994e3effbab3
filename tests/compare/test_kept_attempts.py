"""A report that keeps decisions can say why, as far as it kept the nodes in question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kscheduler.compare.attempts import Fit, NodeView, Score
from kscheduler.compare.comparing import compare
from kscheduler.compare.kept_attempts import KeptDecisions, kept_attempts
from kscheduler.compare.report_side import ReportSide, read_report
from kscheduler.simulator.scenario import Scenario
from tests.compare.runs import MOST, arriving, nodes, simulated, small_pods

NODES = ["n0", "n1", "n2", "n3"]


def decision(node: str, best: dict[str, int], **others: Any) -> dict[str, Any]:
    """A decision as `kscheduler explain` shows it, with one plugin's scores of the best nodes."""
    return {
        "attempt": 1,
        "time": 1.0,
        "node": node,
        "message": "",
        "nodes": len(NODES),
        "plugins": [],
        "preFilter": "",
        "reasons": [],
        "bestNodes": [
            {
                "node": name,
                "score": score * 2,
                "plugins": [{"plugin": "Fit", "weight": 2, "raw": 7, "normalized": score, "weighted": score * 2}],
            }
            for name, score in best.items()
        ],
        **others,
    }


def reason(plugin: str, message: str, count: int, *examples: str) -> dict[str, Any]:
    return {"plugin": plugin, "code": "Unschedulable", "reasons": [message], "nodes": count, "examples": list(examples)}


def views(made: dict[str, Any]) -> dict[str, NodeView]:
    kept = msgspec.convert({"pods": [{"pod": "default/p", "decisions": [made]}], "left_out": 0}, KeptDecisions)
    found = kept_attempts(kept, {"default/p": NODES, "default/q": NODES})
    assert list(found.by_pod) == ["default/p"]
    return dict(found.by_pod["default/p"][0].nodes)


def test_the_best_nodes_have_their_scores() -> None:
    view = views(decision("n1", {"n1": 50, "n0": 40}))["n1"]
    assert (view.fit, view.scores, view.total, view.pods) == (Fit.FITS, {"Fit": Score(50, 2)}, 100, None)


def test_examples_of_a_reason_are_filtered_out_by_its_plugin() -> None:
    found = views(decision("n1", {"n1": 5}, reasons=[reason("Taint", "tainted", 2, "n2"), reason("Fit", "no room", 1)]))
    assert (found["n2"].fit, found["n2"].plugin, found["n2"].message) == (Fit.FILTERED, "Taint", "tainted")
    assert found["n3"].fit is Fit.UNKNOWN


def test_a_reason_of_all_nodes_is_that_of_each() -> None:
    found = views(decision("", {}, reasons=[reason("Fit", "no room", 4, "n0")]))
    assert {view.plugin for view in found.values()} == {"Fit"}


def test_what_pre_filter_rejects_is_filtered_out_everywhere() -> None:
    found = views(decision("", {}, preFilter="no claim", plugins=["Volumes"]))
    assert {(view.plugin, view.message) for view in found.values()} == {("Volumes", "no claim")}


def test_two_reports_with_decisions_name_the_first_plugin() -> None:
    report = msgspec.to_builtins(simulated("a", Scenario(nodes(2), arriving(*small_pods(1))), MOST).run().report)

    def side(name: str, node: str, scores: dict[str, int]) -> ReportSide:
        node_index = int(node[1])
        placements = {
            "nodes": ["n0", "n1"],
            "pods": ["default/p0"],
            "node": [node_index],
            "bound_s": [1.0],
            "left_s": [None],
        }
        kept = {"pods": [{"pod": "default/p0", "decisions": [decision(node, scores)]}], "left_out": 0}
        content = report | {"placements": placements, "decisions": kept}
        return read_report(Path(name), msgspec.json.encode(content))

    found = compare(side("a.json", "n0", {"n0": 50, "n1": 40}), side("b.json", "n1", {"n1": 45, "n0": 40}))
    (difference,) = found.differences
    assert (difference.why.kind, difference.why.plugin) == ("score", "Fit")
    assert difference.because == "Fit scores n0 : n1 as 100 : 80 in A, 80 : 90 in B"
    assert (difference.state, found.notes) == ("equal", [])


def test_nodes_outside_a_large_domain_are_known_as_such() -> None:
    """A decision lists some of the domain's nodes only, and the report has all of them once."""
    inside = [f"n{number}" for number in range(3)]
    made = decision("n1", {"n1": 5}, confinedTo=inside[:1], confinedToLeftOut=2, confinedToDomain=0)
    kept = msgspec.convert({"pods": [{"pod": "default/p", "decisions": [made]}], "domains": [inside]}, KeptDecisions)
    [attempt] = kept_attempts(kept, {"default/p": NODES}).by_pod["default/p"]
    assert {name: view.fit for name, view in attempt.nodes.items()} == {
        "n0": Fit.UNKNOWN,
        "n1": Fit.FITS,
        "n2": Fit.UNKNOWN,
        "n3": Fit.OUTSIDE,
    }
