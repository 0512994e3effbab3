"""A report with something in every view, and names that a page must not take for HTML."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec

from kscheduler.api.objects import Node
from kscheduler.record.entries import Change, End, Header, Synced
from kscheduler.record.writer import RecordWriter
from kscheduler.simulator.gang_book import GangRun, GangRuns
from kscheduler.simulator.pod_claims import ClaimsOfPod, PodClaims
from kscheduler.simulator.report import Report
from kscheduler.simulator.report_history import Preempted
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.simulator.workload import default_workload, generate
from tests.simulator import loads
from tests.simulator.first_fit import make_node
from tests.simulator.kept import decided
from tests.simulator.loads import arrivals, cluster, play
from tests.simulator.objects import pod
from tests.simulator.reports import report_of

SCRIPT = "<script>window.broken=1</script><img src=x onerror=window.broken=1>"
RIGHT_TO_LEFT = "\u202eשלום-node"
LONG = "n" * 253
HOSTILE = (SCRIPT, RIGHT_TO_LEFT, LONG)
MESSAGE = (
    "0/6 nodes are available: 1 node(s) had untolerated taint(s), 5 Insufficient cpu. "
    "preemption: 0/6 nodes are available: 1 Preemption is not helpful for scheduling, 5 No preemption victims found."
)
CLAIMS: dict[str, Any] = {  # of a pending pod, as `kscheduler explain --output json` has them
    "claims": [
        {
            "name": "gpu",
            "claim": "shop/web-1-gpu-x7",
            "template": "large-gpus",
            "state": "not allocated",
            "devices": [],
        },
        {
            "name": "nic",
            "claim": "shop/fast-nics",
            "template": "",
            "state": "allocated",
            "devices": [
                {"request": "nics", "driver": "nic.example.com", "pool": "n0", "device": "nic-0", "shareID": ""},
                {"request": "nics/shared", "driver": "nic.example.com", "pool": "n0", "device": SCRIPT, "shareID": "5"},
            ],
        },
        {"name": "disk", "claim": "", "template": "scratch", "state": "not made yet", "devices": []},
    ],
    "waitsFor": "",
    "nodes": 6,
    "satisfied": 0,
    "findings": [
        {
            "claim": "shop/web-1-gpu-x7",
            "request": "gpu",
            "reason": "selector",
            "detail": f"class gpu: selector #0: device.driver == '{SCRIPT}'",
            "message": f"too few devices match: class gpu: selector #0: device.driver == '{SCRIPT}'",
            "nodes": 4,
            "examples": ["n0", SCRIPT],
        },
        {
            "claim": "",
            "request": "",
            "reason": "pool",
            "detail": "pool n1 is incomplete",
            "message": "the resource pool is incomplete or invalid: pool n1 is incomplete",
            "nodes": 2,
            "examples": ["n1"],
        },
    ],
    "findingsLeftOut": 3,
}
ZONE = "topology.kubernetes.io/zone"


def nodeless() -> Report:
    """Three pods, and no node for them."""
    return report_of(Scenario(arrivals=[Arrival(0.0, pod(f"p{number}")) for number in range(3)]))


def busy() -> Report:
    """Return the report of a run with pending, preempted and finished pods on nodes with hostile names."""
    names = [*HOSTILE, "n0", "n1", "n2"]
    nodes = [_in_zone(make_node(name, cpu="4"), f"zone-{index % 2}") for index, name in enumerate(names)]
    pods = [Arrival(float(index * 10), pod(f"p{index}", "1"), runs_s=120.0) for index in range(20)]
    pods += [Arrival(5.0 * index, pod(f"big{index}", "9")) for index in range(1, 4)]
    pods += [Arrival(100.0, pod(name, "9", priority=5)) for name in HOSTILE]
    report = report_of(Scenario(nodes, sorted(pods, key=lambda each: each.at_s), {SCRIPT: SCRIPT}, [SCRIPT]))
    unplaced = [msgspec.structs.replace(each, message=MESSAGE) for each in report.unplaced]
    victim = Preempted("default/p3", 0, SCRIPT, 30.0, 60.0, f"preempted by {SCRIPT}")
    claims = [ClaimsOfPod(each.pod, CLAIMS) for each in unplaced]
    claims.append(ClaimsOfPod("default/p0", {**CLAIMS, "claims": CLAIMS["claims"][1:2], "nodes": 0, "findings": []}))
    return msgspec.structs.replace(
        report, unplaced=unplaced, preempted=[victim], claims=PodClaims(claims, 0), gangs=gang_runs()
    )


def gang_runs() -> GangRuns:
    """Return how three gangs went: one ran, one holds nodes for half of its pods, one of a hostile name lacks pods."""
    ran = GangRun("default/first", 2, 2, 0, "ran", 0.0, 30.0, 20.0, [10.0, 30.0, 60.0], [1, 2, 0])
    holding = GangRun("default/second", 4, 4, 2, "holding", 5.0, None, 45.0, [40.0], [2])
    lacking = GangRun(f"default/{SCRIPT}", 3, 1, 0, "incomplete", 50.0, None, 0.0)
    return GangRuns(4, 1, 1, 1, 1, 65.0, 30.0, 30.0, [ran, holding, lacking], 1)


def waiting_gang() -> Report:
    """Return the report of a run in which a gang waits of which each pod would fit by itself."""
    report = report_of(Scenario([make_node("n0", cpu="16")], [Arrival(0.0, pod("train-0", "20"))]))
    message = "gang default/train needs nodes for 8 pods at once, and 4 would have one: pod train-4: ..."
    unplaced = [msgspec.structs.replace(each, message=message, requests={"cpu": 4.0}) for each in report.unplaced]
    waiting = GangRun("default/train", 8, 8, 0, "waiting", 0.0, None, 0.0)
    return msgspec.structs.replace(
        report, unplaced=unplaced, gangs=GangRuns(1, 0, 0, 1, 0, 0.0, 0.0, 0.0, [waiting], 0)
    )


def in_queues() -> Report:
    """Return the report of a run in which pods of two Queues wait, and one of none."""
    report = report_of(Scenario([make_node("n0", cpu="1")], [Arrival(float(i), pod(f"p{i}", "2")) for i in range(3)]))
    unplaced = [
        msgspec.structs.replace(each, queue=queue, priority=priority)
        for each, queue, priority in zip(report.unplaced, ("team-b", "team-a", "team-b"), (0, 0, 7), strict=True)
    ]
    return msgspec.structs.replace(report, unplaced=unplaced)


def _in_zone(node: Node, zone: str) -> Node:
    labels = {ZONE: zone, "team": SCRIPT if zone == "zone-0" else "b"}
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels))


def with_decisions() -> Report:
    """Return the report of the real scheduler's run on nodes of different size, with all decisions of all pods."""
    nodes = [make_node(name, cpu=cpu) for name, cpu in zip((*HOSTILE, "n0"), ("4", "6", "8", "10"), strict=True)]
    arrivals = [Arrival(float(index * 10), pod(f"p{index}", "2")) for index in range(8)]
    arrivals += [Arrival(5.0, pod(SCRIPT, "20"))]
    report = decided(Scenario(nodes, sorted(arrivals, key=lambda each: each.at_s)))
    return msgspec.structs.replace(report, claims=PodClaims([ClaimsOfPod("default/p0", CLAIMS)], 0))


