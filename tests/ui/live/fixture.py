"""Readings of a cluster with pods in every pool of the queue, in two namespaces, and with hostile names."""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from kscheduler.observability.metrics import SLI_BOUNDS
from kscheduler.serving.live.page import Explained
from kscheduler.serving.live.readings import (
    FreeAmounts,
    MadeDecision,
    NodeReading,
    Numbers,
    QueueReading,
    Reading,
    WaitingPod,
)
from tests.ui.reports import CLAIMS, HOSTILE, SCRIPT, ZONE

START = 1_700_000_000.0
REPLICA = {"identity": "host_1", "leads": True, "leader": "host_1"}
NAMES = (*HOSTILE, "n0", "n1", "n2")  # of the nodes
MESSAGE = "0/6 nodes are available: 1 node(s) had untolerated taint(s), 5 Insufficient cpu."


def packed(numbers: Sequence[int], code: str = "q") -> bytes:
    return array(code, numbers).tobytes()


def numbers(at: float, *, scheduled: float = 0.0, active: int = 2, errors: float = 0.0) -> Numbers:
    latency = [0] * (len(SLI_BOUNDS) + 1)
    latency[2], latency[6] = int(scheduled), int(scheduled / 50)
    lag = [int(10 * (at % 1_000_000)), 3, *[0] * 15]
    return Numbers(at, active, 1, 5, 1, 4, 6, 40, scheduled, scheduled / 10, errors, scheduled / 100, 0.0, latency, lag)


def waiting(pod: str, pool: str, position: int | None, **fields: Any) -> WaitingPod:
    known = {"priority": 0, "attempts": 1, "since": START - 30, "retry_at": None, "plugins": (), "reason": ""}
    return WaitingPod(pod=pod, pool=pool, position=position, **{**known, **fields})


def queue(now: float = START) -> QueueReading:
    fit = {"plugins": ("NodeResourcesFit",), "reason": MESSAGE}
    rows = [
        waiting("shop/first", "active", 1, priority=100, since=now - 3),
        waiting("bank/second", "active", 2, since=now - 2),
        waiting("shop/back", "backoff", None, attempts=3, retry_at=now + 4, since=now - 1, **fit),
        waiting("shop/web-1", "unschedulable", None, attempts=2, retry_at=now + 270, since=now - 30, **fit),
        waiting("bank/vault", "unschedulable", None, retry_at=now + 290, since=now - 10, **fit),
        *(waiting(f"shop/{name}", "unschedulable", None, since=now - 99, reason=name) for name in HOSTILE),
        waiting("shop/gated", "gated", None, attempts=0, plugins=("SchedulingGates",), since=now - 500),
    ]
    return QueueReading(rows, {"NodeResourcesFit": 5, SCRIPT: 1})


def decisions(now: float = START) -> list[MadeDecision]:
    return [
        MadeDecision("bank/vault", now - 1, 1, "rejected", "", 6, 0, True, MESSAGE),
        MadeDecision("shop/placed", now - 2, 1, "bound", "n0", 6, 4, True, ""),
        *(MadeDecision(f"shop/{name}", now - 9, 2, "fault", name, 6, 1, False, name) for name in HOSTILE),
    ]


def nodes(names: Sequence[str] = NAMES) -> NodeReading:
    count = len(names)
    labels: list[Mapping[str, str]] = [
        {ZONE: f"zone-{row % 2}", "team": SCRIPT if row % 3 else "b"} for row in range(count)
    ]
    requested = (packed([row * 800 % 4_400 for row in range(count)]), packed([row % 9 << 30 for row in range(count)]))
    allocatable = (packed([4_000] * count), packed([8 << 30] * count))
    pods, allowed = packed([row % 50 for row in range(count)]), packed([110] * count)
    return NodeReading(
        ("cpu", "memory", "pods"), None, (*requested, pods), (*allocatable, allowed), list(names), labels
    )


def changed(row: int, cpu: int) -> NodeReading:
    """A reading in which one node has changed."""
    requested, allocatable = (
        (packed([cpu]), packed([0]), packed([1])),
        (packed([4_000]), packed([8 << 30]), packed([9])),
    )
    return NodeReading(("cpu", "memory", "pods"), packed([row], "i"), requested, allocatable, None, None)


