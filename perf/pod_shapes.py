"""Defines kinds of pods for measured runs on a real control plane, and nodes in ten zones for them to spread over.

Each kind is a list of templates, from which pods are made in turn.
"""

from __future__ import annotations

from kscheduler.testing.controlplane import workload
from kscheduler.testing.controlplane.api import Object

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = 10
GROUPS = 100  # of pods that avoid each other


def zoned_nodes() -> list[Object]:
    return [workload.node(labels={ZONE: f"zone-{zone}"}) for zone in range(ZONES)]


def basic() -> list[Object]:
    return [workload.pod()]


def spread() -> list[Object]:
    """Hard: never five more in one zone than in another."""
    constraint = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    return [workload.pod(labels={"app": "spread"}, spec={"topologySpreadConstraints": [constraint]})]


def anti_affinity() -> list[Object]:
    """Groups of which no two share a host."""
    return [
        workload.pod(
            labels={"group": f"g{group}"},
            spec={"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_same(group)]}}},
        )
        for group in range(GROUPS)
    ]


def preferred() -> list[Object]:
    """Rather on hosts where others like them are."""
    term = {"weight": 1, "podAffinityTerm": _same(0)}
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    return [workload.pod(labels={"group": "g0"}, spec={"affinity": affinity})]


def _same(group: int) -> Object:
    return {"topologyKey": HOST, "labelSelector": {"matchLabels": {"group": f"g{group}"}}}


SHAPES = {"basic": basic, "spread": spread, "anti-affinity": anti_affinity, "preferred": preferred}