def comparison() -> dict[str, Any]:
    """Return what `kscheduler compare --output json` writes of two runs: pods differ by a score, a filter and a tie."""
    report = msgspec.to_builtins(busy())
    scores = [
        {"plugin": "TaintToleration", "in_a": [300, 300], "in_b": [300, 300]},
        {"plugin": "NodeResourcesFit", "in_a": [98, 93], "in_b": [1, 6]},
    ]
    why: list[dict[str, Any]] = [
        {"kind": "score", "plugin": "NodeResourcesFit", "scores": scores},
        {"kind": "filter", "plugin": "NodeAffinity", "run": "B", "node": SCRIPT, "message": SCRIPT},
        {"kind": "tie"},
    ]
    sentences = [
        f"NodeResourcesFit scores {SCRIPT} : n1 as 98 : 93 in A, 1 : 6 in B",
        f"NodeAffinity filters out {SCRIPT} in B: {SCRIPT}",
        "equal scores; chosen by the tie-break",
    ]
    empty = {"plugin": "", "run": "", "node": "", "message": "", "scores": []}
    differences: list[dict[str, Any]] = [
        {
            "pod": f"default/{name}",
            "node_a": SCRIPT,
            "node_b": "n1",
            "at_s": 10.0 * place,
            "why": {**empty, **reason},
            "state": "different" if place else "equal",
            "because": because,
            "given": f"follows from default/{SCRIPT}" if place else "the first difference",
            "follows_from": f"default/{SCRIPT}" if place else "",
            "changed": [],
        }
        for place, (name, because, reason) in enumerate(zip((SCRIPT, "p1", "p2"), sentences, why, strict=True))
    ]
    counts = {"common": 26, "only_in_a": 0, "only_in_b": 0, "same_node": 17, "moved": 3}
    counts |= {"only_placed_in_a": 1, "only_placed_in_b": 2, "placed_in_neither": 3}
    return {
        "version": report["version"],
        "a": {"name": "default", "kind": "simulated", "report": report},
        "b": {"name": SCRIPT, "kind": "simulated", "report": report},
        "parameters": [["configuration", "default", SCRIPT]],
        "notes": [],
        "pods": counts,
        "differences": differences,
        "not_listed": 1,
        "figures": [
            {"name": name, "text": name, "a": a, "b": b, "is_more_better": False, "is_measured": name == "cpu"}
            for name, a, b in (
                ("pending-p99", 1.0, 3.0),
                ("fragmentation:cpu", 0.5, 0.25),
                ("cpu", None, 1.0),
                ("gangs-ran", 0.5, 1.0),
                ("gangs-wait-mean", 90.0, 30.0),
                ("gangs-holding", 2.0, 0.0),
                ("allocated:cpu", 0.75, 0.750_01),
            )
        ],
        "pending": {"bounds_s": [], "a": [], "b": []},
        "paired": {"pods": 20, "mean_s": 1.5, "standard_error_s": 0.5, "sooner": 1, "later": 4, "equal": 15},
    }