def reading(at: float = START, **fields: Any) -> Reading:
    """A reading with everything, at a time."""
    figures = numbers(at, scheduled=fields.pop("scheduled", 0.0))
    known = {"queue": queue(at), "decisions": decisions(at), "nodes": nodes()}
    return Reading(figures, fields.pop("replica", REPLICA), **{**known, **fields})


def now_reading(second: int) -> Reading:
    """A reading of this moment, for a browser: the more seconds, the more pods were bound."""
    at = time.time()
    return reading(at, scheduled=40.0 * second, nodes=nodes() if second == 0 else changed(3, second * 600 % 4_000))


def _score(node: str, total: int, *scores: tuple[str, int, int]) -> dict[str, Any]:
    plugins = [
        {"plugin": plugin, "weight": weight, "raw": each, "normalized": each, "weighted": each * weight}
        for plugin, weight, each in scores
    ]
    return {"node": node, "score": total, "plugins": plugins}


BEST = [
    _score("n0", 250, ("NodeResourcesFit", 1, 70), ("TaintToleration", 3, 60)),
    _score(SCRIPT, 240, ("NodeResourcesFit", 1, 90), ("TaintToleration", 3, 50)),
]


def decision(**fields: Any) -> dict[str, Any]:
    known = {
        "attempt": 2,
        "time": "2023-11-14T22:13:20.000000Z",
        "finished": None,
        "profile": "default-scheduler",
        "outcome": "rejected",
        "node": "",
        "message": MESSAGE,
        "nodes": 6,
        "evaluated": 6,
        "feasible": 0,
        "plugins": ["NodeResourcesFit", "TaintToleration"],
        "preFilter": "",
        "postFilter": f"No preemption victims found on {SCRIPT}",
        "nominatedNode": "",
        "detailed": True,
        "reasons": [
            {
                "plugin": "NodeResourcesFit",
                "code": "Unschedulable",
                "reasons": ["Insufficient cpu"],
                "nodes": 5,
                "examples": ["n0", SCRIPT],
            },
            {
                "plugin": "TaintToleration",
                "code": "UnschedulableAndUnresolvable",
                "reasons": ["node(s) had untolerated taint(s)"],
                "nodes": 1,
                "examples": ["n2"],
            },
        ],
        "reasonsLeftOut": 0,
        "bestNodes": [],
        "values": [],
    }
    return {**known, **fields}


