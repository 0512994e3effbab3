"""Takes the names of nodes out of a pod's explanation, for users who may not list nodes.

They keep what they can read of the pod itself: the node that it is on, or was nominated for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def without_nodes(explanation: Mapping[str, Any]) -> dict[str, Any]:
    pod = explanation["pod"]
    own = {pod["nodeName"], pod["nominatedNodeName"]} - {""}
    decisions = [_decision(decision, own) for decision in explanation["decisions"]]
    return {**explanation, "decisions": decisions, "nearest": None}


def _decision(decision: Mapping[str, Any], own: set[str]) -> dict[str, Any]:
    known = own | ({decision["node"]} - {""})
    best = [
        {**node, "node": node["node"] if node["node"] in known else f"node {at}"}
        for at, node in enumerate(decision["bestNodes"], 1)
    ]
    reasons = [{**reason, "examples": []} for reason in decision["reasons"]]
    return {**decision, "bestNodes": best, "reasons": reasons, "values": []}