def what_if() -> dict[str, Any]:
    """Return what `kscheduler whatif --output json` writes of a search for the fewest nodes, with hostile names."""
    compared = comparison()
    compared["a"]["name"], compared["b"]["name"] = "as it is", "changed"
    compared["differences"][1] |= {"node_a": ""}
    compared["differences"][2] |= {"node_b": ""}
    trials: list[tuple[int, list[str], bool, list[float | None]]] = [
        (9, ["pending p99 = 2.5 ms", "placed = 99.00 %"], True, [0.0025, 0.99]),
        (1, ["pending p99 above 30 s"], False, []),
        (4, ["pending p99 = for ever", "placed = 90.00 %"], False, [None, 0.9]),
        (7, ["pending p99 = 41 s", "placed = 99.00 %"], False, [41.0, 0.99]),
        (8, ["pending p99 = 12 s", "placed = 99.00 %"], True, [12.0, 0.99]),
    ]
    waiting: list[tuple[str, float | None, float | None]] = [("p50", 1.0, 0.5), ("p99", None, 2.0), ("max", None, None)]
    reasons = [
        {"kind": SCRIPT, "reason": "Unschedulable", "pods": 3, "still_waiting": 3, "examples": [f"default/{SCRIPT}"]}
    ]
    return {
        "command": shlex.join(["kscheduler", "whatif", "--record", SCRIPT, "--add-nodes", LONG]),
        "changes": [
            f"with 8 more nodes ({SCRIPT})",
            f"without plugin {RIGHT_TO_LEFT}",
            f"with the configuration {LONG}",
        ],
        "needed": {
            "shape": SCRIPT,
            "nodes": 8,
            "objectives": [
                {"text": "pending p99 < 30s", "value": 30.0, "unit": "seconds"},
                {"text": "placed >= 95%", "value": 0.95, "unit": "share"},
            ],
            "trials": [
                {"nodes": nodes, "figures": figures, "met": met, "values": values}
                for nodes, figures, met, values in trials
            ],
        },
        "scheduled": [f"default/{SCRIPT}", f"default/{LONG}"],
        "no_longer_scheduled": [f"default/{RIGHT_TO_LEFT}"],
        "on_added_nodes": 4,
        "by_chance": {**compared["pods"], "moved": 2},
        "waiting": [{"share": share, "before_s": before, "after_s": after} for share, before, after in waiting],
        "pending": reasons,
        "comparison": compared,
    }


def large() -> Report:
    return report_of(generate(default_workload(nodes=10_000, pods=20)))


def loaded() -> Report:
    scenario = Scenario(cluster(2, 1), arrivals(4, 100.0))
    return loads.report_of(scenario, play(scenario))


def write_record(path: Path) -> None:
    """Write a record of one node, and of a pod that is placed on it."""
    metadata = msgspec.structs.replace(pod("recorded").metadata, uid="u")
    waiting = msgspec.structs.replace(pod("recorded"), metadata=metadata)
    with RecordWriter(path) as writer:
        writer.write(Header(1, "0.1.0", 0.0))
        writer.write(Change(0.0, "nodes", "ADDED", msgspec.Raw(msgspec.json.encode(make_node("n0", cpu="4")))))
        writer.write(Synced(0.0))
        writer.write(Change(1.0, "pods", "ADDED", msgspec.Raw(msgspec.json.encode(waiting))))
        writer.write(End(2.0))