def explanation(name: str, state: str, decisions: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    pod = {"namespace": "shop", "name": name, "uid": "u", "schedulerName": "default-scheduler", "priority": 5}
    queue = {
        "pool": "unschedulable",
        "attempts": 2,
        "since": "2023-11-14T22:13:20.000000Z",
        "backoffUntil": None,
        "backoffSeconds": 0.0,
        "gatedBy": "",
        "rejectingPlugins": ["NodeResourcesFit"],
        "wokenWithoutBackoffBy": [],
        "wokenBy": [{"plugin": "NodeResourcesFit", "resource": "Node", "actions": ["Add"], "narrowed": True}],
        "triedAgainBy": "2023-11-14T22:18:20.000000Z",
    }
    known = {
        "pod": {**pod, "nodeName": "", "nominatedNodeName": ""},
        "state": state,
        "summary": f"fits nowhere: {MESSAGE}",
        "replica": {**REPLICA, "startedAt": "2023-11-14T20:13:20.000000Z"},
        "waitsForPermitOf": [],
        "queue": queue,
        "claims": None,
        "quota": None,
        "shareQueue": None,
        "decisions": decisions,
        "record": {"decisions": 10, "bytes": 5000, "evicted": 0},
    }
    return {**known, **fields}


FREE = FreeAmounts(
    {"cpu": 2_000, "pods": 1},
    ["n0", "", SCRIPT, "n2"],
    {"cpu": packed([3_000, 0, 2_500, 0]), "pods": packed([5, 0, 110, 1])},
    {"cpu": packed([4_000, 0, 4_000, 4_000]), "pods": packed([110, 0, 110, 110])},
)
QUOTA = {
    "name": "shop/quota",
    "resources": [
        {
            "resource": "cpu",
            "requested": "1500m",
            "used": "1",
            "min": "2",
            "max": "2",
            "usedByAll": "3",
            "minOfAll": "3",
            "beyond": ["max", "all"],
            "overMin": [{"namespace": "lab", "amount": "1"}, {"namespace": SCRIPT, "amount": "500m"}],
            "overMinLeftOut": 2,
        },
        {
            "resource": "memory",
            "requested": "0",
            "used": "1Gi",
            "min": "8Gi",
            "max": "",
            "usedByAll": "1Gi",
            "minOfAll": "8Gi",
            "beyond": [],
            "overMin": [],
            "overMinLeftOut": 0,
        },
    ],
}
SHARE_QUEUE = {
    "name": f"team/{SCRIPT}",
    "unusable": "",
    "isPreemptible": True,
    "mayReclaim": True,
    "reclaimsForPods": 4,
    "mayReclaimFrom": ["lab", SCRIPT],
    "mayReclaimFromLeftOut": 2,
    "requestedForPods": 1,
    "levels": [
        {
            "name": name,
            "resources": [
                {
                    "resource": "cpu",
                    "requested": "1500m",
                    "used": "2",
                    "usedNonPreemptible": "0",
                    "asked": "3500m",
                    "deserved": "2",
                    "fairShare": "3",
                    "limit": "unlimited",
                    "beyond": beyond,
                    "line": "",
                }
            ],
        }
        for name, beyond in ((f"team/{SCRIPT}", []), ("team", ["limit", "fair share"]))
    ],
}
GANG: dict[str, Any] = {
    "api": "scheduling.x-k8s.io",
    "namespace": "shop",
    "name": "train",
    "summary": "gang shop/train needs nodes for 4 pods at once, and 3 would have one",
    "minMembers": 4,
    "members": {"known": 4, "gated": 0, "queued": 4, "inFlight": 0, "assumed": 0, "bound": 0, "succeeded": 0},
    "topology": None,
    "pool": "unschedulable",
    "attempts": 1,
    "latestAttempt": {
        "outcome": "rejected",
        "secondsAgo": 2.0,
        "text": "",
        "stoppedBy": {
            "pod": "shop/train-3",
            "nodes": 6,
            "evaluated": 6,
            "preFilter": "",
            "plugins": ["NodeResourcesFit"],
            "message": MESSAGE,
            "reasons": [
                {"plugin": "NodeResourcesFit", "code": "Unschedulable", "reasons": ["Insufficient cpu"], "nodes": 6}
                | {"examples": ["n1", "n2", SCRIPT]}
            ],
            "reasonsLeftOut": 0,
        },
    },
    "brokenForSeconds": None,
    "reservation": {"gang": "shop/train", "queue": "", "pods": 4, "nodes": ["n1"], "heldForSeconds": 1.0}
    | {"failingForSeconds": None, "podsAwaited": 0},
    "isStale": False,
}
MEMBER: Explained = (
    explanation(
        "train-0",
        "gang",
        [
            decision(message="", plugins=["Gangs"], evaluated=6, feasible=2, fitted="n1", reasons=[], confinedTo=["n1"])
            | {"postFilter": "", "nominatedNode": "", "bestNodes": []}
        ],
        gang=GANG,
        summary="waits with its gang",
    ),
    "",
    FREE,
)
EXPLAINED: Explained = (
    explanation(
        "web-1",
        "unschedulable",
        [decision(), decision(attempt=1, message="earlier")],
        claims=CLAIMS,
        quota=QUOTA,
        shareQueue=SHARE_QUEUE,
    ),
    "",
    FREE,
)
PLACED: Explained = (
    explanation(
        "placed",
        "bound",
        [decision(outcome="bound", node="n0", message="", feasible=2, bestNodes=BEST, postFilter="")],
        queue=None,
        summary="is on n0, chosen among 2 nodes that fit, of 6",
    ),
    "",
    None,
)
NODE: dict[str, Any] = {
    "name": "n0",
    "unschedulable": True,
    "labels": {ZONE: "zone-1", "team": SCRIPT},
    "taints": [{"key": "dedicated", "value": SCRIPT, "effect": "NoSchedule"}],
    "amounts": {
        "cpu": {"requested": 2_400, "allocatable": 4_000},
        "memory": {"requested": 3 << 30, "allocatable": 8 << 30},
        "pods": {"requested": 3, "allocatable": 110},
    },
    "pods": [
        {"pod": "shop/placed", "priority": 0},
        {"pod": "bank/ledger", "priority": 9},
        *({"pod": f"shop/{name}", "priority": 0} for name in HOSTILE),
    ],
    "podsLeftOut": 0,
}
