"""A profile with a batch guest, played by both lanes."""

from __future__ import annotations

from typing import Any

from kscheduler.testing import make_node, make_pod
from tests.support.lanes import TwoLanes
from tests.wasm.batch.fake_guest import ListGuest, pack, unpack
from tests.wasm.batch.plugins import one

ZONE, HOSTNAME, TIER = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "tier"
USAGE = {
    "depends": ["pod", "node", "usage"],
    "pod": ["labels", "requests"],
    "table": ["usage", "allocatable"],
    "resources": ["cpu", "memory"],
    "labels": [TIER],
}


def rows_of(guest: ListGuest, question: Any) -> list[int]:
    return unpack("i", question["rows"]) if "rows" in question else list(range(len(guest.rows)))


def by_usage(guest: ListGuest, point: int, question: Any) -> Any:
    """Out: nodes of the pod's size of number; the score follows from all that it sees."""
    pod = question["pods"][0]
    wants = int((pod.get("labels") or {}).get("wants", "0"))
    rows = [guest.rows[row] for row in rows_of(guest, question)]
    tiers = [int(row["labels/tier"] or 0) for row in rows]
    if point == 3:
        reasons = [[2, f"tier {tier}"] for tier in range(4)]
        marks = [tier + 1 if (row["pods_n"] + tier) % 4 == wants else 0 for row, tier in zip(rows, tiers, strict=True)]
        return one(verdicts=bytes(marks), reasons=reasons)
    scores = [
        (17 * row["pods_n"] + 11 * tier + row["used/cpu"] // 100 + 5 * wants) % 101
        for row, tier in zip(rows, tiers, strict=True)
    ]
    return one(scores=pack("q", *scores))


def guest(points: list[str], normalize: str = "none", **describe: Any) -> ListGuest:
    return ListGuest(points, {**USAGE, "normalize": normalize, **describe}, by_usage)


class Play:
    """Pods and events, on both sides."""

    def __init__(self, lanes: TwoLanes) -> None:
        self.lanes = lanes
        self.pods = 0
        self.nodes: set[str] = set()
        for number in range(9):
            self.node(f"n{number}", number % 4, "4")

    def schedule(self, shapes: list[tuple[str, int, str]]) -> None:
        made = []
        for cpu, wants, other in shapes:
            pod = make_pod(f"p{self.pods}").req(cpu=cpu, memory="64Mi").label("wants", str(wants)).label("app", "a")
            if other == "near":
                pod = pod.preferred_pod_affinity(5, ZONE, {"app": "a"})
            elif other == "apart":
                pod = pod.pod_anti_affinity(HOSTNAME, {"app": "b"}).label("app", "b")
            made.append(pod.obj())
            self.pods += 1
        self.lanes.schedule(*made)

    def node(self, name: str, tier: int, cpu: str) -> None:
        self.nodes.add(name)
        made = make_node(name).capacity(cpu=cpu, memory="8Gi", pods=9).label(TIER, str(tier))
        self.lanes.set_node(made.label(ZONE, f"z{tier % 2}").obj())

    def gone(self, name: str) -> None:
        if name in self.nodes and len(self.nodes) > 1:
            self.nodes.discard(name)
            for uid in [uid for uid, node in self.lanes.placed.items() if node == name]:
                self.lanes.remove_pod(uid)
            self.lanes.remove_node(name)

    def ended(self, number: int) -> None:
        uids = list(self.lanes.placed)
        if uids:
            self.lanes.remove_pod(uids[number % len(uids)])
