"""Whether a workload came out right, from the apiserver's own lists and what the run itself did.

Nothing is overcommitted; each bound pod has one Scheduled event of its node; pods that were waited for have a node
still; and no pod is gone that the run did not delete and that nobody could have evicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.verify import overcommitted, wrong_events


@dataclass(slots=True)
class Ledger:
    """What the run did."""

    created: dict[str, int] = field(default_factory=dict)  # namespace/name of a pod -> priority
    deleted: set[str] = field(default_factory=set)  # namespace/name
    waited_for: set[str] = field(default_factory=set)  # namespace/name of pods that had a node
    highest_priority: int = 0  # of any pod


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found."""

    evicted: int
    problems: list[str]


def judge(ledger: Ledger, nodes: Sequence[Object], pods: Sequence[Object], scheduled: Sequence[Object]) -> Verdict:
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
        ],
    )


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
