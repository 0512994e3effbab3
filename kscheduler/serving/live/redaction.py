"""Takes the names of nodes out of a pod's explanation, for users who may not list nodes.

They keep what they can read of the pod itself: the node that it is on, or was nominated for. Pools of devices, which
are mostly named after their node, are left out, too, and so are other namespaces that borrow by their ElasticQuotas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kscheduler.explain.claims import MESSAGES


def without_nodes(explanation: Mapping[str, Any]) -> dict[str, Any]:
    pod = explanation["pod"]
    own = {pod["nodeName"], pod["nominatedNodeName"]} - {""}
    decisions = [_decision(decision, own) for decision in explanation["decisions"]]
    claims = explanation["claims"]
    if claims is not None:
        claims = _claims(claims, may_name_pools=bool(pod["nodeName"]))
    quota = explanation["quota"]
    if quota is not None:
        resources = [{**resource, "overMin": [], "overMinLeftOut": 0} for resource in quota["resources"]]
        quota = {**quota, "resources": resources}
    return {
        **explanation,
        "decisions": decisions,
        "gang": _gang(explanation.get("gang")),
        "reservations": [{**held, "nodes": []} for held in explanation.get("reservations", ())],
        "claims": claims,
        "quota": quota,
        "nearest": None,
    }


def _decision(decision: Mapping[str, Any], own: set[str]) -> dict[str, Any]:
    known = own | ({decision["node"]} - {""})
    best = [
        {**node, "node": node["node"] if node["node"] in known else f"node {at}"}
        for at, node in enumerate(decision["bestNodes"], 1)
    ]
    hidden = {"confinedTo": [], "confinedToLeftOut": 0, "values": []}
    fitted = "a node" if decision.get("fitted") else ""
    return {**decision, **hidden, "bestNodes": best, "reasons": _reasons(decision["reasons"]), "fitted": fitted}


def _reasons(reasons: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**reason, "examples": []} for reason in reasons]


def _gang(gang: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if gang is None:
        return None
    latest, reserved = gang["latestAttempt"], gang["reservation"]
    stopper = None if latest is None else latest["stoppedBy"]
    if stopper is not None:
        latest = {**latest, "stoppedBy": {**stopper, "reasons": _reasons(stopper["reasons"])}}
    return {**gang, "latestAttempt": latest, "reservation": None if reserved is None else {**reserved, "nodes": []}}


def _claims(claims: Mapping[str, Any], *, may_name_pools: bool) -> dict[str, Any]:
    findings = [{**finding, "examples": []} for finding in claims["findings"]]
    for finding in findings:
        if finding["reason"] in ("pool", "error"):  # whose details name pools
            finding.update(detail="", message=MESSAGES[finding["reason"]])
    listed = claims["claims"]
    if not may_name_pools:
        listed = [
            {**claim, "devices": [{**device, "pool": ""} for device in claim["devices"]]} for claim in claims["claims"]
        ]
    return {**claims, "claims": listed, "findings": findings}
