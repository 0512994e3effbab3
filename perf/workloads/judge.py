"""Checks whether a workload's outcome is right, from the apiserver's own lists and a record of what the run did.

No node is overcommitted; each bound pod has one Scheduled Event for its node; pods that the run has waited for still
have a node; and no pod is missing that the run did not delete and that no other pod could have preempted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.verify import overcommitted, wrong_events


@dataclass(slots=True)
class Ledger:
    """Records what the run did with pods."""

    created: dict[str, int] = field(default_factory=dict)  # namespace/name of each pod created -> its priority
    deleted: set[str] = field(default_factory=set)  # namespace/name of pods deleted
    waited_for: set[str] = field(default_factory=set)  # namespace/name of pods that the run waited for until bound
    highest_priority: int = 0  # the highest priority of all pods created


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the check."""

    evicted: int
    problems: list[str]


def judge(
    ledger: Ledger,
    nodes: Sequence[Object],
    pods: Sequence[Object],
    scheduled: Sequence[Object],
    claims: Sequence[Object] = (),
) -> Verdict:
    """Compare the lists, which are taken after the scheduler has ended, with what was done."""
    present = {_key(pod) for pod in pods}
    gone = [key for key in ledger.created if key not in present and key not in ledger.deleted]
    lost = [key for key in gone if ledger.created[key] >= ledger.highest_priority]
    unbound = [key for pod in pods if (key := _key(pod)) in ledger.waited_for and not pod["spec"].get("nodeName")]
    return Verdict(
        evicted=len(gone) - len(lost),
        problems=[
            *(f"{key} is gone, and nobody may evict it" for key in lost),
            *(f"{key} is not bound" for key in unbound),
            *overcommitted(nodes, pods),
            *wrong_events(pods, scheduled),
            *allocated_twice(claims),
        ],
    )


def allocated_twice(claims: Sequence[Object]) -> list[str]:
    """Return a problem for each device that two claims have, though neither shares it or has access as an admin."""
    owners: dict[tuple[str, str, str], str] = {}  # driver, pool, device -> claim
    problems = []
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in allocation.get("devices", {}).get("results", ()):
            if result.get("adminAccess") or result.get("shareID"):
                continue
            device = result["driver"], result["pool"], result["device"]
            other = owners.setdefault(device, _key(claim))
            if other != _key(claim):
                problems.append(f"device {'/'.join(device)} is allocated to {other} and to {_key(claim)}")
    return problems


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
