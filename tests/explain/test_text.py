"""What a terminal shows, to the letter."""

from __future__ import annotations

from typing import Any

from kscheduler.client.times import micro_time
from kscheduler.explain.details import ValueOnNode
from kscheduler.explain.documents import decision_document
from kscheduler.explain.record import Outcome, Reason, Refusal
from kscheduler.explain.text import explanation_text
from kscheduler.framework.node_values import NodeValue
from tests.explain.records import make_details, make_record

POD = {"namespace": "default", "name": "web", "nodeName": ""}
LEADER = {"identity": "a_1", "leads": True, "leader": "a_1", "startedAt": ""}


def document(summary: str, *decisions: dict[str, Any], queue: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "pod": POD,
        "summary": summary,
        "replica": LEADER,
        "queue": queue,
        "decisions": list(decisions),
        "waitsForPermitOf": [],
    }


def test_a_bound_pod_is_explained_with_its_scores() -> None:
    record = make_record(details=make_details())
    record.outcome, record.finished = Outcome.BOUND, record.at + 0.25
    text = explanation_text(document("is on n1", decision_document(record, micro_time, all_nodes=True)))
    assert text == (
        "Pod default/web is on n1\n"
        "\n"
        "Attempt 1 at 2023-11-14T22:13:20.000000Z, profile default-scheduler\n"
        "  3 of 3 nodes looked at, 2 fit\n"
        "  bound at 2023-11-14T22:13:20.250000Z\n"
        "\n"
        "Nodes that do not fit\n"
        "  1 node:  NodeResourcesFit  Insufficient cpu  n3\n"
        "\n"
        "Best nodes: score × weight of each plugin (raw scores in brackets)\n"
        "  node  total  NodeResourcesFit  ImageLocality\n"
        "  n1 *  170    70×1 (70)         50×2 (9)\n"
        "  n0    60     60×1 (60)         0×2 (0)\n"
        "  * taken\n"
        "\n"
        "All nodes\n"
        "  n0  fits\n"
        "  n1  fits\n"
        "  n3  NodeResourcesFit: Insufficient cpu\n"
    )


def test_values_that_plugins_went_by() -> None:
    details = make_details()
    details.values = (
        ValueOnNode("n1", "MetricPolicy", NodeValue("cpu", 0.4375, 1.2, 0.9, 0.375, 0.0625, 12.3)),
        ValueOnNode("n0", "MetricPolicy", NodeValue("cpu", None, 0.5, 0.5, 0.5, 0.0, 700.0)),
        ValueOnNode("n3", "MetricPolicy", NodeValue("cpu", None, None, None, None, 0.0, None)),
    )
    text = explanation_text(document("is on n1", decision_document(make_record(details=details), micro_time)))
    assert (
        "Values at that time (rules go by the smoothed one and what pods add that came since)\n"
        "  node  plugin        metric  went by     read  clamped  smoothed  pods since  age\n"
        "  n1    MetricPolicy  cpu     0.4375      1.2   0.9      0.375     +0.0625     12 s\n"
        "  n0    MetricPolicy  cpu     none fresh  0.5   0.5      0.5                   700 s\n"
        "  n3    MetricPolicy  cpu     none fresh\n"
    ) in text


def test_a_waiting_pod_is_explained_with_what_it_waits_for() -> None:
    record = make_record(attempt=2)
    record.outcome, record.node, record.nodes, record.evaluated, record.feasible = Outcome.REJECTED, "", 3120, 3120, 0
    reason = Reason("NodeResourcesFit", "Unschedulable", ("Insufficient cpu", "Insufficient memory"), 3120)
    record.refusal = Refusal("0/3120", ("NodeResourcesFit",), (reason,), "", "preemption: wait", "n1")
    queue = {
        "pool": "unschedulable",
        "attempts": 2,
        "since": "T0",
        "backoffUntil": "T1",
        "backoffSeconds": 1.5,
        "gatedBy": "",
        "rejectingPlugins": ["NodeResourcesFit"],
        "wokenBy": [
            {"plugin": "NodeResourcesFit", "resource": "Node", "actions": ["Add", "UpdateNodeTaint"], "narrowed": True},
            {"plugin": "NodeResourcesFit", "resource": "*", "actions": ["All"], "narrowed": False},
        ],
        "triedAgainBy": "T2",
    }
    first = make_record(message="0/1 nodes are available")
    first.outcome = Outcome.REJECTED
    found = document(
        "fits nowhere", decision_document(record, micro_time), decision_document(first, micro_time), queue=queue
    )
    assert explanation_text(found) == (
        "Pod default/web fits nowhere\n"
        "\n"
        "Attempt 2 at 2023-11-14T22:13:20.000000Z, profile default-scheduler\n"
        "  3,120 of 3,120 nodes looked at, 0 fit\n"
        "\n"
        "Nodes that do not fit\n"
        "  3,120 nodes:  NodeResourcesFit  Insufficient cpu, Insufficient memory\n"
        "  (the scheduler was busy: the verdict of each node was not kept for this attempt; it is for pods with\n"
        "  the annotation kscheduler.io/explain=details)\n"
        "\n"
        "Preemption\n"
        "  makes room on n1\n"
        "  preemption: wait\n"
        "\n"
        "Queue: unschedulable since T0, waiting for a change in the cluster\n"
        "  attempts so far: 2\n"
        "  backs off until T1 (1.5 s from now)\n"
        "  rejected by NodeResourcesFit\n"
        "  woken by\n"
        "    NodeResourcesFit:  Node* (Add, UpdateNodeTaint), anything (All)\n"
        "    (* if the plugin finds that the change may help this pod)\n"
        "  tried again without that by T2\n"
        "\n"
        "Earlier attempts\n"
        "  1  2023-11-14T22:13:20.000000Z  rejected  0/1 nodes are available\n"
    )


def test_a_standby_names_the_leader_by_its_pod() -> None:
    found = document("is on n1") | {"replica": {"identity": "a_1", "leads": False, "leader": "kscheduler-x_0-1"}}
    assert explanation_text(found).splitlines()[1] == (
        "Asked of a_1, which stands by and decides nothing: kscheduler-x leads (kscheduler-x_0-1). Ask that one."
    )
    found["replica"]["leader"] = ""
    assert "nobody leads at the moment" in explanation_text(found)


def test_a_pod_that_waits_for_a_permit() -> None:
    text = explanation_text(document("is being bound to n1") | {"waitsForPermitOf": ["Gang", "Quota"]})
    assert text.splitlines()[1] == "Its binding waits for a permit of Gang, Quota."


def test_a_pod_that_no_prefilter_let_pass() -> None:
    record = make_record()
    record.outcome, record.evaluated, record.feasible = Outcome.REJECTED, 0, 0
    record.refusal = Refusal("0/3: claim not found.", ("VolumeBinding",), pre_filter="claim not found")
    text = explanation_text(document("fits nowhere", decision_document(record, micro_time)))
    assert "  no node was looked at: claim not found (VolumeBinding)\n" in text
    assert "busy" not in text
